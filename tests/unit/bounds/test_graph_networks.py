"""Bounds of graph networks against values worked by hand and against the growth that their theorems state."""

import math

import pytest
import torch

from common.bounds.graph_networks import (
    degree_power,
    garg_bound,
    half_degree_power,
    liao_gcn_bound,
    liao_message_bound,
    linear_bound,
    linear_constant,
    message_degree_power,
    message_growth,
    printed_linear_bound,
    spectral_bound,
    spectral_mean,
    spectral_power,
)

SPECTRAL = torch.tensor([[2.0, 0.5, 3.0]], dtype=torch.float64)
FROBENIUS = torch.tensor([[4.0, 1.5, 3.0]], dtype=torch.float64)  # ranks 2, 3, 1
COMMON = {"width": 8, "feature_norm": 2.0, "examples": 100, "margin": 0.5, "delta": 0.1}


def test_table_1_at_four_layers() -> None:
    assert float(degree_power(5, 4)) == 125
    assert float(half_degree_power(4, 4)) == 8
    assert float(message_degree_power(4, 4)) == pytest.approx(4**2.5)
    assert float(spectral_power(3, 4)) == 27
    assert float(spectral_mean(3, 4)) == pytest.approx((3 + 9 + 27) / 3)
    assert float(message_degree_power(50, 2)) == 1  # at two layers the theorem knows no degree


def test_equation_12_is_the_sum_over_layers() -> None:
    value = spectral_bound(
        SPECTRAL, FROBENIUS, neurons=torch.tensor([9.0, 9.0, 4.0]), feature_norm=5.0, diffusion_norm=2.0, examples=100
    )
    product = 2 * 0.5 * 3
    terms = [math.sqrt(d * 25 * 2**4 * rank**2 * product**2 / 100) for d, rank in ((9, 2), (9, 3), (4, 1))]
    assert value.tolist() == pytest.approx([sum(terms)])


def test_equation_12_with_another_number_of_diffusions() -> None:
    arguments = {"neurons": torch.ones(3), "feature_norm": 1.0, "diffusion_norm": 7.0, "examples": 10}
    full, fewer = (spectral_bound(SPECTRAL, FROBENIUS, **arguments, diffusions=k) for k in (None, 1))
    assert float(full / fewer) == pytest.approx(7.0)


def test_liao_theorem_3_2_by_hand() -> None:
    value = liao_gcn_bound(SPECTRAL, FROBENIUS, degree=5.0, **COMMON)
    complexity = 4 * 5**2 * 9 * 8 * math.log(24) * 3.0**2 * (4 + 9 + 1)
    assert float(value) == pytest.approx(math.sqrt((complexity + math.log(100 * 3 / 0.1)) / (0.25 * 100)))


def test_liao_theorem_3_4_by_hand_on_both_sides_of_its_maximum() -> None:
    xi = 1 + 5 * 0.5 + (5 * 0.5) ** 2  # four layers
    weights = 16 + 2.25 + 9
    for spectral, larger in (
        (SPECTRAL, (2 * 3 * xi) ** 1.25),
        (torch.tensor([[2.0, 0.01, 3.0]]).double(), 0.01**-5),
    ):
        value = liao_message_bound(spectral, FROBENIUS, depth=4, degree=5.0, **COMMON)
        complexity = (2 * larger) ** 2 * 16 * 8 * math.log(32) * weights
        expected = math.sqrt((complexity + math.log(100 * 4 / 0.1)) / 25)
        assert float(value) == pytest.approx(expected)


def test_message_growth_is_the_geometric_sum_also_where_its_ratio_is_one() -> None:
    assert float(message_growth(0.5, 6.0, 4)) == pytest.approx(((6 * 0.5) ** 3 - 1) / (6 * 0.5 - 1))
    assert float(message_growth(0.5, 2.0, 4)) == 3


def test_garg_by_hand() -> None:
    value = garg_bound(SPECTRAL, depth=3, degree=4.0, **COMMON)
    growth = 1 + 4 * 0.5
    messages = 4 * (2 * 2) * growth
    size = 4 + 0.5 * messages
    inner = max(size, growth * math.sqrt(8) * max(4, messages * 0.5))
    complexity = 8 * 3 * size * math.sqrt(math.log(3 * 10 * inner) / 25)
    expected = 1 / 50 + complexity * 1.0 + math.sqrt(math.log(10) / 100)
    assert float(value) == pytest.approx(expected, rel=1e-12)


def test_garg_with_a_limit_on_activations_grows_with_the_degree_once() -> None:
    at = [float(garg_bound(SPECTRAL, depth=6, degree=d, activation_limit=1.0, **COMMON)) for d in (1e6, 1e7)]
    assert math.log10(at[1] / at[0]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("depth", [3, 4, 6])
def test_powers_of_the_degree_are_those_of_the_theorems(depth: int) -> None:
    norms = torch.full((1, depth), 1.5, dtype=torch.float64)
    gcn = [float(liao_gcn_bound(norms, norms, degree=d, **COMMON)) for d in (1e6, 1e8)]
    message = [float(liao_message_bound(SPECTRAL, FROBENIUS, depth=depth, degree=d, **COMMON)) for d in (1e6, 1e8)]
    garg = [float(garg_bound(SPECTRAL, depth=depth, degree=d, **COMMON)) for d in (1e6, 1e8)]
    assert math.log10(gcn[1] / gcn[0]) / 2 == pytest.approx((depth - 1) / 2, rel=1e-3)
    assert math.log10(message[1] / message[0]) / 2 == pytest.approx((depth + 1) * (depth - 2) / depth, rel=1e-3)
    logarithm = math.sqrt(math.log(1e8) / math.log(1e6))  # d^(l−1) times the root of log d^(2l−3)
    assert garg[1] / garg[0] == pytest.approx(1e2 ** (depth - 1) * logarithm, rel=0.1)


def test_the_toys_bounds_differ_by_the_root_of_its_constant() -> None:
    constant = linear_constant(1.0, 6.0, 3.0, 9.0)
    assert float(constant) == 6
    assert float(linear_bound(constant, 4)) == 3
    assert float(printed_linear_bound(constant, 4)) == pytest.approx(math.sqrt(1.5))


def test_members_are_bounded_each_on_its_own() -> None:
    both = liao_gcn_bound(torch.cat([SPECTRAL, 2 * SPECTRAL]), torch.cat([FROBENIUS, FROBENIUS]), degree=5.0, **COMMON)
    alone = liao_gcn_bound(2 * SPECTRAL, FROBENIUS, degree=5.0, **COMMON)
    assert float(both[1]) == float(alone)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: degree_power(3, 1), "two layers"),
        (lambda: liao_gcn_bound(SPECTRAL, FROBENIUS[:, :2], degree=5.0, **COMMON), "differ"),
        (lambda: liao_gcn_bound(SPECTRAL, FROBENIUS, degree=5.0, **{**COMMON, "delta": 1.0}), "delta"),
        (lambda: liao_gcn_bound(SPECTRAL, FROBENIUS, degree=5.0, **{**COMMON, "examples": 0}), "examples"),
        (lambda: garg_bound(SPECTRAL[:, :2], depth=3, degree=4.0, **COMMON), "three weights"),
    ],
)
def test_what_is_out_of_range_is_one_sentence(call, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()

"""What makes a sharp global and a flat minimum a pair."""

import pytest
import torch

from replications.pacgen.shared.minima import Minima, find_minima
from replications.pacgen.shared.pair_search import PairSearch, _is_global, _what_is_missing, flat_partner


def pairs_of(losses: list[float], sharpness: list[float]) -> Minima:
    hessians = torch.diag_embed(torch.tensor(sharpness, dtype=torch.float64)[:, None].expand(-1, 2))
    return Minima(torch.zeros(len(losses), 2), torch.tensor(losses, dtype=torch.float64), hessians)


@pytest.mark.parametrize(
    ("losses", "sharpness", "expected"),
    [
        ([0.30, 0.35, 0.36], [2.0, 1.5, 0.9], 2),
        ([0.30], [2.0], "single_minimum"),
        ([0.30, 0.35], [2.0, 1.5], "none_flatter"),
        ([0.30, 0.55], [2.0, 0.5], "flat_too_high"),
        ([0.60, 0.70], [2.0, 0.5], "flat_guesses"),
    ],
)
def test_the_flat_partner_is_much_flatter_slightly_higher_and_no_guess(losses, sharpness, expected):
    minima = pairs_of(losses, sharpness)
    if isinstance(expected, int):
        assert flat_partner(minima) == expected
    else:
        assert flat_partner(minima) is None
        assert _what_is_missing(minima, 2.0, 0.15) == expected


def test_a_minimum_that_the_border_undercuts_is_not_global():
    def tilted(w: torch.Tensor) -> torch.Tensor:
        return (w[:, 0].square() - 4).square() / 10 + 3 * w[:, 1].square() - 0.5 * (w[:, 0] - 4.9).clamp(min=0) * 1000

    search = PairSearch(half_width=5.0, check_points=101)
    minima = find_minima(tilted, half_width=5.0, count=41)
    assert float(minima.losses[0]) == pytest.approx(0.0, abs=1e-9)
    assert not _is_global(tilted, minima, search)
    assert _is_global(tilted, minima, PairSearch(half_width=4.5, check_points=101))

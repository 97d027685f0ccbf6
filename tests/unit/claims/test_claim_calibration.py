"""How often chance alone gives a verdict: 10,000 synthetic results each, five seeds, no effect."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from common.claims.association import correlation, difference, slope
from common.claims.intervals import Bounds, bootstrap, clopper_pearson, over_seeds, student, worst_over_settings

DRAWS, SEEDS = 10_000, 5
ALLOWED = 0.03
Values = NDArray[np.float64]


def metric(stream: np.random.Generator, settings: int, shared: float, *, skewed: bool = False) -> Values:
    """A metric that nothing acts on but its own effect of the setting, `shared` times as large as a seed's noise."""
    effect, noise = (stream.normal(size=(DRAWS, n, settings)) for n in (1, SEEDS))
    return shared * np.exp(effect) + np.exp(noise) if skewed else shared * effect + noise


def false_rate(low: Values, high: Values, boundary: float = 0.0) -> float:
    """The larger of the rates of a false "above" and a false "below"."""
    return max(float((low > boundary).mean()), float((high < boundary).mean()))


@pytest.mark.parametrize("settings", [1, 6])
def test_mean_over_settings_of_no_effect_is_seldom_called_one(random: np.random.Generator, settings: int) -> None:
    effect = 5 * random.normal(size=(DRAWS, 1, settings))
    values = effect - effect.mean(-1, keepdims=True) + random.normal(size=(DRAWS, SEEDS, settings))
    bounds = over_seeds(values.mean(-1))
    assert 0.02 < false_rate(bounds.low, bounds.high) <= ALLOWED


def test_paired_difference_of_equal_arms_is_seldom_called_one(random: np.random.Generator) -> None:
    setting = 5 * random.normal(size=(DRAWS, 1, 4))
    seed = 3 * random.normal(size=(DRAWS, SEEDS, 1))
    of, minus = (setting + seed + random.normal(size=(DRAWS, SEEDS, 4)) for _ in range(2))
    bounds = over_seeds((of - minus).mean(-1))
    assert 0.02 < false_rate(bounds.low, bounds.high) <= ALLOWED


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_share_is_seldom_called_larger_or_smaller_than_it_is(random: np.random.Generator, chance: float) -> None:
    bounds = clopper_pearson(random.binomial(SEEDS, chance, DRAWS).astype(float), SEEDS)
    assert false_rate(bounds.low, bounds.high, chance) <= ALLOWED


@pytest.mark.parametrize(("settings", "shared"), [(2, 0.0), (6, 0.0), (12, 1.0), (6, 3.0)])
def test_worst_case_at_its_boundary_is_seldom_called_better(
    random: np.random.Generator, settings: int, shared: float
) -> None:
    effect = shared * random.normal(size=(DRAWS, 1, settings))
    values = effect + random.normal(size=(DRAWS, SEEDS, settings))
    truth = np.mean([(effect[:, 0] + random.normal(size=(DRAWS, settings))).max(-1) for _ in range(100)], axis=0)
    largest = worst_over_settings(values, largest=True)
    smallest = worst_over_settings(-values, largest=False)
    assert (largest.high < truth).mean() <= ALLOWED
    np.testing.assert_allclose(smallest.low, -largest.high)
    np.testing.assert_allclose(smallest.high, -largest.low)


@pytest.mark.parametrize("shared", [0.0, 1.0, 10.0])
@pytest.mark.parametrize(
    "measured", [partial(correlation, method="spearman"), partial(correlation, method="pearson"), slope]
)
@pytest.mark.parametrize("skewed", [False, True])
def test_unrelated_metrics_that_share_settings_are_seldom_called_related(
    random: np.random.Generator, shared: float, measured: Callable[..., Bounds], skewed: bool
) -> None:
    bounds = measured(*(metric(random, 6, shared, skewed=skewed) for _ in range(2)), (6,))
    assert false_rate(bounds.low, bounds.high) <= ALLOWED


def test_t_over_within_seed_correlations_would_be_wrong_in_a_quarter_of_draws(random: np.random.Generator) -> None:
    x, y = (stats.rankdata(metric(random, 6, 10.0), axis=-1) for _ in range(2))
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    within = (x * y).sum(-1) / np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    assert (student(within).low > 0).mean() > 0.2


@pytest.mark.parametrize("shared", [0.0, 10.0])
def test_axis_and_unrelated_metric_are_seldom_called_correlated(random: np.random.Generator, shared: float) -> None:
    axis = np.broadcast_to(2.0 ** np.arange(6), (DRAWS, SEEDS, 6))
    y = metric(random, 6, shared)
    for bounds in (correlation(axis, y, (6,), method="spearman"), slope(axis, y, (6,))):
        assert false_rate(bounds.low, bounds.high) <= ALLOWED


def test_two_axes_whose_levels_have_effects_count_as_few_settings(random: np.random.Generator) -> None:
    def additive() -> Values:
        rows, columns = (10 * random.normal(size=(DRAWS, 1, *shape)) for shape in ((3, 1), (1, 3)))
        return (rows + columns).reshape(DRAWS, 1, 9) + random.normal(size=(DRAWS, SEEDS, 9))

    x, y = additive(), additive()
    grid = correlation(x[:4000], y[:4000], (3, 3), method="pearson")
    assert false_rate(grid.low, grid.high) <= ALLOWED
    flat = correlation(x[:4000], y[:4000], (9,), method="pearson")
    assert false_rate(flat.low, flat.high) > 0.05, "nine independent settings, they are not"


@pytest.mark.parametrize("method", ["spearman", "pearson"])
@pytest.mark.parametrize("shared", [0.0, 10.0])
def test_metrics_that_only_follow_a_third_are_seldom_called_related_given_it(
    random: np.random.Generator, method: Any, shared: float
) -> None:
    third, x, y = (metric(random, 6, shared) for _ in range(3))
    given = third[..., None]
    bounds = correlation(x + third, y + third, (6,), method=method, given=given)
    assert false_rate(bounds.low, bounds.high) <= ALLOWED


@pytest.mark.parametrize("weight", [0.5, 1.0, 2.0])
def test_seeds_with_correlations_of_random_sign_are_seldom_called_correlated(
    random: np.random.Generator, weight: float
) -> None:
    common_x, common_y = (random.normal(size=(DRAWS, 1, 6)) for _ in range(2))
    own = random.normal(size=(DRAWS, SEEDS, 6))
    sign = random.normal(size=(DRAWS, SEEDS, 1))
    x = common_x + weight * own
    y = common_y + weight * sign * own + 0.1 * random.normal(size=(DRAWS, SEEDS, 6))
    bounds = correlation(x, y, (6,), method="pearson")
    assert false_rate(bounds.low, bounds.high) <= ALLOWED


@pytest.mark.parametrize(
    ("weight", "opposite", "method"),
    [(0.0, 0.0, "spearman"), (0.5, 0.0, "spearman"), (2.0, 0.0, "spearman"), (0.0, -10.0, "pearson")],
)
def test_equally_good_predictors_are_seldom_called_different_even_where_one_opposes_the_other(
    random: np.random.Generator, weight: float, opposite: float, method: Any
) -> None:
    y, first, second = (metric(random, 6, 10.0) for _ in range(3))
    bounds = difference((weight * y + first, y), (weight * y + opposite * first + second, y), (6,), method=method)
    assert false_rate(bounds.low, bounds.high) <= ALLOWED


def test_bootstrap_above_twenty_seeds_holds_its_level(random: np.random.Generator) -> None:
    values = random.normal(size=(DRAWS // 2, 21))
    bounds = over_seeds(values)
    assert 0.015 < false_rate(bounds.low, bounds.high) <= 0.033
    assert not np.allclose(bounds.low, student(values).low), "above twenty seeds the interval is no t interval"
    np.testing.assert_array_equal(bounds.low, bootstrap(values).low)


def test_strong_correlation_of_settings_is_found(random: np.random.Generator) -> None:
    effect, other = (random.normal(size=(DRAWS, 1, 8)) for _ in range(2))
    x = 10 * effect + random.normal(size=(DRAWS, SEEDS, 8))
    y = 10 * (0.97 * effect + 0.243 * other) + random.normal(size=(DRAWS, SEEDS, 8))
    assert (correlation(x[:2000], y[:2000], (8,), method="spearman").low > 0).mean() > 0.95


def test_slope_on_an_axis_is_least_squares_on_the_seed_means(random: np.random.Generator) -> None:
    axis = np.arange(7.0)
    y = 2 * axis + random.normal(size=7)  # what the seeds share outweighs what they do not
    values = y + 1e-3 * random.normal(size=(SEEDS, 7))
    bounds = slope(np.broadcast_to(axis, (SEEDS, 7)), values, (7,))
    fit = stats.linregress(axis, values.mean(0))
    half = stats.t.isf(0.025, 5) * fit.stderr
    np.testing.assert_allclose(
        [bounds.estimate, bounds.low, bounds.high], fit.slope + half * np.array([0, -1, 1]), rtol=1e-4
    )


def test_partial_correlation_is_the_textbook_one(random: np.random.Generator) -> None:
    x, y, z = random.normal(size=(3, 1, 9))
    rxy, rxz, ryz = (np.corrcoef(a[0], b[0])[0, 1] for a, b in ((x, y), (x, z), (y, z)))
    expected = (rxy - rxz * ryz) / np.sqrt((1 - rxz**2) * (1 - ryz**2))
    found = correlation(x, y, (9,), method="pearson", given=z[..., None]).estimate
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("n", [5, 12])
def test_proportion_interval_is_the_exact_one(n: int) -> None:
    for hits in range(n + 1):
        bounds = clopper_pearson(np.array(float(hits)), n)
        expected = stats.binomtest(hits, n).proportion_ci(method="exact")
        np.testing.assert_allclose([bounds.low, bounds.high], [expected.low, expected.high])
        assert bounds.high - bounds.low > 0.2

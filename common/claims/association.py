"""Correlations and slopes over settings within each seed, with intervals that hold for other settings and seeds.

Estimate: the correlation (or slope) within each seed over the settings, averaged over seeds.

Interval: two sources of chance, each taken as the sample that it is.

- *Settings*: the distribution of the estimate when whole settings are exchanged (`common.claims.permutation`). Its
  variance V makes 1/V + 1 the effective number of settings: their true number where seeds share all of the settings'
  effects, nearly seeds × settings where they share none. A correlation errs on Fisher's z scale by the larger of
  1.96 / √(1/V − 2) and the exact quantile of the exchanges; a slope by its standard error from V times t, and zero
  stays in its interval unless the exchanges rule it out.
- *Seeds*: the standard error of the mean of the within-seed values.
- *Both* (seeds differ in their true correlation and share settings): the part of the first that the seeds share and
  the second add up, at t with Satterthwaite's degrees of freedom. Never less than the settings alone.

No bootstrap: six settings are too few for its tails, and over five seeds it is wrong in 8 % of draws.

False "above 0" without an effect, nominal 2.5 %, five seeds, 10,000 draws (standard error 0.16 %); the sd of the effect
that the seeds of a setting share is 0, 1 or 10 times that of a seed's own noise:

    settings                   6                    8
    shared / own noise         0     1     10       0     1     10
    Spearman                   0.7   0.6   2.2      0.7   1.0   2.4   %
    Pearson                    0.8   1.2   1.7      0.9   1.5   2.1   %
    Spearman partial           0.9   1.4   1.4      1.5   1.8   2.7   %
    Pearson partial            0.7   1.1   0.8      0.9   1.5   1.7   %
    slope on a metric          0.3   0.8   1.9      0.4   1.0   2.4   %
    slope on an axis           0.6   2.0   2.6      0.8   2.2   2.6   %
    difference (Spearman)      0.3   0.3   1.2      0.3   0.3   1.4   %

and at most 2.8 % where seeds have correlations of their own of random sign. Power to find a true correlation of the
settings' effects above 0 at shared / own = 1, 3, 10 (noise also weakens the correlation that there is to find):

    settings, correlation      6, 0.9              6, 0.97             8, 0.9              8, 0.97
    Spearman                   12  51  61          14  70  86          26  78  87          34  92  98   %
    Pearson                    18  58  72          23  80  94          36  87  92          43  97  99   %

Arrays are […, seeds, settings]; `given` is […, seeds, settings, quantities]; `levels` gives the grid of the settings,
row-major. No profile may be constant over the settings (`varies`).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from common.claims.intervals import TAIL, Array, Bounds, t_quantile
from common.claims.permutation import Levels, covariances, null_quantiles, shared_fraction, unit_profiles, without

Method = Literal["spearman", "pearson"]
RANK_INFLATION = 1.06  # variance of a rank correlation on the z scale, times (settings − 3): Fieller et al. 1957


def varies(values: Array, given: Array | None = None) -> NDArray[np.bool_]:
    """Whether each seed's profile varies over the settings, also once `given` is taken out; […, seeds]."""
    centred = values - values.mean(-1, keepdims=True)
    left = centred if given is None else without(values, given)
    return np.asarray(np.linalg.norm(left, axis=-1) > 1e-9 * np.abs(values).max(-1))


def ranks(values: Array, axis: int = -1) -> Array:
    """Ranks over the settings, ties averaged: 1 + how many are smaller + half of how many others are equal."""
    moved = np.moveaxis(np.asarray(values, dtype=float), axis, -1)
    one, other = moved[..., :, None], moved[..., None, :]
    return np.moveaxis(((other < one).sum(-1) + (other <= one).sum(-1) + 1) / 2, -1, axis)


def correlation_by_seed(x: Array, y: Array, *, method: Method, given: Array | None = None) -> Array:
    """(Partial) correlation within each seed; […, seeds]."""
    x, y, _ = _prepared(x, y, method, given)
    return np.asarray((x * y).sum(-1))


def slope_by_seed(x: Array, y: Array, *, given: Array | None = None) -> Array:
    """Least-squares slope of y on x (and `given`) within each seed; […, seeds]."""
    x, y = _residuals(x, y, given)
    return np.asarray((x / (x * x).sum(-1, keepdims=True) * y).sum(-1))


def correlation(x: Array, y: Array, levels: Levels, *, method: Method, given: Array | None = None) -> Bounds:
    """(Partial) correlation within seeds, averaged over seeds."""
    by_seed = correlation_by_seed(x, y, method=method, given=given)
    x, y, quantities = _prepared(x, y, method, given)
    settings, seeds = x.shape[-1], x.shape[-2]
    estimate = by_seed.mean(-1)
    # n settings less the g quantities given: the residuals live in fewer dimensions than the exchanges know of.
    lost = (settings - 1) / (settings - 1 - quantities)
    covariance = covariances(x, y, levels)[0].sum(-3) * lost
    largest = 1 - 6 / (settings * (settings**2 - 1)) if method == "spearman" else 1 - 1e-12
    z_by_seed = np.arctanh(np.clip(by_seed, -largest, largest))
    z = np.arctanh(np.clip(estimate, -largest, largest))
    inflation = RANK_INFLATION if method == "spearman" else 1.0
    normal = _z_error(covariance.mean((-1, -2)), inflation)
    ends = []
    for quantile in null_quantiles(x, y, levels):
        exact = np.arctanh(np.clip(quantile * np.sqrt(lost), 0, 1 - 1e-15))
        from_settings = np.maximum(normal, exact * (inflation if quantities else 1.0))
        ends.append(_both_ways(from_settings, np.inf, shared_fraction(covariance), z_by_seed, seeds))
    low, high = np.tanh(z - ends[0]), np.tanh(z + ends[1])
    return Bounds(estimate, np.minimum(low, estimate), np.maximum(high, estimate))


def slope(x: Array, y: Array, levels: Levels, *, given: Array | None = None) -> Bounds:
    """Least-squares slope of y on x (and `given`) within seeds, averaged over seeds."""
    seeds, quantities = x.shape[-2], 0 if given is None else given.shape[-1]
    by_seed = slope_by_seed(x, y, given=given)
    x, y = _residuals(x, y, given)
    weights = x / (x * x).sum(-1, keepdims=True)
    by_stratum, dimensions = covariances(weights, y - by_seed[..., None] * x, levels)
    variances = by_stratum.mean((-1, -2))
    total = variances.sum(-1)
    effective = total**2 / (variances**2 / dimensions).sum(-1)
    free = effective - 1 - quantities
    deviation = np.sqrt(total * effective / np.where(free > 0, free, np.nan))
    from_settings = np.where(free > 0, t_quantile(free) * deviation, np.inf)
    half = _both_ways(from_settings, free, shared_fraction(by_stratum.sum(-3)), by_seed, seeds)
    estimate = by_seed.mean(-1)
    # Zero stays in the interval unless the exchanges rule it out: an exact test of "no effect" for heavy tails too.
    lost = (x.shape[-1] - 1) / (x.shape[-1] - 1 - quantities)
    upper, lower = (quantile * np.sqrt(lost) for quantile in null_quantiles(weights, y, levels))
    low = np.where((estimate > 0) & (estimate <= upper), np.minimum(estimate - half, 0), estimate - half)
    high = np.where((estimate < 0) & (-estimate <= lower), np.maximum(estimate + half, 0), estimate + half)
    return Bounds(estimate, low, high)


def difference(
    of: tuple[Array, Array], minus: tuple[Array, Array], levels: Levels, *, method: Method, given: Array | None = None
) -> Bounds:
    """Difference of two correlations over the same settings and seeds.

    The two intervals are combined by the method of variance estimates recovery (Zou 2007). A negative dependence of the
    two correlations widens the interval; no credit is taken for a positive one, which six settings cannot establish.
    """
    first = correlation(*of, levels, method=method, given=given)
    second = correlation(*minus, levels, method=method, given=given)
    dependence = np.minimum(_dependence(of, minus, method, given), 0)
    estimate = first.estimate - second.estimate
    down = _recovered(first.estimate - first.low, second.high - second.estimate, dependence)
    up = _recovered(first.high - first.estimate, second.estimate - second.low, dependence)
    return Bounds(estimate, estimate - down, estimate + up)


def _prepared(x: Array, y: Array, method: Method, given: Array | None) -> tuple[Array, Array, int]:
    """Unit profiles of x and y (of their ranks), `given` taken out, and how many quantities that were."""
    if method == "spearman":
        x, y = ranks(x), ranks(y)
        given = ranks(given, axis=-2) if given is not None else None
    if given is None:
        return unit_profiles(x), unit_profiles(y), 0
    return unit_profiles(without(x, given)), unit_profiles(without(y, given)), given.shape[-1]


def _residuals(x: Array, y: Array, given: Array | None) -> tuple[Array, Array]:
    """x and y about their means over the settings, `given` taken out."""
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    return (x, y) if given is None else (without(x, given), without(y, given))


def _z_error(variance: Array, inflation: float) -> Array:
    from scipy import stats

    free = 1 / variance - 2
    return np.where(free > 0, float(stats.norm.isf(TAIL)) * np.sqrt(inflation / np.where(free > 0, free, 1.0)), np.inf)


def _both_ways(from_settings: Array, settings_free: Array | float, shared: Array, by_seed: Array, seeds: int) -> Array:
    """Half-width from settings and seeds together, never less than from the settings alone."""
    if seeds < 2:
        return from_settings
    common = shared * (from_settings / t_quantile(settings_free)) ** 2
    own = by_seed.var(-1, ddof=1) / seeds
    spread = own**2 / (seeds - 1) + np.where(np.isfinite(common), common, 0) ** 2 / settings_free
    free = (common + own) ** 2 / np.where(spread > 0, spread, 1.0)
    joint = t_quantile(np.where(spread > 0, free, np.inf)) * np.sqrt(common + own)
    return np.asarray(np.maximum(from_settings, joint))


def _dependence(of: tuple[Array, Array], minus: tuple[Array, Array], method: Method, given: Array | None) -> Array:
    """Correlation of the two estimates' influence functions over the settings, averaged over seeds."""
    influences = []
    for pair in (of, minus):
        x, y, _ = _prepared(*pair, method, given)
        by_seed = (x * y).sum(-1, keepdims=True)
        influences.append((x * y - by_seed * (x * x + y * y) / 2).mean(-2))
    first, second = influences
    scale = np.sqrt((first**2).sum(-1) * (second**2).sum(-1))
    return np.asarray(np.where(scale > 0, (first * second).sum(-1) / np.where(scale > 0, scale, 1.0), -1.0))


def _recovered(first: Array, second: Array, dependence: Array) -> Array:
    return np.sqrt(np.maximum(first**2 + second**2 - 2 * dependence * first * second, 0))

"""Settings as a sample: what chance can do when whole settings are exchanged.

The seeds of one setting share its effect: five seeds at six batch sizes are not thirty independent points. Two
metrics that have nothing to do with each other, each with its own effect of the setting, then correlate about as
strongly within every seed, with the same sign: a t interval over the five within-seed correlations calls that a
finding in 26 to 29 % of draws. What varies is the assignment of settings, so the null distribution is taken from
exchanging whole settings of one metric against the other, all seeds at once: exact whatever the effects and however
much of them the seeds share.

Where the settings form a grid of several axes, the settings of one row share the row's effect as well, so levels are
exchanged axis by axis. The group that does this splits profiles over the settings into the strata of an analysis of
variance (main effects, interactions), and by Schur's lemma the mean over the group of <a, πb> <c, πd> is
Σ_strata <a, c> <b, d> / dimension.

Arrays are […, seeds, settings], the settings in row-major order of `levels`.
"""

import itertools
import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from common.claims.intervals import TAIL, Array

Levels = tuple[int, ...]
MAXIMAL_REARRANGEMENTS = 5040  # all of seven settings
SMALLEST_GROUP = math.ceil(1 / TAIL)  # fewer cannot show anything at the 2.5 % level
_CHUNK = 4_000_000


def unit_profiles(values: Array) -> Array:
    """Each seed's profile over the settings, centred and of length one."""
    centred = values - values.mean(-1, keepdims=True)
    return np.asarray(centred / np.linalg.norm(centred, axis=-1, keepdims=True))


def without(values: Array, given: Array) -> Array:
    """What is left of each seed's centred profile after regression on `given` […, seeds, settings, quantities]."""
    centred = values - values.mean(-1, keepdims=True)
    basis = _basis(given)
    fitted = np.einsum("...sg,...g->...s", basis, np.einsum("...sg,...s->...g", basis, centred))
    return np.asarray(centred - fitted)


def rank_of(given: Array) -> NDArray[np.int64]:
    """How many of the quantities given […, settings, quantities] differ, beside each other and from a constant."""
    return np.asarray((np.abs(_basis(given)).max(-2) > 0).sum(-1))


def _basis(given: Array) -> Array:
    """Orthonormal columns for what is given, centred; zeros where it says nothing of its own."""
    centred = given - given.mean(-2, keepdims=True)
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    scale = np.maximum(sizes[..., :1], np.abs(given).max((-2, -1), initial=0)[..., None])
    return np.asarray(left * (sizes > 1e-9 * scale)[..., None, :])


def strata(values: Array, levels: Levels) -> list[tuple[Array, int]]:
    """Each profile's part in every stratum, with the stratum's dimension; the parts add up to the centred profile."""
    grid = values.reshape(*values.shape[:-1], *levels)
    first = values.ndim - 1
    parts = []
    for chosen in _subsets(len(levels)):
        part, dimension = grid, 1
        for axis, count in enumerate(levels):
            mean = part.mean(first + axis, keepdims=True)
            part = part - mean if axis in chosen else np.broadcast_to(mean, part.shape)
            dimension *= count - 1 if axis in chosen else 1
        parts.append((part.reshape(values.shape), dimension))
    return parts


def covariances(left: Array, right: Array, levels: Levels) -> tuple[Array, NDArray[np.int64]]:
    """Covariance of <left_k, π right_k> and <left_l, π right_l> over the exchanges π, by stratum.

    Returns:
        Array […, strata, seeds, seeds] and the dimension of each stratum.
    """
    parts, dimensions = [], []
    for (a, dimension), (b, _) in zip(strata(left, levels), strata(right, levels), strict=True):
        gram = np.einsum("...ks,...ls->...kl", a, a) * np.einsum("...ks,...ls->...kl", b, b)
        parts.append(gram / dimension)
        dimensions.append(dimension)
    return np.stack(parts, axis=-3), np.array(dimensions)


def shared_fraction(covariance: Array) -> Array:
    """Share of the variance of a mean over seeds that the seeds have in common, from […, seeds, seeds]."""
    count = covariance.shape[-1]
    total = covariance.mean((-1, -2))
    if count < 2:
        return np.ones_like(total)
    between = covariance.sum((-1, -2)) - np.trace(covariance, axis1=-2, axis2=-1)
    return np.asarray(np.clip(between / (count * (count - 1)), 0, total) / total)


def null_quantiles(left: Array, right: Array, levels: Levels) -> tuple[Array, Array]:
    """Upper and (negated) lower `TAIL` quantile, over the exchanges, of the mean over seeds of <left_k, π right_k>.

    At most a share `TAIL` of the exchanges lies beyond each, the observed arrangement counted: an exact test. With
    several axes the levels are exchanged within each axis (if that gives enough exchanges) and the settings as a
    whole, and the larger quantile counts.
    """
    settings = left.shape[-1]
    tables = [_exchanges((settings,))]
    if len(levels) > 1 and len(_exchanges(levels)) >= SMALLEST_GROUP:
        tables.append(_exchanges(levels))
    products = np.einsum("...ks,...kt->...st", left, right).reshape(-1, settings, settings) / left.shape[-2]
    upper = np.max([_quantile(products, table) for table in tables], axis=0)
    lower = np.max([_quantile(-products, table) for table in tables], axis=0)
    return upper.reshape(left.shape[:-2]), lower.reshape(left.shape[:-2])


def _quantile(products: Array, table: NDArray[np.int64]) -> Array:
    beyond = int(TAIL * len(table))
    quantile = np.empty(len(products))
    step = max(1, _CHUNK // len(table))
    for start in range(0, len(products), step):
        chunk = products[start : start + step]
        sums = np.zeros((len(chunk), len(table)))
        for setting in range(table.shape[1]):
            sums += chunk[:, setting, table[:, setting]]
        quantile[start : start + step] = -np.partition(-sums, beyond, axis=1)[:, beyond]
    return quantile + 1e-12  # ties of the same arrangement that rounding has parted


@lru_cache(maxsize=64)
def _exchanges(levels: Levels) -> NDArray[np.int64]:
    """Rearrangements of the settings, one a row, the identity first: all of them, or a fixed random 5040."""
    grid = np.arange(math.prod(levels)).reshape(levels)
    if math.prod(math.factorial(count) for count in levels) <= MAXIMAL_REARRANGEMENTS:
        orders = itertools.product(*(itertools.permutations(range(count)) for count in levels))
        return np.array([grid[np.ix_(*order)].ravel() for order in orders])
    stream = np.random.default_rng(0)
    drawn = [grid[np.ix_(*(stream.permutation(n) for n in levels))] for _ in range(MAXIMAL_REARRANGEMENTS - 1)]
    return np.array([arrangement.ravel() for arrangement in (grid, *drawn)])


def _subsets(count: int) -> list[tuple[int, ...]]:
    return [chosen for size in range(1, count + 1) for chosen in itertools.combinations(range(count), size)]

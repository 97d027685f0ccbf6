"""Expectations over independent uniform perturbations of few weights, by Gauss–Legendre quadrature."""

from functools import cache

import numpy as np
import torch

from .minima import Function, in_chunks


@cache
def _nodes(dimension: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes [count^d, d] in the cube ±1 and weights [count^d] that sum to 1. Even counts avoid the centre."""
    points, weights = (torch.from_numpy(part) for part in np.polynomial.legendre.leggauss(count))
    nodes = torch.cartesian_prod(*[points] * dimension).reshape(-1, dimension)
    products = torch.cartesian_prod(*[weights / 2] * dimension).reshape(-1, dimension).prod(1)
    return nodes, products


def expected_over_uniform(
    function: Function, points: torch.Tensor, half_widths: torch.Tensor, *, nodes: int = 16
) -> torch.Tensor:
    """E f(w + u), u_i uniform in ±σ_i, at k points with k vectors of half widths, both [k, d]; values [k].

    Exact for polynomials of degree 2 nodes − 1 in each coordinate. A kink in the middle of a coordinate (|u|³) costs
    no accuracy worth naming: with 16 nodes the relative error of E |u|³ is below 1e-4.
    """
    where, weights = _nodes(points.shape[1], nodes)
    shifted = points[:, None] + half_widths[:, None] * where
    values = in_chunks(function, shifted.flatten(0, 1)).view(len(points), -1)
    return values @ weights


def expected_cubed_norm(half_widths: torch.Tensor, *, nodes: int = 16) -> torch.Tensor:
    """E ‖u‖³ for u_i uniform in ±σ_i, half widths [k, d]; values [k]."""
    return expected_over_uniform(lambda u: u.norm(dim=1) ** 3, torch.zeros_like(half_widths), half_widths, nodes=nodes)


def expected_along_segment(
    function: Function, points: torch.Tensor, ends: torch.Tensor, *, nodes: int = 16
) -> torch.Tensor:
    """E f(w + t e), t uniform in ±1, for k points and directions, both [k, d]: fully correlated coordinates; [k]."""
    where, weights = _nodes(1, nodes)
    shifted = points[:, None] + where * ends[:, None]
    values = in_chunks(function, shifted.flatten(0, 1)).view(len(points), -1)
    return values @ weights

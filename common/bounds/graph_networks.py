"""Generalisation bounds of graph networks with l layers, of which the last pools, and what they take of the graph.

Weights enter by the spectral norm s_i and the Frobenius norm f_i of each layer. Norms are tensors whose last axis runs
over the layers; all other arguments are numbers or tensors of the shape in front of it, and so are the results.
Constants that a theorem hides behind O( ) or ≲ are set to one.

Sources: Zhang 2024 (talk, eqs. 10 to 12, Table 1; after Ju et al. 2023), Liao et al. 2021 (Theorems 3.2 and 3.4), Garg
et al. 2020 (their bound in the form and notation of Liao et al.).
"""

import math

import torch

Number = float | torch.Tensor


# Table 1: the factor by which a bound grows with the graph


def degree_power(degree: Number, depth: int) -> torch.Tensor:
    """d^(l−1): Garg et al. on GCN and MPNN, Liao et al. on MPNN (Zhang 2024, Table 1)."""
    return _tensor(degree) ** (_depth(depth) - 1)


def half_degree_power(degree: Number, depth: int) -> torch.Tensor:
    """d^((l−1)/2): Liao et al. on GCN (Zhang 2024, Table 1; Liao et al. 2021, Theorem 3.2)."""
    return _tensor(degree) ** ((_depth(depth) - 1) / 2)


def message_degree_power(degree: Number, depth: int) -> torch.Tensor:
    """d^((l+1)(l−2)/l): how Liao et al. 2021, Theorem 3.4 itself grows with d for an MPNN; Table 1 prints d^(l−1)."""
    return _tensor(degree) ** ((_depth(depth) + 1) * (depth - 2) / depth)


def spectral_power(norm: Number, depth: int) -> torch.Tensor:
    """‖P‖₂^(l−1), with P = A for MPNN, D⁻¹A for GraphSAGE, and a matrix of norm 1 for GCN (Zhang 2024, Table 1)."""
    return _tensor(norm) ** (_depth(depth) - 1)


def spectral_mean(norm: Number, depth: int) -> torch.Tensor:
    """Σ_{i=1}^{l−1} ‖A‖₂^i / (l−1): GIN (Zhang 2024, Table 1)."""
    base = _tensor(norm)
    powers = torch.arange(1, _depth(depth), dtype=base.dtype, device=base.device)
    return (base[..., None] ** powers).mean(-1)


# Bounds on the gap between the loss on fresh and on training graphs


def spectral_bound(
    spectral: torch.Tensor,
    frobenius: torch.Tensor,
    *,
    neurons: torch.Tensor,
    feature_norm: Number,
    diffusion_norm: Number,
    examples: int,
    diffusions: int | None = None,
) -> torch.Tensor:
    """Σ_i sqrt(d_i ‖X‖₂² ‖P‖₂^(2(l−1)) r_i² Π_j s_j² / N): Zhang 2024, eq. (12), with r_i = f_i/s_i.

    Args:
        spectral, frobenius: s_i and f_i, shape [..., l].
        neurons: d_i, the outputs of each layer, [l].
        feature_norm: the largest spectral norm ‖X‖₂ of a graph's feature matrix.
        diffusion_norm: the largest ‖P‖₂ of a graph.
        examples: training graphs N.
        diffusions: exponent of ‖P‖₂; l − 1 if not given.
    """
    depth = _layers(spectral, frobenius)
    power = depth - 1 if diffusions is None else diffusions
    ranks = frobenius.double() / spectral.double()
    scale = _tensor(feature_norm) * _tensor(diffusion_norm) ** power * spectral.double().prod(-1)
    return scale * (neurons.double().sqrt() * ranks).sum(-1) / math.sqrt(_positive(examples))


def layer_trace_bounds(
    spectral: torch.Tensor, *, neurons: torch.Tensor, feature_norm: Number, graph_factor: Number
) -> torch.Tensor:
    """d_i ‖X‖₂² F² Π_{j≠i} s_j², F = ‖P‖₂^(l−1): what (12) puts for Tr H_i, the trace in layer i alone, [..., l].

    Zhang 2024, "bound the trace of the Hessian recursively for each layer": with ‖W_i‖_F = s_i r_i each term of (12) is
    sqrt(‖W_i‖_F² Tr H_i / N) for this Tr H_i. Hidden constants are one.

    Args:
        graph_factor: F, an entry of Table 1.
        others: as in `spectral_bound`.
    """
    others = spectral.double().square().prod(-1, keepdim=True) / spectral.double().square()
    return neurons.double() * (_tensor(feature_norm) * _tensor(graph_factor)).square() * others


def liao_gcn_bound(
    spectral: torch.Tensor,
    frobenius: torch.Tensor,
    *,
    width: int,
    feature_norm: Number,
    degree: Number,
    examples: int,
    margin: float,
    delta: float,
) -> torch.Tensor:
    """Liao et al. 2021, Theorem 3.2 (GCN with ReLU), its constant set to one:

    sqrt((B² d^(l−1) l² h log(lh) Π s_i² Σ f_i²/s_i² + log(ml/δ)) / (γ² m)).

    Args:
        spectral, frobenius: s_i and f_i, [..., l].
        width: h, the largest width.
        feature_norm: B, the largest norm of a node's features.
        degree: d, the largest degree plus one in their notation.
        examples: m, training graphs.
        margin: γ of the training loss.
        delta: the bound fails with probability at most δ.
    """
    depth = _layers(spectral, frobenius)
    _probability(delta)
    ranks = (frobenius.double() / spectral.double()).square().sum(-1)
    squared = _tensor(feature_norm).square() * _tensor(degree) ** (depth - 1) * spectral.double().prod(-1).square()
    complexity = squared * depth**2 * width * math.log(depth * width) * ranks
    return ((complexity + math.log(_positive(examples) * depth / delta)) / (margin**2 * examples)).sqrt()


def message_growth(contraction: Number, degree: Number, depth: int, lipschitz: float = 1.0) -> torch.Tensor:
    """ξ = C_φ ((dC)^(l−1) − 1)/(dC − 1) = C_φ Σ_{k=0}^{l−2} (dC)^k of Liao et al. 2021, Theorem 3.4."""
    base = _tensor(degree) * _tensor(contraction)
    powers = torch.arange(_depth(depth) - 1, dtype=base.dtype, device=base.device)
    return lipschitz * (base[..., None] ** powers).sum(-1)


def liao_message_bound(
    spectral: torch.Tensor,
    frobenius: torch.Tensor,
    *,
    depth: int,
    width: int,
    feature_norm: Number,
    degree: Number,
    examples: int,
    margin: float,
    delta: float,
) -> torch.Tensor:
    """Liao et al. 2021, Theorem 3.4 (MPNN with shared weights, activations with Lipschitz constant 1):

    sqrt((B² max(ζ^−(l+1), (λξ)^((l+1)/l))² l² h log(lh) |w|² + log(ml/δ)) / (γ² m)), its constant set to one, with
    ζ the smallest of the spectral norms, λ = ‖W₁‖ ‖W_l‖, |w|² the sum of squared Frobenius norms, and ξ with C = ‖W₂‖.

    Args:
        spectral, frobenius: norms of W₁ (features), W₂ (messages), W_l (readout), [..., 3].
        others: as in `liao_gcn_bound`.
    """
    _three(spectral, frobenius)
    _probability(delta)
    first, second, last = spectral.double().unbind(-1)
    grown = (first * last * message_growth(second, degree, depth)) ** ((depth + 1) / depth)
    largest = torch.maximum(spectral.double().amin(-1) ** -(depth + 1), grown)
    weights = frobenius.double().square().sum(-1)
    complexity = (_tensor(feature_norm) * largest).square() * depth**2 * width * math.log(depth * width) * weights
    return ((complexity + math.log(_positive(examples) * depth / delta)) / (margin**2 * examples)).sqrt()


def garg_bound(
    spectral: torch.Tensor,
    *,
    depth: int,
    width: int,
    feature_norm: Number,
    degree: Number,
    examples: int,
    margin: float,
    delta: float,
    activation_limit: float = math.inf,
) -> torch.Tensor:
    """Garg et al. 2020 by Rademacher complexity (MPNN with shared weights, Lipschitz constants 1), constants one:

    1/(γm) + h ‖W_l‖ Z sqrt(log(‖W_l‖ sqrt(m) max(Z, M sqrt(h) max(B‖W₁‖, R ‖W₂‖))) / (γ² m)) + sqrt(log(1/δ)/m)

    with M = ξ, R = d min(b sqrt(h), B ‖W₁‖ M) and Z = B‖W₁‖ + ‖W₂‖ R. It grows as d^(l−1) sqrt(log d^(2l−3)).

    Args:
        spectral: norms of W₁, W₂ and W_l, [..., 3].
        activation_limit: b, the largest value of an activation; without it the messages grow with d in every layer.
        others: as in `liao_gcn_bound`.
    """
    _three(spectral, spectral)
    _probability(delta)
    first, second, last = spectral.double().unbind(-1)
    features = _tensor(feature_norm) * first
    growth = message_growth(second, degree, depth)
    messages = _tensor(degree) * (features * growth).clamp(max=activation_limit * math.sqrt(width))
    size = features + second * messages
    inner = torch.maximum(size, growth * math.sqrt(width) * torch.maximum(features, messages * second))
    logarithm = (last * math.sqrt(_positive(examples)) * inner).log().clamp(min=0)
    complexity = width * last * size * (logarithm / examples).sqrt() / margin
    return 1 / (margin * examples) + complexity + math.sqrt(math.log(1 / delta) / examples)


# The talk's toy: one linear layer and mean pooling


def linear_constant(diffusion_norm: Number, feature_norm: Number, weight_norm: Number, nodes: Number) -> torch.Tensor:
    """C = ‖1ᵀ/n‖₂ ‖P‖₂ ‖X‖₂ ‖W‖₂, which bounds ‖f(X, G)‖ for f = 1ᵀ P X W / n (Zhang 2024, toy example)."""
    product = _tensor(diffusion_norm) * _tensor(feature_norm) * _tensor(weight_norm)
    return product / _tensor(nodes).sqrt()


def linear_bound(constant: Number, examples: Number) -> torch.Tensor:
    """C/√N, what a Lipschitz loss and a norm bound C give (the slide prints √(C/N), `printed_linear_bound`)."""
    return _tensor(constant) / _tensor(examples).sqrt()


def printed_linear_bound(constant: Number, examples: Number) -> torch.Tensor:
    """√(C/N) as the slide prints it (Zhang 2024, toy example)."""
    return (_tensor(constant) / _tensor(examples)).sqrt()


def _tensor(value: Number | int) -> torch.Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def _depth(depth: int) -> int:
    if depth < 2:
        raise ValueError(f"depth={depth}: these bounds are for at least two layers.")
    return depth


def _positive(examples: int) -> int:
    if examples < 1:
        raise ValueError(f"examples={examples}: at least one training graph is needed.")
    return examples


def _probability(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError(f"delta={delta}: a probability between 0 and 1 is needed.")


def _layers(spectral: torch.Tensor, frobenius: torch.Tensor) -> int:
    if spectral.shape != frobenius.shape:
        raise ValueError(f"spectral norms {tuple(spectral.shape)} and Frobenius norms {tuple(frobenius.shape)} differ.")
    return _depth(spectral.shape[-1])


def _three(spectral: torch.Tensor, frobenius: torch.Tensor) -> None:
    if spectral.shape[-1:] != (3,) or spectral.shape != frobenius.shape:
        raise ValueError("norms of exactly three weights are needed: of features, messages and readout.")

"""What the bounds of Figure 5 are computed from, and all of them at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from common.bounds.graph_networks import garg_bound, liao_gcn_bound, liao_message_bound, spectral_bound


@dataclass(frozen=True)
class Setting:
    """Norms of trained members and of their graphs.

    Attributes:
        model, depth: "gcn" or "mpnn", l.
        layer_spectral, layer_frobenius: s_i and f_i of each layer, [members, l]; a layer of the MPNN is U on top of W.
        shared_spectral, shared_frobenius: of the weights of features, messages and readout, [members, 3] (D5).
        neurons: outputs of each layer, [l].
        width: h.
        degree: d.
        diffusion_norm: largest ‖P‖₂ of a graph.
        feature_matrix_norm: largest ‖X‖₂ of a graph.
        feature_norm: B, largest norm of a node's features.
        examples: training graphs N.
        margin, delta: γ and δ.
    """

    model: str
    depth: int
    layer_spectral: torch.Tensor
    layer_frobenius: torch.Tensor
    shared_spectral: torch.Tensor
    shared_frobenius: torch.Tensor
    neurons: torch.Tensor
    width: int
    degree: float
    diffusion_norm: float
    feature_matrix_norm: float
    feature_norm: float
    examples: int
    margin: float
    delta: float

    def ours(self, diffusions: int | None = None) -> torch.Tensor:
        """Zhang 2024, eq. (12), [members]."""
        return spectral_bound(
            self.layer_spectral,
            self.layer_frobenius,
            neurons=self.neurons,
            feature_norm=self.feature_matrix_norm,
            diffusion_norm=self.diffusion_norm,
            examples=self.examples,
            diffusions=diffusions,
        )

    def liao(self) -> torch.Tensor:
        """Liao et al. 2021, Theorem 3.2 or 3.4, [members]."""
        common = {
            "width": self.width,
            "feature_norm": self.feature_norm,
            "degree": self.degree,
            "examples": self.examples,
            "margin": self.margin,
            "delta": self.delta,
        }
        if self.model == "gcn":
            return liao_gcn_bound(self.layer_spectral, self.layer_frobenius, **common)  # type: ignore[arg-type]
        return liao_message_bound(
            self.shared_spectral,
            self.shared_frobenius,
            depth=self.depth,
            **common,  # type: ignore[arg-type]
        )

    def garg(self, activation_limit: float = math.inf) -> torch.Tensor:
        """Garg et al. 2020, [members]."""
        return garg_bound(
            self.shared_spectral,
            depth=self.depth,
            width=self.width,
            feature_norm=self.feature_norm,
            degree=self.degree,
            examples=self.examples,
            margin=self.margin,
            delta=self.delta,
            activation_limit=activation_limit,
        )

    def logarithms(self) -> dict[str, torch.Tensor]:
        """log₁₀ of the three bounds, [members] each."""
        return {"ours": self.ours().log10(), "liao": self.liao().log10(), "garg": self.garg().log10()}

    def without_graph(self) -> "Setting":
        """The same with d = 1 and ‖P‖₂ = 1."""
        return replace(self, degree=1.0, diffusion_norm=1.0)

    def scaled_weights(self, factor: float | torch.Tensor) -> "Setting":
        """All weights times `factor`, a number or one a member [members, 1]."""
        return replace(
            self,
            layer_spectral=self.layer_spectral * factor,
            layer_frobenius=self.layer_frobenius * factor,
            shared_spectral=self.shared_spectral * factor,
            shared_frobenius=self.shared_frobenius * factor,
        )

    def unit_weights(self) -> "Setting":
        """Every weight divided by its spectral norm; the ranks f_i/s_i stay."""
        return replace(
            self,
            layer_spectral=torch.ones_like(self.layer_spectral),
            layer_frobenius=self.layer_frobenius / self.layer_spectral,
            shared_spectral=torch.ones_like(self.shared_spectral),
            shared_frobenius=self.shared_frobenius / self.shared_spectral,
        )

    def unit_features(self) -> "Setting":
        """‖X‖₂ = B = 1."""
        return replace(self, feature_matrix_norm=1.0, feature_norm=1.0)

    def wider(self, factor: int) -> "Setting":
        """`factor` times the width at equal norms; as many outputs."""
        neurons = torch.cat([self.neurons[:-1] * factor, self.neurons[-1:]])
        return replace(self, width=self.width * factor, neurons=neurons)

    def deeper(self, layers: int) -> "Setting":
        """`layers` more layers before the last one, with the geometric mean of the norms of those before it."""
        added = [
            torch.cat([norms[:, :-1], _geometric_mean(norms[:, :-1]).expand(-1, layers), norms[:, -1:]], dim=1)
            for norms in (self.layer_spectral, self.layer_frobenius)
        ]
        neurons = torch.cat([self.neurons[:-1], self.neurons[:1].expand(layers), self.neurons[-1:]])
        depth = self.depth + layers
        return replace(self, depth=depth, layer_spectral=added[0], layer_frobenius=added[1], neurons=neurons)


def _geometric_mean(norms: torch.Tensor) -> torch.Tensor:
    """Of each member's row, [members, 1]."""
    return norms.log().mean(1, keepdim=True).exp()


def setting_of(run: Any, weights: Sequence[torch.Tensor], neurons: torch.Tensor, **graphs: Any) -> Setting:
    """The setting of members with weights [members, in, out] on graphs with one-hot features.

    Args:
        run: with the settings `model`, `depth`, `width`, `margin` and `delta`.
        graphs: `degree`, `diffusion_norm`, `feature_matrix_norm` and `examples`.
    """
    constants = {name: getattr(run, name) for name in ("model", "depth", "width", "margin", "delta")}
    norms: dict[str, Any] = {**norms_of(run.model, weights, run.depth)}
    return Setting(**constants, **norms, **graphs, neurons=neurons, feature_norm=1.0)


def norms_of(model: str, weights: Sequence[torch.Tensor], depth: int) -> dict[str, torch.Tensor]:
    """The four norm tensors of `Setting` from weights [members, in, out] (float64)."""
    exact = [weight.detach().double() for weight in weights]
    layers = exact if model == "gcn" else [torch.cat(exact[:2], dim=1)] * (depth - 1) + [exact[2]]
    spectral, frobenius = _spectral(layers), _frobenius(layers)
    if model == "gcn":
        shared = [
            torch.cat([norms[:, :1], _geometric_mean(norms[:, :-1]), norms[:, -1:]], dim=1)
            for norms in (spectral, frobenius)
        ]
    else:
        shared = [_spectral(exact), _frobenius(exact)]
    return {
        "layer_spectral": spectral,
        "layer_frobenius": frobenius,
        "shared_spectral": shared[0],
        "shared_frobenius": shared[1],
    }


def _spectral(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([torch.linalg.matrix_norm(weight, 2) for weight in weights], dim=1)


def _frobenius(weights: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.stack([torch.linalg.matrix_norm(weight) for weight in weights], dim=1)

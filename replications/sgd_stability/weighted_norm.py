"""Theorem 2: curvature of two-layer ReLU networks against weighted ℓ₂ norms, which do not depend on the data."""

from collections.abc import Iterator, Sequence

import torch

from common.experiments import ExperimentParameters, Field, RunContext

from .shared.two_layer_relu import Network, sphere, trace_of_g

THEOREM_2 = "Wu 2025, Theorem 2 (Wu and Su 2023, Theorem 4.1)"
OURS = "our choice, D22"


class Parameters(ExperimentParameters):
    """Settings: dimension, width, numbers of examples, and the parameters θ that are tried."""

    dimension: int = Field(16, ge=2, description="d, of inputs uniform on the sphere of radius √d", source=THEOREM_2)
    width: int = Field(16, ge=1, unit="neurons", description="m", source=OURS)
    per_dimension: tuple[float, ...] = Field(
        (0.5, 1.0, 2.0, 4.0, 16.0), description="numbers of examples n/d; 10d² is added", source=OURS
    )
    rescalings: tuple[float, ...] = Field((0.125, 1.0, 8.0), description="c of (a/c, c w)", source=OURS)
    spread: float = Field(1.5, ge=0, description="σ of the log-normal factors of the heavy-tailed θ", source=OURS)
    restarts: int = Field(16, ge=1, description="starts of the search for a neuron with little curvature", source=OURS)
    descents: int = Field(300, ge=1, unit="steps", description="length of that search", source=OURS)


def parameter_kinds(run: Parameters, generator: torch.Generator) -> dict[str, Network]:
    """Networks of very different θ: independent neurons, neurons of one direction, neurons of very unequal size."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    width, dimension = run.width, run.dimension
    inner, outer = normal(width, dimension) / dimension**0.5, normal(width) / dimension**0.25
    aligned = inner[:1] + 0.01 * normal(width, dimension) / dimension**0.5
    sizes = (run.spread * normal(2, width)).exp()
    return {
        "independent": Network(outer, inner),
        "aligned": Network(outer.abs(), aligned),
        "heavy_tailed": Network(outer * sizes[0], inner * sizes[1][:, None]),
    }


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Curvature over norm for every θ, number of examples and rescaling; the worst neuron; the path norm."""
    for done, run in enumerate(runs):
        kinds = parameter_kinds(run, context.generator(run, "init"))
        for kind, network in kinds.items():
            for weight in (float(run.dimension), run.dimension**0.5, 1.0):
                context.record(run, kind=kind, part="path", weight=weight, **path_slack(network, weight))
        counts = [max(1, round(factor * run.dimension)) for factor in run.per_dimension]
        generator = context.generator(run, "probes")
        for count in [*counts, 10 * run.dimension**2]:
            inputs = sphere((count, run.dimension), generator)
            common = {"examples": count, "per_dimension": count / run.dimension}
            for kind, network in kinds.items():
                for row in curvature_over_norms(run, network, inputs):
                    context.record(run, part="curvature", kind=kind, **common, **row)
            worst = least_curved_neuron(inputs, run.restarts, run.descents, generator)
            most = most_curved_neuron(inputs, run.descents)
            context.record(run, part="worst_neuron", **common, **worst, inner_largest=most)
        context.progress(done + 1, len(runs))


def curvature_over_norms(run: Parameters, network: Network, inputs: torch.Tensor) -> Iterator[dict[str, float]]:
    """Tr G, ‖G‖_F and ‖G‖₂ over the squared norms that Theorem 2 pairs them with, for each rescaling.

    `rooted_ratio` is Tr G over the norm under its root, `rooted_ratio_tenfold` that of the network of 10 θ.
    """
    gradients = network.gradients(inputs)
    dimension = run.dimension
    curvature = gradients.T @ gradients / len(inputs)
    for factor in run.rescalings:
        scale = torch.full((curvature.shape[0],), 1 / factor, dtype=torch.float64)
        scale[: run.width] = factor
        scaled = scale[:, None] * curvature * scale
        one = network.rescaled(factor)
        trace, frobenius = float(scaled.trace()), float(scaled.norm())
        tenfold = Network(10 * one.outer, 10 * one.inner)
        trace_tenfold = float(trace_of_g(Network(tenfold.outer[None], tenfold.inner[None]), inputs[None]))
        yield {
            "rescaling": factor,
            "trace_ratio": trace / float(one.squared_norm(dimension)),
            "frobenius_ratio": frobenius / float(one.squared_norm(dimension**0.5)),
            "spectral_ratio": float(torch.linalg.eigvalsh(scaled)[-1]) / float(one.squared_norm(1.0)),
            "unpaired_ratio": frobenius / float(one.squared_norm(dimension)),
            "rooted_ratio": trace / float(one.squared_norm(dimension)) ** 0.5,
            "rooted_ratio_tenfold": trace_tenfold / float(tenfold.squared_norm(dimension)) ** 0.5,
        }


def path_slack(network: Network, weight: float) -> dict[str, float]:
    """‖θ‖²_{2,q}/(2√q ‖θ‖_P) − 1, as drawn and after the rescaling of each neuron to ‖w_j‖ = √q |a_j|."""
    balancing = (weight**0.5 * network.outer.abs() / network.inner.norm(dim=1)).sqrt()
    found = {}
    for name, one in (("slack", network), ("balanced_slack", network.rescaled(balancing))):
        found[name] = float(one.squared_norm(weight) / (2 * weight**0.5 * one.path_norm()) - 1)
    return found


def least_curved_neuron(
    inputs: torch.Tensor, restarts: int, descents: int, generator: torch.Generator
) -> dict[str, float]:
    """A direction w that few of the inputs activate: projected descent on mean σ(wᵀx)² over the unit sphere.

    Returns:
        `inner`: mean σ(wᵀx)²/‖w‖² (½ for n = ∞), `active`: share of inputs with wᵀx > 0 (½), and `ratio`, the
        smaller one: an upper bound of the least Tr G/‖θ‖²_{2,d} over θ. Of ‖G‖_F and ‖G‖₂ over their norms `inner` is
        one, that of a neuron with a = 0.
    """
    count, dimension = inputs.shape
    target = -torch.ones(count, 1, dtype=torch.float64)
    start = torch.linalg.lstsq(inputs, target, driver="gelsd").solution[:, 0]
    drawn = torch.randn(restarts, dimension, generator=generator, dtype=torch.float64)
    directions = torch.cat([start[None] / start.norm(), drawn / drawn.norm(dim=1, keepdim=True)])
    step = count / float(torch.linalg.matrix_norm(inputs, 2)) ** 2
    for _ in range(descents):
        slope = (directions @ inputs.T).relu() @ inputs / count
        directions = directions - step * slope
        directions = directions / directions.norm(dim=1, keepdim=True)
    before = directions @ inputs.T
    inner, active = before.relu().square().mean(1), (before > 0).double().mean(1)
    best = int(torch.minimum(inner, active).argmin())
    return {"inner": float(inner[best]), "active": float(active[best]), "ratio": float(min(inner[best], active[best]))}


def most_curved_neuron(inputs: torch.Tensor, ascents: int) -> float:
    """The largest mean σ(wᵀx)²/‖w‖² that is found from both ends of the first principal axis.

    It is convex in w, so that the direction of its gradient is a step that never lowers it. A neuron with a = 0 has
    this for Tr G, ‖G‖_F and ‖G‖₂ over each of their squared norms: a lower bound of the largest of all three.
    """
    axis = torch.linalg.eigh(inputs.T @ inputs).eigenvectors[:, -1]
    directions = torch.stack([axis, -axis])
    for _ in range(ascents):
        slope = (directions @ inputs.T).relu() @ inputs
        directions = slope / slope.norm(dim=1, keepdim=True).clamp(min=1e-30)  # 0 where no input is active
    return float((directions @ inputs.T).relu().square().mean(1).max())

"""The sharpness term M (eq. 9) against complexity G (eq. 10), and Lemmas 5, 6 and 9 against exact values.

On the toy of two weights every expectation over the perturbation is an integral that quadrature gives, so that both
sides of each inequality are known.
"""

from collections.abc import Callable, Sequence

import torch

from common.bounds.pac_bayes import hoeffding_complexity
from common.bounds.perturbation import uniform_divergence, uniform_levels, uniform_sharpness
from common.experiments import Field, RunContext

from .shared.pair_search import PairSearch
from .shared.quadrature import expected_along_segment, expected_cubed_norm, expected_over_uniform
from .shared.toy_network import cross_entropy
from .shared.toy_pairs import LocalConstants, LocalGeometry, Pair, find_pair, local_geometry

Objective = Callable[[torch.Tensor], torch.Tensor]
PLACES = ("sharp", "flat")
NODES = 8  # of a search, a coordinate; the curves have 16


class Parameters(PairSearch, LocalConstants):
    """Settings: the toy, the levels of the curves, and how finely minima over the perturbation are sought."""

    smallest_level: float = Field(1 / 1024, gt=0, lt=1, description="least σ/κ", source="our choice")
    levels: int = Field(21, ge=3, description="values of σ/κ from the least to 1", source="our choice")
    zooms: int = Field(4, ge=1, description="times that a search narrows its window to a third", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Both sides of the inequalities along the levels, the best perturbation by each objective; the pair is kept."""
    for done, run in enumerate(runs):
        found = find_pair(run)
        if found is None:
            context.record(run, kind="none")
            context.save(run, "pair", {"none": torch.zeros(1)})
        else:
            _measure(run, context, found)
            context.save(run, "pair", found.tensors())
        context.progress(done + 1, len(runs))


def _measure(run: Parameters, context: RunContext, found: Pair) -> None:
    loss = cross_entropy(found.points, found.mixture.labels(found.points))
    local = local_geometry(loss, found.minima, run)
    toy = _Toy(run, loss, found.minima, local)
    best = uniform_levels(local.diagonal, local.rho, local.kappa, eta=run.eta)
    searched = {name: toy.best_level(objective, run.zooms) for name, objective in toy.objectives().items()}
    at_best = {name: objective(best[:, None])[:, 0] for name, objective in toy.objectives().items()}
    for place, name in enumerate(PLACES):
        values = {
            f"{objective}_{key}": float(value[place])
            for objective, (sigma, lowest) in searched.items()
            for key, value in {
                "distance": (sigma / best).log().abs().amax(1),
                "shift": (sigma / best).log().mean(1),
                "excess": at_best[objective] - lowest,
            }.items()
        }
        third = uniform_sharpness(torch.zeros_like(best), local.rho, local.kappa, best)
        whole = uniform_sharpness(local.diagonal, local.rho, local.kappa, best)
        context.record(
            run,
            kind="minimum",
            place=name,
            rho=float(local.rho[place]),
            sharpness=float(local.largest_eigenvalue[place]),
            least_eigenvalue=float(local.least_eigenvalue[place]),
            capped=float((best == local.kappa)[place].double().mean()),
            third_order_share=float((third / whole)[place]),
            sharpness_at_best=float(toy.sharpness_term(best[:, None])[place, 0]),
            rise_at_best=float(toy.rise(best[:, None])[place, 0]),
            **values,
        )
    for row in toy.curves(run.smallest_level ** torch.linspace(1, 0, run.levels, dtype=torch.float64)):
        context.record(run, kind="level", **row)


class _Toy:
    """The objectives at both minima; perturbations are half widths [2, c, 2], values [2, c]."""

    def __init__(
        self, run: Parameters, loss: Callable[[torch.Tensor], torch.Tensor], minima: torch.Tensor, local: LocalGeometry
    ) -> None:
        self.run, self.loss, self.minima, self.local = run, loss, minima, local
        self.tau = minima.abs() + local.kappa

    def objectives(self) -> dict[str, Objective]:
        """Right-hand sides without the loss at w: of (12), of (7), and what (7) bounds, E L̂(w + u) − L̂(w) + G."""
        return {
            "loosened": lambda sigma: self.loosened(sigma) + self.complexity(sigma),
            "bound": lambda sigma: self.sharpness_term(sigma) + self.complexity(sigma),
            "exact": lambda sigma: self.rise(sigma) + self.complexity(sigma),
        }

    def complexity(self, sigma: torch.Tensor) -> torch.Tensor:
        """G of (10) with the divergence (11)."""
        divergence = uniform_divergence(self.tau[:, None], sigma)
        constants = {"eta": self.run.eta, "examples": self.run.examples, "delta": self.run.delta}
        return torch.as_tensor(hoeffding_complexity(divergence, **constants))  # type: ignore[arg-type]

    def loosened(self, sigma: torch.Tensor) -> torch.Tensor:
        """The sharpness term of (12)."""
        local = self.local
        return uniform_sharpness(local.diagonal[:, None], local.rho[:, None], local.kappa[:, None], sigma)

    def sharpness_term(self, sigma: torch.Tensor) -> torch.Tensor:
        """M of (9), with E ‖u‖³ by quadrature."""
        cubes = expected_cubed_norm(sigma.flatten(0, 1)).view(sigma.shape[:2])
        return (self.local.diagonal[:, None] * sigma.square()).sum(-1) / 6 + self.local.rho[:, None] / 6 * cubes

    def rise(self, sigma: torch.Tensor, nodes: int = NODES) -> torch.Tensor:
        """E L̂(w + u) − L̂(w) by quadrature."""
        points = self.minima[:, None].expand_as(sigma).flatten(0, 1)
        mean = expected_over_uniform(self.loss, points, sigma.flatten(0, 1), nodes=nodes)
        return mean.view(sigma.shape[:2]) - self.local.loss[:, None]

    def best_level(self, objective: Objective, zooms: int) -> tuple[torch.Tensor, torch.Tensor]:
        """σ [2, 2] up to κ with the smallest value, and that value [2]: a lattice of logarithms, zoomed in on."""
        logarithms = torch.linspace(-1, 1, 9, dtype=torch.float64)
        lattice = torch.cartesian_prod(logarithms, logarithms)
        top, span = self.local.kappa.log(), 2.5
        centre = top - span
        for _ in range(zooms):
            sigma = torch.minimum(centre[:, None] + span * lattice, top[:, None]).exp()
            values = objective(sigma)
            lowest = values.argmin(1)
            chosen = sigma[torch.arange(len(sigma)), lowest]
            centre, span = chosen.log(), span / 3
        return chosen, values.amin(1)

    def curves(self, shares: torch.Tensor) -> list[dict[str, float | str]]:
        """Along σ = s κ: M, G and the rise; and with fully correlated coordinates the rise, Lemmas 5 and 9."""
        local = self.local
        sigma = shares[None, :, None] * local.kappa[:, None]
        columns = {
            "sharpness_loosened": self.loosened(sigma),
            "sharpness_bound": self.sharpness_term(sigma),
            "complexity": self.complexity(sigma),
            "rise": self.rise(sigma, nodes=16),
        }
        for name, signs in (("same", (1.0, 1.0)), ("opposite", (1.0, -1.0))):
            ends = sigma * torch.tensor(signs, dtype=torch.float64)
            points = self.minima[:, None].expand_as(ends).flatten(0, 1)
            mean = expected_along_segment(self.loss, points, ends.flatten(0, 1)).view(sigma.shape[:2])
            squares = sigma.square()  # E u_i² = σ_i²/3; E ‖u‖³ = ‖σ‖³/4 on a segment
            cubic = local.rho[:, None] / 24 * sigma.norm(dim=-1) ** 3
            columns |= {
                f"rise_{name}": mean - local.loss[:, None],
                f"diagonal_{name}": (local.diagonal[:, None] * squares).sum(-1) / 6 + cubic,
                f"eigenvalue_{name}": local.largest_eigenvalue[:, None] * squares.sum(-1) / 6 + cubic,
            }
        return [
            {
                "place": name,
                "share": float(share),
                **{column: float(values[place, number]) for column, values in columns.items()},
            }
            for place, name in enumerate(PLACES)
            for number, share in enumerate(shares)
        ]

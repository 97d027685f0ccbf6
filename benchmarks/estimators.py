"""Estimators of Tr H, diag H and ‖H‖_F at equal cost: `python -m benchmarks.estimators [NETWORK …] [--draws N]`.

On small trained networks whose H and G fit into memory, so that products cost next to nothing and every estimate is
held against the truth. Each estimator gets the same budget of gradients (2 g a product with H); printed are the factor
in cost at equal error against plain draws, and how often value ± 1 and ± 1.96 standard errors hold the truth.

With `--spectra` it is `spectrum`, plain and deflated: the area between the distribution functions of nodes and
eigenvalues (Wasserstein-1) over the mean of |λ|, the L1 distance of the densities smoothed by 1/200 of the range, and
of Tr H the root mean square error over that of the first row, with how often ± 1 standard error holds the truth.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence

import numpy
import torch
from scipy import stats
from torch import nn
from torch.nn import functional

from benchmarks.workloads import Attention, Transformer, images, tokens
from common.hessian import (
    GGN,
    Estimate,
    Hessian,
    LinearOperator,
    Problem,
    Spectrum,
    deflated_trace,
    dense,
    hutchinson_trace,
    spectrum,
    squared_frobenius_norm,
)
from common.hessian.estimates import Accuracy, average
from common.hessian.random import generator, normal

BUDGET, NEVER = 128.0, 1e-12
DIMENSIONS = 16
Estimator = Callable[[int], Estimate]


class LongShortTerm(nn.Module):
    """An LSTM of six units over three tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.layer = nn.Embedding(98, 6), nn.LSTM(6, 6, batch_first=True)
        self.readout = nn.Linear(6, 13)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.readout(self.layer(self.embedding(x))[0][:, -1])
        return result


def tied() -> nn.Module:
    """A transformer block of width 8, embedding and readout tied."""
    model = Transformer(13, 8)
    model.blocks = nn.Sequential(Attention(8, 4))
    model.readout = nn.Linear(8, 13, bias=False)
    model.readout.weight = model.embedding.weight
    return model


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(49, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 10)),
        300,
    ),
    "mlp, untrained": (lambda: NETWORKS["mlp"][0](), 0),
    "cnn, SiLU": (
        lambda: nn.Sequential(
            nn.Conv2d(1, 4, 3, 2), nn.SiLU(), nn.Conv2d(4, 8, 3), nn.SiLU(), nn.Flatten(), nn.Linear(8, 10)
        ),
        600,
    ),
    "lstm": (LongShortTerm, 600),
    "tied transformer": (tied, 300),
}
"""Each with its steps of training."""


def problem_of(name: str) -> Problem:
    """In float64, on 256 examples."""
    make, steps = NETWORKS[name]
    torch.manual_seed(0)
    source = torch.Generator().manual_seed(0)
    model = make()
    if name.startswith(("mlp", "cnn")):
        inputs, targets = images(256, 1, 7, source)
    else:
        inputs, targets = (part % 13 for part in tokens(256, source))
    optimiser = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(steps):
        chosen = torch.randint(0, 256, (128,), generator=source)
        optimiser.zero_grad()
        functional.cross_entropy(model(inputs[chosen]), targets[chosen]).backward()
        optimiser.step()
    inputs = inputs.double() if inputs.is_floating_point() else inputs
    return Problem(model.double().eval(), nn.CrossEntropyLoss(), (inputs, targets))


class Held(LinearOperator):
    """A matrix that is held, at the price of products with the Hessian."""

    name = "held"
    record_cost, kept_cost, quadratic_form_cost = 0.0, 2.0, 2.0

    def __init__(self, problem: Problem, matrix: torch.Tensor) -> None:
        super().__init__(problem)
        self.matrix = matrix

    def __matmul__(self, vectors: torch.Tensor) -> torch.Tensor:
        self.cost += self.kept_cost * (vectors.shape[1] if vectors.ndim == 2 else 1)
        return self.matrix @ vectors


def xtrace(matrix: torch.Tensor, products: int, seed: int) -> Estimate:
    """Tr A by XTrace (Epperly, Tropp and Webber 2024, algorithm 1.1), the error as they give it."""
    size, count = len(matrix), products // 2
    probes = functional.normalize(normal((size, count), generator(seed), matrix), dim=0) * size**0.5
    basis, triangle = torch.linalg.qr(matrix @ probes)
    image = matrix @ basis
    left_out = functional.normalize(torch.linalg.inv(triangle).T, dim=0)
    small, values = basis.T @ image, []
    for place in range(count):
        direction = left_out[:, place]
        space = basis - torch.outer(basis @ direction, direction)  # spans the images of all other probes
        rest = probes[:, place] - space @ (space.T @ probes[:, place])
        product = basis @ triangle[:, place] - image @ (space.T @ probes[:, place])
        scale = (size - count + 1) / rest.square().sum()
        values.append(small.trace() - direction @ small @ direction + scale * (rest @ product))
    sample = torch.stack(values)
    return Estimate(float(sample.mean()), float(sample.std()) / count**0.5, cost=2.0 * products)


def trace_estimators(problem: Problem, hessian: torch.Tensor, ggn: torch.Tensor) -> Iterator[tuple[str, Estimator]]:
    """Of Tr H; the exact Tr G costs a pass to the activations for each output, and one forward."""
    known, cost = float(ggn.trace()), (1 + problem.outputs_per_example) / 3
    rest = hessian - ggn

    def with_ggn(found: Estimate) -> Estimate:
        return Estimate(found.value + known, found.standard_error, cost=found.cost + cost)

    def plain(matrix: torch.Tensor, budget: float, seed: int) -> Estimate:
        return hutchinson_trace(Held(problem, matrix), relative_error=NEVER, budget=budget, seed=seed)

    def deflation(matrix: torch.Tensor, budget: float, seed: int) -> Estimate:
        held = Held(problem, matrix)
        return deflated_trace(held, DIMENSIONS, relative_error=NEVER, budget=budget, seed=seed)

    yield "Hutchinson", lambda seed: plain(hessian, BUDGET, seed)
    yield "Tr G + Hutchinson of H − G", lambda seed: with_ggn(plain(rest, BUDGET - cost, seed))
    yield f"Hutch++, {DIMENSIONS}", lambda seed: deflation(hessian, BUDGET, seed)
    yield f"Tr G + Hutch++ of H − G, {DIMENSIONS}", lambda seed: with_ggn(deflation(rest, BUDGET - cost, seed))
    yield "XTrace", lambda seed: xtrace(hessian, int(BUDGET / 2), seed)


def norm_estimators(problem: Problem, hessian: torch.Tensor, ggn: torch.Tensor) -> Iterator[tuple[str, Estimator]]:
    """Of ‖H‖²_F; a product with G costs 4/3 g, ‖G‖_F here as much as the exact Tr G."""
    known, cost = float(ggn.square().sum()), (1 + problem.outputs_per_example) / 3

    def plain(dimension: int, seed: int) -> Estimate:
        held = Held(problem, hessian)
        return squared_frobenius_norm(held, relative_error=NEVER, budget=BUDGET, seed=seed, deflate=dimension)

    def beside_ggn(seed: int) -> Estimate:
        source = generator(seed)

        def draw() -> float:
            vector = problem.random_signs(source)
            return known + float((hessian @ vector).square().sum() - (ggn @ vector).square().sum())

        found = average(draw, cost=10 / 3, accuracy=Accuracy(NEVER, BUDGET - cost), seed=seed, method="")
        return Estimate(found.value, found.standard_error, cost=found.cost + cost)

    yield "‖Hv‖²", lambda seed: plain(0, seed)
    yield f"deflated, {DIMENSIONS}", lambda seed: plain(DIMENSIONS, seed)
    yield "‖G‖² + ‖Hv‖² − ‖Gv‖²", beside_ggn


QUADRATURES = ((4, 64, False), (4, 32, False), (4, 32, True), (8, 16, True), (3, 32, True), (2, 32, True))
"""Starts, products of each, whether deflated."""


def distances(found: Spectrum, eigenvalues: torch.Tensor) -> tuple[float, float]:
    """Of the distribution functions, over the mean of |λ|, and of the smoothed densities."""
    size, rows = len(eigenvalues), len(found.weights)
    masses = torch.cat([found.weights.flatten() / rows, torch.full_like(eigenvalues, -1 / size)])
    points, order = torch.cat([found.nodes.flatten(), eigenvalues]).sort()
    area = float((masses[order].cumsum(0)[:-1].abs() * points.diff()).sum() / eigenvalues.abs().mean())
    span = float(eigenvalues.max() - eigenvalues.min())
    grid = torch.linspace(float(eigenvalues.min()) - span / 20, float(eigenvalues.max()) + span / 20, 4000).double()
    exact = Spectrum(eigenvalues[None], torch.full((1, size), 1 / size).double(), size)
    apart = found.density(grid, span / 200) - exact.density(grid, span / 200)
    return area, float(apart.abs().sum() * (grid[1] - grid[0]))


def spectra(names: Sequence[str], draws: int) -> None:
    """The table of `--spectra`; a semicircle of 1,000 eigenvalues last."""
    print("| spectrum | starts × products | Wasserstein-1 | density | error of Tr H | within 1 s.e. |")
    print("|---|---|--:|--:|--:|--:|")
    cases = [(name, problem_of(name)) for name in names]
    of = {name: torch.linalg.eigvalsh(dense(Hessian(problem))) for name, problem in cases}
    of["semicircle"] = torch.from_numpy(stats.semicircular.ppf((numpy.arange(1000) + 0.5) / 1000))
    for name, eigenvalues in of.items():
        layer = nn.Linear(len(eigenvalues), 1, bias=False).double()
        problem = Problem(layer, nn.MSELoss(), (torch.ones(1, len(eigenvalues)).double(), torch.zeros(1, 1).double()))
        base = 0.0
        for vectors, steps, deflate in QUADRATURES:
            held = Held(problem, eigenvalues.diag())
            found = [spectrum(held, vectors=vectors, steps=steps, seed=s, deflate=deflate) for s in range(draws)]
            area, density = torch.tensor([distances(one, eigenvalues) for one in found]).mean(0).tolist()
            traces = [one.trace_of(lambda x: x) for one in found]
            misses = torch.tensor([one.value for one in traces]) - float(eigenvalues.sum())
            held_by = (misses.abs() <= torch.tensor([one.standard_error for one in traces])).double().mean()
            error = float(misses.square().mean().sqrt())
            base = base or error
            label = f"{vectors} × {steps}{', deflated' if deflate else ''}"
            numbers = f"{area:.3f} | {density:.3f} | {error / base:.2f} | {100 * float(held_by):.0f} %"
            print(f"| {name}, {len(eigenvalues)} | {label} | {numbers} |", flush=True)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS))
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--spectra", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.spectra:
        spectra(arguments.networks, arguments.draws)
        return
    print("| network | of | estimator | factor in cost | within 1 s.e. | within 1.96 |\n|---|---|---|--:|--:|--:|")
    for name in arguments.networks:
        problem = problem_of(name)
        hessian, ggn = dense(Hessian(problem)), dense(GGN(problem))
        off = [float((m - m.diagonal().diag()).square().sum()) for m in (hessian, hessian - ggn)]
        draws = 16  # of the diagonal, at 2 g each
        cheaper = off[0] / off[1] * 2 * draws / (2 * draws + (1 + problem.outputs_per_example) / 3)
        print(f"| {name} | diag H | diag G + v ∘ (H − G)v, {draws} draws | {cheaper:.2g} | | |", flush=True)
        for of, exact, estimators in (
            ("Tr H", float(hessian.trace()), trace_estimators),
            ("‖H‖²_F", float(hessian.square().sum()), norm_estimators),
        ):
            base = 0.0
            for label, estimate in estimators(problem, hessian, ggn):
                found = [estimate(seed) for seed in range(arguments.draws)]
                misses = torch.tensor([one.value - exact for one in found], dtype=torch.float64)
                scores = (misses / torch.tensor([one.standard_error for one in found], dtype=torch.float64)).abs()
                work = float(misses.square().mean()) * sum(one.cost for one in found) / len(found)
                base = base or work
                one, two = (100 * float((scores <= width).double().mean()) for width in (1, 1.96))
                print(f"| {name} | {of} | {label} | {base / work:.3g} | {one:.0f} % | {two:.0f} % |", flush=True)


if __name__ == "__main__":
    main()

"""Figure 5: bounds of three papers, the measured gap and the Hessian measure of trained graph networks."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch.nn import functional

from common.experiments import DatasetName, Field, RunContext
from common.experiments.controls import ControlArm, shuffled
from common.hessian import Hessian, Problem, quadratic_forms_by_parameter, trace
from common.models.graph_networks import (
    GraphNetwork,
    gcn_logits,
    initial_weights,
    message_passing_logits,
    weight_shapes,
)

from .shared.bound_setting import Setting, setting_of
from .shared.graph_data import Batch, GraphData, generated, prepare, stratified_folds, subset

CODE = "authors' public code"


class Parameters(ControlArm):
    """Settings of a trained network."""

    source: Literal["collection", "generated"] = Field("collection", description="real or generated", source="D2")
    dataset: DatasetName = Field("mutag", description="collection of graphs", source="deviation D2")
    graphs: int = Field(0, ge=0, description="graphs taken of it, 0 for all", source="deviation D2", unit="graphs")
    label_noise: float = Field(0.15, ge=0, lt=0.5, description="swapped classes of generated graphs", source="D2")
    collection_seed: int = Field(2024, ge=0, description="which generated collection", source="our choice")
    model: Literal["gcn", "mpnn"] = Field("gcn", description="the network", source="Fig. 5")
    depth: int = Field(2, ge=2, description="number of layers l, pooling included", source="deviation D3")
    width: int = Field(128, ge=1, description="hidden width h", source=CODE, unit="neurons")
    folds: int = Field(10, ge=2, description="folds of the collection", source=CODE)
    fold: int = Field(0, ge=0, description="which of them is the test set", source="grid")
    steps: int = Field(100, ge=1, description="steps on all training graphs", source="deviation D4", unit="steps")
    learning_rate: float = Field(0.01, gt=0, description="of Adam", source=CODE)
    margin: float = Field(1.0, gt=0, description="γ in the bounds of Liao et al. and Garg et al.", source="D5")
    delta: float = Field(0.1, gt=0, lt=1, description="δ, probability that a bound fails", source="D5")
    batch: int = Field(64, ge=1, description="graphs in a dense batch", source="speed alone", unit="graphs")
    trace_error: float = Field(0.1, gt=0, description="wanted relative error of Tr H", source="our choice")
    trace_budget: float = Field(
        20.0, gt=0, description="most gradients for Tr H", source="our choice", unit="gradients"
    )


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Train all seeds and folds together, then evaluate every bound and measure."""
    first = runs[0]
    if first.source == "generated":
        graphs = generated(first.graphs or 200, first.label_noise, first.collection_seed)
    else:
        graphs = subset(first.dataset, first.graphs)
    data = prepare(graphs, first.model, first.batch, context.device)
    members = _Members(runs, context, data)
    members.train(context)
    with torch.no_grad():
        logits = members.logits()
    for place, run in enumerate(runs):
        if not torch.isfinite(logits[place]).all():
            context.diverged(run, "the outputs are not finite")
            continue
        measured = _measured(logits[place], data.targets, members.training[place], members.targets[place])
        problem, shift = members.problem(place)
        context.record(
            run,
            depth_of_diffusion=run.depth - 1,
            degree=data.degree,
            diffusion_norm=data.diffusion_norm,
            feature_matrix_norm=data.feature_matrix_norm,
            **measured,
            **_bounds(members.setting(place)),
            **_hessian_measures(problem, shift, measured["largest_loss"], run, context.stream_seed(run, "probes")),
        )
        context.save(run, "network", members.kept(place))
        context.progress(place + 1, len(runs))


class _Members:
    """Networks of one architecture, one for each run, trained at once on all graphs, each with its own training set."""

    def __init__(self, runs: Sequence[Parameters], context: RunContext, data: GraphData) -> None:
        self.run, self.data = runs[0], data
        shapes = weight_shapes(self.run.model, data.labels, self.run.width, data.classes, self.run.depth)
        drawn = [initial_weights(shapes, context.generator(run, _stream(run, "init"))) for run in runs]
        stacked = [torch.stack(list(column)).to(context.device) for column in zip(*drawn, strict=True)]
        self.initial = [weight.clone() for weight in stacked]
        self.weights = [weight.requires_grad_() for weight in stacked]
        self.training = torch.stack([_training(run, context, data.targets) for run in runs]).to(context.device)
        self.targets = torch.stack([_targets(run, context, data.targets) for run in runs]).to(context.device)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits [members, graphs, classes]."""
        arguments = (self.weights, batch.labels, batch.diffusion, batch.mask)
        return gcn_logits(*arguments) if self.run.model == "gcn" else message_passing_logits(*arguments, self.run.depth)

    def logits(self) -> torch.Tensor:
        """Of all graphs, in the collection's order: [members, graphs, classes]."""
        index = torch.cat([batch.index for batch in self.data.batches])
        parts = torch.cat([self.forward(batch) for batch in self.data.batches], dim=1)
        return parts[:, index.argsort()]

    def train(self, context: RunContext) -> None:
        """Adam on the mean loss of each member's training graphs, all graphs in every step."""
        optimiser = torch.optim.Adam(self.weights, lr=self.run.learning_rate)
        share = self.training / self.training.sum(1, keepdim=True)
        done = 0
        if (state := context.restore()) is not None:
            done = state["done"]
            for weight, saved in zip(self.weights, state["weights"], strict=True):
                weight.data.copy_(saved)
            optimiser.load_state_dict(state["optimiser"])
        for step in range(done, self.run.steps):
            optimiser.zero_grad()
            for batch in self.data.batches:
                logits, targets = self.forward(batch), self.targets[:, batch.index]
                losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
                torch.autograd.backward((losses.view_as(targets) * share[:, batch.index]).sum())
            optimiser.step()
            context.progress(step + 1, 2 * self.run.steps)
            weights = [weight.detach() for weight in self.weights]
            context.checkpoint({"done": step + 1, "weights": weights, "optimiser": optimiser.state_dict()})

    def setting(self, place: int) -> Setting:
        """What the bounds of one member are computed from."""
        run, data = self.run, self.data
        own = [weight[place : place + 1] for weight in self.weights]
        neurons = torch.tensor([run.width] * (run.depth - 1) + [data.classes], dtype=torch.float64)
        return setting_of(
            run,
            own,
            neurons,
            degree=data.degree,
            diffusion_norm=data.diffusion_norm,
            feature_matrix_norm=data.feature_matrix_norm,
            examples=int(self.training[place].sum()),
        )

    def problem(self, place: int) -> tuple[Problem, torch.Tensor]:
        """One member on its training graphs for the toolkit, and W − W⁽⁰⁾ as a flat vector."""
        network = GraphNetwork(self.run.model, [weight[place] for weight in self.weights], self.run.depth)
        batches = []
        for batch in self.data.batches:
            kept = self.training[place, batch.index]
            if kept.any():
                part = batch.take(kept)
                batches.append(((part.labels, part.diffusion, part.mask), self.targets[place, part.index]))
        problem = Problem(network, torch.nn.CrossEntropyLoss(), batches)
        moved = [
            weight[place].detach() - start[place] for weight, start in zip(self.weights, self.initial, strict=True)
        ]
        return problem, problem.flat(moved)

    def kept(self, place: int) -> dict[str, torch.Tensor]:
        """Weights at the end and at the start, and numbers of the graphs, for later measures."""
        setting = self.setting(place)
        numbers = [setting.degree, setting.diffusion_norm, setting.feature_matrix_norm, setting.examples]
        tensors = {f"weight{number}": weight[place] for number, weight in enumerate(self.weights)}
        tensors |= {f"initial{number}": weight[place] for number, weight in enumerate(self.initial)}
        return tensors | {"graphs": torch.tensor(numbers, dtype=torch.float64), "neurons": setting.neurons}


def _stream(run: Parameters, name: str) -> str:
    """A stream that all arms share, or one of the arm's own."""
    return f"own_{name}" if run.own_streams else name


def _training(run: Parameters, context: RunContext, targets: torch.Tensor) -> torch.Tensor:
    """Which graphs a run trains on, bool [graphs]."""
    return stratified_folds(targets, run.folds, context.generator(run, _stream(run, "split"))) != run.fold


def _targets(run: Parameters, context: RunContext, targets: torch.Tensor) -> torch.Tensor:
    """Classes to train on: true, or permuted among all graphs."""
    if run.labels == "true":
        return targets
    return shuffled(targets, context.generator(run, "shuffle"))


def _measured(
    logits: torch.Tensor, targets: torch.Tensor, training: torch.Tensor, shown: torch.Tensor
) -> dict[str, float]:
    """Losses and errors on training graphs (with the classes that were shown) and on fresh ones (true classes)."""
    seen = functional.cross_entropy(logits[training], shown[training], reduction="none")
    fresh = functional.cross_entropy(logits[~training], targets[~training])
    train_error = (logits[training].argmax(1) != shown[training]).float().mean()
    test_error = (logits[~training].argmax(1) != targets[~training]).float().mean()
    shares = shown[training].bincount() / training.sum()
    return {
        "training_loss": float(seen.mean()),
        "test_loss": float(fresh),
        "largest_loss": float(seen.max()),
        "training_error": float(train_error),
        "test_error": float(test_error),
        "guessing_loss": float(-(shares[shares > 0] * shares[shares > 0].log()).sum()),
    }


def _bounds(setting: Setting) -> dict[str, float]:
    """log₁₀ of every bound with d the largest degree, and of Liao's and Garg's with d + 1."""
    plus_one = replace(setting, degree=setting.degree + 1)
    values = {f"log10_{name}": value for name, value in setting.logarithms().items()}
    values |= {f"log10_{name}_plus_one": plus_one.logarithms()[name] for name in ("liao", "garg")}
    values["log10_garg_saturated"] = setting.garg(activation_limit=1.0).log10()
    if setting.model == "mpnn":
        values["log10_ours_fewer_diffusions"] = setting.ours(setting.depth - 2).log10()
    product = setting.layer_spectral.log10().sum(1)
    return {name: float(value) for name, value in values.items()} | {"log10_spectral_product": float(product)}


def _hessian_measures(
    problem: Problem, shift: torch.Tensor, largest_loss: float, run: Parameters, seed: int
) -> dict[str, float | bool]:
    """Σ_i sqrt(C v_iᵀ H_i v_i / N) over the weights, v = W − W⁽⁰⁾, and sqrt(C Tr H ‖v‖² / N) after Theorem 1.

    H is that of the training loss, C the largest loss of a training graph; a negative form counts as zero, an estimated
    trace as at least its standard error.
    """
    forms = quadratic_forms_by_parameter(Hessian(problem), shift).values()
    measure = sum(math.sqrt(largest_loss * max(form, 0.0) / problem.count) for form in forms)
    estimate = trace(problem, relative_error=run.trace_error, budget=run.trace_budget, seed=seed % 2**31)
    squared = float(shift.double().square().sum())
    return {
        "hessian_measure": measure,
        "hessian_trace": estimate.value,
        "hessian_trace_error": estimate.error,
        "trace_measure": math.sqrt(largest_loss * max(estimate.value, estimate.error) * squared / problem.count),
        "examples": problem.count,
        "distance": math.sqrt(squared),
    }

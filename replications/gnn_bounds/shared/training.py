"""Training graph networks of one architecture for all seeds and folds at once, and their losses and errors."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch.nn import functional

from common.experiments import DatasetName, Field, RunContext
from common.experiments.controls import ControlArm, shuffled
from common.hessian import Problem
from common.models.graph_networks import GraphNetwork, initial_weights, member_logits, weight_shapes

from .graph_data import Batch, GraphData, generated, prepare, stratified_folds, subset

CODE = "authors' public code"


class NetworkParameters(ControlArm):
    """Settings of a trained network."""

    source: Literal["collection", "generated"] = Field("collection", description="real or generated", source="D2")
    dataset: DatasetName = Field("mutag", description="collection of graphs", source="deviation D2")
    graphs: int = Field(0, ge=0, description="graphs taken of it, 0 for all", source="deviation D2", unit="graphs")
    label_noise: float = Field(0.15, ge=0, lt=0.5, description="swapped classes of generated graphs", source="D2")
    collection_seed: int = Field(2024, ge=0, description="which generated collection", source="our choice")
    model: Literal["gcn", "mpnn", "sage", "gin"] = Field("gcn", description="the network", source="Table 1 and Fig. 5")
    depth: int = Field(2, ge=2, description="number of layers l, pooling included", source="deviation D3")
    width: int = Field(128, ge=1, description="hidden width h", source=CODE, unit="neurons")
    folds: int = Field(10, ge=2, description="folds of the collection", source=CODE)
    fold: int = Field(0, ge=0, description="which of them is the test set", source="grid")
    steps: int = Field(100, ge=1, description="steps on all training graphs", source="deviation D4", unit="steps")
    learning_rate: float = Field(0.01, gt=0, description="of Adam", source=CODE)
    batch: int = Field(64, ge=1, description="graphs in a dense batch", source="speed alone", unit="graphs")


def graphs_of(run: NetworkParameters, device: torch.device) -> GraphData:
    """The collection of a run, prepared for its network."""
    if run.source == "generated":
        graphs = generated(run.graphs or 200, run.label_noise, run.collection_seed)
    else:
        graphs = subset(run.dataset, run.graphs)
    return prepare(graphs, run.model, run.batch, device)


class Members:
    """Networks of one architecture, one for each run, trained at once on all graphs, each with its own training set."""

    def __init__(self, runs: Sequence[NetworkParameters], context: RunContext, data: GraphData) -> None:
        self.run, self.data = runs[0], data
        shapes = weight_shapes(self.run.model, data.labels, self.run.width, data.classes, self.run.depth)
        drawn = [initial_weights(shapes, context.generator(run, _stream(run, "init"))) for run in runs]
        stacked = [torch.stack(list(column)).to(context.device) for column in zip(*drawn, strict=True)]
        self.initial = [weight.clone() for weight in stacked]
        self.weights = [weight.requires_grad_() for weight in stacked]
        self.training = torch.stack([_training(run, context, data.targets) for run in runs]).to(context.device)
        widths = [self.run.width] * (self.run.depth - 1) + [data.classes]
        self.neurons = torch.tensor(widths, dtype=torch.float64, device=context.device)
        self.targets = torch.stack([_targets(run, context, data.targets) for run in runs]).to(context.device)

    def forward(self, batch: Batch) -> torch.Tensor:
        """Logits [members, graphs, classes]."""
        run = self.run
        return member_logits(run.model, self.weights, batch.labels, batch.diffusion, batch.mask, depth=run.depth)

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

    def problem(self, place: int) -> tuple[Problem, torch.Tensor]:
        """One member on its training graphs for the toolkit, and W − W⁽⁰⁾ as a flat vector."""
        problem = self.problem_in(place, range(len(self.weights)))
        moved = [
            weight[place].detach() - start[place] for weight, start in zip(self.weights, self.initial, strict=True)
        ]
        return problem, problem.flat(moved)

    def problem_in(self, place: int, chosen: Sequence[int]) -> Problem:
        """One member on its training graphs, as a function of the weights with the numbers `chosen` alone."""
        network = GraphNetwork(self.run.model, [weight[place] for weight in self.weights], self.run.depth)
        for number, weight in enumerate(network.weights):
            weight.requires_grad_(number in chosen)
        batches = []
        for batch in self.data.batches:
            kept = self.training[place, batch.index]
            if kept.any():
                part = batch.take(kept)
                batches.append(((part.labels, part.diffusion, part.mask), self.targets[place, part.index]))
        return Problem(network, torch.nn.CrossEntropyLoss(), batches)


def _stream(run: NetworkParameters, name: str) -> str:
    """A stream that all arms share, or one of the arm's own."""
    return f"own_{name}" if run.own_streams else name


def _training(run: NetworkParameters, context: RunContext, targets: torch.Tensor) -> torch.Tensor:
    """Which graphs a run trains on, bool [graphs]."""
    return stratified_folds(targets, run.folds, context.generator(run, _stream(run, "split"))) != run.fold


def _targets(run: NetworkParameters, context: RunContext, targets: torch.Tensor) -> torch.Tensor:
    """Classes to train on: true, or permuted among all graphs."""
    if run.labels == "true":
        return targets
    return shuffled(targets, context.generator(run, "shuffle"))


def measured_losses(
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

"""The slide on graph statistics: the largest degree of five social networks against three spectral norms."""

from collections.abc import Sequence

from common.datasets.graphs import load_network
from common.experiments import DatasetName, ExperimentParameters, Field, RunContext

from .shared.spectra import Network


class Parameters(ExperimentParameters):
    """Settings of one network."""

    dataset: DatasetName = Field("email_enron", description="the network", source="our choice, deviation D1")
    tolerance: float = Field(1e-6, gt=0, description="relative residual at which Lanczos stops", source="our choice")
    products: int = Field(400, ge=2, description="most products of a Lanczos run", source="our choice")


def run(runs: Sequence[Parameters], context: RunContext) -> None:
    """Degrees and norms, each with the residual of its eigenpair."""
    for number, run in enumerate(runs):
        network = Network(load_network(run.dataset))
        norms = network.norms(context.generator(run, "probes"), run.tolerance, run.products)
        degrees = network.degrees
        context.record(
            run,
            nodes=network.nodes,
            edges=network.edges,
            degree=float(degrees.max()),
            mean_degree=float(degrees.mean()),
            root_mean_square_degree=float(degrees.square().mean().sqrt()),
            **{name: norm.value for name, norm in norms.items()},
            **{f"{name}_residual": norm.residual for name, norm in norms.items()},
            **{f"{name}_products": norm.products for name, norm in norms.items()},
        )
        context.progress(number + 1, len(runs))

"""The networks of Fig. 1, added up."""

import pandas as pd
import pytest
from torch import nn

from common.models.imagenet_resnet import resnet34
from replications.sgd_stability import parameter_counts
from replications.sgd_stability.analysis.parameter_counts import PRINTED, figures, metrics
from tests.context import MemoryContext


def test_layers_add_up_to_what_a_built_network_has() -> None:
    without_classifier = sum(parameter.numel() for parameter in resnet34().parameters())
    built = without_classifier + sum(parameter.numel() for parameter in nn.Linear(512, 1000).parameters())
    assert parameter_counts.count(parameter_counts._resnet((3, 4, 6, 3), bottleneck=False)) == built


@pytest.mark.parametrize("change", [0, 1])
def test_a_count_that_is_not_the_printed_one_differs_by_as_much(change: int) -> None:
    context = MemoryContext("parameter_counts")
    runs = [parameter_counts.Parameters(network=name) for name in PRINTED]
    parameter_counts.run(runs, context)
    rows = [
        {**row, "run": name, "network": name, "parameters": row["parameters"] + change * (name == "vgg11")}
        for name, row in zip(PRINTED, context.rows, strict=True)
    ]
    table = metrics(pd.DataFrame(rows))
    assert table["difference"].to_dict() == {name: change * (name == "vgg11") for name in PRINTED}
    assert table.loc["mlp_1x512", "per_image"] == pytest.approx(24.2, abs=0.01)
    assert set(figures(pd.DataFrame(rows))) == {"fig1"}

"""What a run of the regulariser counts as."""

import numpy as np
import pandas as pd
import pytest

from replications.trace_wrn.analysis.shared.trace_penalty import regulariser_metrics
from tests.unit.replications.trace_wrn.samples import ends


def test_the_training_loss_is_measured_by_that_of_guessing_among_the_classes_there_are() -> None:
    for dataset, classes in (("cifar10", 10), ("cifar100", 100)):
        rows = [ends("none", 0.0, 1.0, dataset), ends("hessian", 0.9 * np.log(classes), 1.0, dataset)]
        table = regulariser_metrics(pd.DataFrame(rows))
        assert table.loc["hessian,0", "loss_share"] == pytest.approx(0.9)


def test_no_arm_says_anything_where_training_without_a_penalty_fails() -> None:
    rows = [ends("none", 0.1, 100.0), ends("ggn", 2.2, 90.0)]
    reached = regulariser_metrics(pd.DataFrame(rows))["regime_reached"]
    assert reached["ggn,0"], "a penalty that spoils training is no reason to leave its runs out"
    rows = [ends("none", 1.2, 100.0), ends("hessian", 2.3, 100.0), ends("ggn", 0.1, 10.0, seed=1)]
    assert not regulariser_metrics(pd.DataFrame(rows))["regime_reached"].any()

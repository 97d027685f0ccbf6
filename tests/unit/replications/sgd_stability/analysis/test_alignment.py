"""μ where the loss falls below a common one, and unevenness at the end."""

import numpy as np
import pandas as pd
import pytest

from replications.sgd_stability.analysis.alignment import EQUAL_LOSS, metrics


def _metrics(losses: list[float], mu: list[float]) -> pd.Series:
    table = pd.DataFrame({"loss": np.array(losses) * EQUAL_LOSS, "mu": mu, "step": range(len(mu))})
    table["uneven_errors"] = np.arange(1.0, len(mu) + 1)
    fixed = {"run": "a", "alpha": 1.0, "beta": 1.0, "gamma": 0.1, "parameters": 9}
    uneven = {"uneven_gradients": 1.0, "uneven_gradient_norms": 0.5}
    return metrics(table.assign(loss_reached=1.0, **fixed, **uneven)).loc["a"]


def test_mu_is_read_where_the_loss_last_falls_below_the_common_one() -> None:
    found = _metrics([100.0, 0.5, 10.0, 0.1], [1.0, 7.0, 1.0, np.e**2])
    assert found["log_mu_at_equal_loss"] == pytest.approx(1)
    assert found["log_unevenness"] == pytest.approx(np.log([1, 2, 3, 4]).mean())
    assert found["log_unevenness_last"] == pytest.approx(np.log(4))
    assert found["log_mu_along"] == pytest.approx(np.log([1, 7, 1, np.e**2]))
    assert found["log_loss_along"] == pytest.approx(np.log(np.array([100, 0.5, 10, 0.1]) * EQUAL_LOSS))


def test_a_run_that_does_not_come_by_has_no_value() -> None:
    assert np.isnan(_metrics([100.0, 10.0], [1.0, 1.0])["log_mu_at_equal_loss"])

"""Where the tables of the convolutional networks are judged."""

import pandas as pd
import pytest

from replications.trace_wrn.analysis.weight_decay_convolutional import JUDGED, metrics
from replications.trace_wrn.shared.published import TABLES


def rows(error: float) -> pd.DataFrame:
    """The last record of each network, with this training error."""
    values = {
        "kind": "final", "training_error": error, "test_error": 0.4, "training_loss": 0.1, "test_loss": 2.0,
        "parameters": 10, "initial_norm": 3.0, "norm": 4.0, "sharpness": 5.0, "trace": 6.0, "trace_squared": 30.0,
        "trace_squared_error": 1.0,
    }  # fmt: skip
    return pd.DataFrame([{"run": network, "network": network, **values} for network in ("cnn", "preresnet", "wrn")])


@pytest.mark.parametrize(("error", "judged"), [(0.009, ["cnn", "preresnet", "wrn"]), (0.011, ["cnn"]), (0.21, [])])
def test_a_network_is_judged_where_it_fits_its_images_as_the_documents_does(error: float, judged: list[str]) -> None:
    table = metrics(rows(error))
    assert list(table.index[table["regime_reached"]]) == judged
    for name in JUDGED:
        assert list(table.index[table[f"{name}_fitted"].notna()]) == judged
        assert table[f"{name}_fitted"].dropna().eq(table[name].iloc[0]).all()


def test_the_documents_own_networks_are_in_their_regime() -> None:
    for network in ("cnn", "preresnet", "wrn"):
        for row in TABLES[network].rows:
            assert network in metrics(rows(1 - row.training_accuracy / 100)).query("regime_reached").index

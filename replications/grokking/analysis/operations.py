"""The other operations modulo p: accuracy over steps."""

import pandas as pd
from matplotlib.figure import Figure

from .shared.accuracies import accuracy_panels, dots
from .shared.grokked_runs import run_metrics, single_metrics

metrics = single_metrics


def figures(records: pd.DataFrame) -> dict[str, Figure]:
    """Accuracy and fluctuation for each operation, with and without noise."""
    signs = {"add": "a + b", "subtract": "a − b", "multiply": "a · b", "divide": "a / b"}
    arms = {"large_decay": "", "large_decay_nso": ", NSO"}
    both = records.assign(
        setting=records["operation"].map(signs) + records["arm"].map(arms),
    )
    settings = [f"{sign}{arm}" for sign in signs.values() for arm in arms.values()]
    settings = [setting for setting in settings if (both["setting"] == setting).any()]
    table = run_metrics(both).join(both.groupby("run", sort=False)["setting"].first())
    columns = {
        "time_to_grok": "steps to 99 %",
        "fluctuation": "fluctuation after\n99 % (points)",
        "drops": "drops by more\nthan 5 points",
    }
    return {
        "operations": accuracy_panels(
            both, "setting", {name: name for name in settings}, "Operations modulo {modulus}"
        ),
        "operations_fluctuation": dots(
            table, "setting", settings, columns, title="Operations · time to grok and fluctuation", records=records
        ),
    }

"""Where a sub-batch is compared."""

import pandas as pd

from replications.trace_wrn.analysis.sub_batch import metrics as sub_batch_metrics
from tests.unit.replications.trace_wrn.samples import ends


def test_a_sub_batch_is_compared_only_where_the_full_penalty_lowers_the_trace() -> None:
    for full, expected in ((90.0, False), (60.0, True)):
        rows = [ends("none", 0.1, 100.0), ends("whole", 2.2, full), ends("eighth", 0.1, 65.0)]
        reached = sub_batch_metrics(pd.DataFrame(rows))["regime_reached"]
        assert reached["eighth,0"] == expected
        assert reached["whole,0"] == expected

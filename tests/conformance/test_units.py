"""`units` of paper.yaml names metrics that claims without a unit of their own read."""

from pathlib import Path

import pytest

from common.claims import load_claims
from common.experiments.paper import Paper
from common.sources import load_typed
from tests.conftest import ROOT

PAPERS = sorted((ROOT / "replications").glob("*/paper.yaml"))


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.parent.name)
def test_units_of_metrics_are_of_claims_that_have_none(path: Path) -> None:
    without = [claim.estimate for claim in load_claims(path.with_name("claims.yaml")) if claim.unit is None]
    read = {name for estimate in without for name in estimate.variables()}
    assert load_typed(path, Paper).units.keys() <= read

"""Published verdicts are what the rules of today say of the published metrics."""

import json
from pathlib import Path

import pytest

from common.experiments.scales import SCALES
from common.workflow.discovery import find
from common.workflow.publish import judged_anew
from tests.conftest import ROOT

PLACES = [place for scale in SCALES for place in sorted((ROOT / "reports/published" / scale).glob("*"))]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.parent.name}-{place.name}")
def test_published_verdicts_follow_from_the_published_metrics_by_the_rules_of_today(place: Path) -> None:
    judged = json.loads(json.dumps(judged_anew(find(ROOT, place.name), place.parent.name, place)))
    published = [
        {key: value for key, value in verdict.items() if key not in ("commit", "rule_commit", "decided_by")}
        for verdict in json.loads((place / "verdicts.json").read_text())
    ]
    hint = f"judge it again: `replicate publish {place.name} --scale {place.parent.name} --verdicts`"
    assert {v["id"]: v for v in published} == {v["id"]: v for v in judged}, hint

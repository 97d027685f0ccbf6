"""Published verdicts are what the rules of today say of the published metrics."""

import json
from pathlib import Path

import pytest

from common.experiments.scales import SCALES
from common.workflow.discovery import find
from common.workflow.publish import close, judged_anew
from tests.conftest import ROOT

PLACES = [place for scale in SCALES for place in sorted((ROOT / "reports/published" / scale).glob("*"))]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.parent.name}-{place.name}")
def test_published_verdicts_follow_from_the_published_metrics_by_the_rules_of_today(place: Path) -> None:
    judged = {verdict["id"]: verdict for verdict in judged_anew(find(ROOT, place.name), place.parent.name, place)}
    of_publication = ("commit", "rule_commit", "decided_by")
    published = {
        verdict["id"]: {key: value for key, value in verdict.items() if key not in of_publication}
        for verdict in json.loads((place / "verdicts.json").read_text())
    }
    hint = f"judge it again: `replicate publish {place.name} --scale {place.parent.name} --verdicts`"
    assert published.keys() == judged.keys(), hint
    assert [name for name in judged if not close(judged[name], published[name])] == [], hint

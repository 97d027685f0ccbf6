"""What the Snakefile promises to make, it deletes where a step fails: never a file that git keeps."""

import re

from tests.conftest import ROOT, Project


def test_no_output_of_a_rule_is_tracked() -> None:
    text = (ROOT / "Snakefile").read_text()
    blocks = re.findall(r"^( +)output:\n((?:\1 +.*\n)+)", text, re.MULTILINE)
    paths = [path for _, block in blocks for path in re.findall(r'"([^"]+/[^"]+)"', block)]
    assert len(paths) == 6
    names = [re.sub(r"\{[^}]*\}+", "x", path) for path in paths]
    ignored = Project(ROOT).command("git", "check-ignore", *names).stdout.split()
    assert ignored == names


def test_one_experiment_can_be_asked_for_and_brings_what_it_starts_from(project: Project) -> None:
    for target, jobs in (("decay__descent", ["descent"]), ("decay__measurement", ["descent", "measurement"])):
        done = project.snakemake("-n", "--config", "scale=laptop", "--", target)
        assert done.returncode == 0, done.stderr
        asked_for = set(re.findall(r"^rule (\w+):", done.stdout, re.MULTILINE))
        assert asked_for == {target, *(f"run_decay__{job}" for job in jobs)}

"""What the Snakefile promises to make, it deletes where a step fails: never a file that git keeps."""

import os
import re
import shutil
import sys
from pathlib import Path

from tests.conftest import ROOT, Project, program


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


def test_pages_that_stand_there_already_are_no_reason_to_compute_nothing(project: Project) -> None:
    """`make site` writes them in a fresh clone; an analysis may have outlived its runs."""

    def due(target: str) -> set[str]:
        done = project.snakemake("-n", "--config", "scale=laptop", "--", target)
        assert done.returncode == 0, done.stderr
        return set(re.findall(r"^(?:local)?rule (\w+):", done.stdout, re.MULTILINE))

    everything = {"run_decay__descent", "run_decay__measurement", "analyse", "page"}
    for name in ("site/decay.html", "index.html"):
        (page := project.root / "reports" / name).parent.mkdir(parents=True, exist_ok=True)
        page.write_text("as published")
    assert due("all") == {*everything, "index", "all"}
    (verdicts := project.root / "analysis/laptop/decay/verdicts.json").parent.mkdir(parents=True)
    verdicts.write_text("[]")
    os.utime(page.parent / "site/decay.html")
    assert due("decay") == {*everything, "decay"}


def test_no_setting_of_the_site_is_lost_where_the_command_line_names_a_scale(project: Project, tmp_path: Path) -> None:
    """Steps follow the command, in the image and with its Python: a program in Apptainer's place executes them here."""
    folder = tmp_path / "programs"
    folder.mkdir()
    log, modules = tmp_path / "asked", tmp_path / "modules"
    says = f'case "$1" in --version) echo "apptainer version 1.4.0"; exit;; esac; printf "%s\\n" "$*" >> {log}'
    inside = 'while [ "$1" != bash ]; do shift; done; exec "$@"'
    program(folder, "apptainer", f"{says}; {inside}")
    program(folder, "python", f'echo "$MODULE" >> {modules}; exec {sys.executable} "$@"')
    (project.root / "replications.sif").touch()
    shutil.copytree(ROOT / "slurm", project.root / "slurm")
    site = project.root / "slurm/site.yaml"
    command = 'before_job: "export MODULE=loaded$UNSET"'
    site.write_text(site.read_text().replace('before_job: ""', command).replace('image: ""', "image: replications.sif"))
    done = project.command(
        *(sys.executable, "-m", "snakemake", "--profile", "slurm", "--executor", "local", "--cores", "2"),
        *("--sdm", "apptainer", "--apptainer-args=--nv", "--config", "scale=smoke"),
        *("--", "analysis/smoke/decay/verdicts.json"),
        PATH=f"{folder}:{os.environ['PATH']}",
    )
    assert done.returncode == 0, done.stderr
    asked = [line for line in log.read_text().splitlines() if line.startswith("exec ")]
    assert len(asked) == 2  # the job and the analysis
    for line in asked:
        assert " --nv " in line
        assert " replications.sif bash -c " in line
        assert "python -m common.cli step " in line
        assert sys.executable not in line
    assert modules.read_text().split() == ["loaded", "loaded"]

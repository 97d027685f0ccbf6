"""claims.yaml: what may stand in it, how its rules read, and the sentence for each mistake."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from common.claims import check, load_claims, rule_text
from common.errors import UserError
from common.workflow.rules import claim_digest

GOOD = """\
- id: fig4-stable
  statement: Noise injection removes the fluctuations.
  polarity: claim
  source: {document: zhang2024hessian_view, locator: Fig. 4, reported: null}
  experiment: modular_addition
  estimate: {kind: paired_difference, metric: fluctuation, of: {arm: noisy}, minus: {arm: plain}, pair_by: seed}
  accept: {below: 0}
  smallest_effect: 0.01
  decidable_from: laptop
  nature: empirical
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "claims.yaml"
    path.write_text(text)
    return path


def test_claim_reads_as_written(tmp_path: Path) -> None:
    (claim,) = load_claims(write(tmp_path, GOOD))
    assert claim.estimate.kind == "paired_difference"
    assert (claim.accept.below, claim.smallest_effect, claim.decidable_from) == (0, 0.01, "laptop")
    assert rule_text(claim) == (
        "paired difference of fluctuation, noisy minus plain, below 0 (smallest effect that counts: 0.01)"
    )


def test_seeds_that_may_miss_their_regime_are_part_of_the_rule_where_there_are_any(tmp_path: Path) -> None:
    (plain,) = load_claims(write(tmp_path, GOOD))
    (none,) = load_claims(write(tmp_path, GOOD + "  may_miss_regime: 0\n"))
    (two,) = load_claims(write(tmp_path, GOOD + "  may_miss_regime: 2\n"))
    assert claim_digest(plain) == claim_digest(none) != claim_digest(two)
    assert rule_text(two) == f"{rule_text(plain)}; at most 2 seeds outside their regime are left out"
    every_run = GOOD.replace(
        GOOD[GOOD.index("{kind") : GOOD.index("\n  accept")], "{kind: exact, metric: m, over: seed}"
    )
    with pytest.raises(UserError, match="may_miss_regime goes with estimates over seeds"):
        load_claims(write(tmp_path, every_run.replace("  smallest_effect: 0.01\n", "  may_miss_regime: 1\n")))


@pytest.mark.parametrize(
    ("estimate", "accept", "text"),
    [
        ("{kind: mean, metric: m, over: [a, b], where: {arm: x}}", "{above: 0.5}",
         "mean of m over a, b at arm=x, above 0.5"),
        ("{kind: proportion, metric: m}", "{above: 0.5}", "share of seeds with m = 1, above 0.5"),
        ("{kind: mean, metric: m}", "{within: [0.999999, 1.000001]}", "mean of m, within 1e−06 of 1"),
        ("{kind: paired_difference, metric: m, of: {size: 2}, minus: {size: 4}}", "{above: 0}",
         "paired difference of m, size=2 minus size=4, above 0"),
        ("{kind: ratio_of_means, metric: m, of: {arm: a}, to: {arm: b}}", "{below: 1}",
         "ratio of mean m, a to b, below 1"),
        ("{kind: earlier, metric: m, of: {arm: a}, than: {arm: b}}", "{above: 0.5}",
         "share of seeds in which, by m, a comes before b, above 0.5"),
        ("{kind: difference_at_equal, metric: m, equal: u, of: {arm: a}, minus: {arm: b}, over: c}", "{above: 0}",
         "difference of m at equal u, a minus b, averaged over c, above 0"),
        ("{kind: worst_case, metric: m, over: a}", "{below: 1.1}", "largest m over a within a seed, below 1.1"),
        ("{kind: worst_case, metric: m, over: a}", "{above: 1}", "smallest m over a within a seed, above 1"),
        ("{kind: correlation, x: u, y: v, over: a, within: seed, given: [w]}", "{above: 0}",
         "Spearman partial correlation of u and v given w over a within each seed, above 0"),
        ("{kind: correlation, x: u, y: v, over: a, method: pearson}", "{above: 0}",
         "Pearson correlation of u and v over a within each seed, above 0"),
        ("{kind: slope, x: u, y: v, over: a}", "{within: [-0.6, -0.4]}",
         "slope of v on u over a within each seed, between −0.6 and −0.4"),
        ("{kind: difference_of_correlations, of: {x: u, y: v}, minus: {x: w, y: v}, over: a}", "{above: 0}",
         "Spearman correlation of u and v minus that of w and v over a within each seed, above 0"),
        ("{kind: exact, metric: m, over: a, tolerance: 1e-3}", "{within: [1, 2]}",
         "value of m at every a to within 0.001, between 1 and 2"),
    ],
)  # fmt: skip
def test_every_rule_reads_as_a_sentence(tmp_path: Path, estimate: str, accept: str, text: str) -> None:
    body = GOOD.replace(GOOD[GOOD.index("{kind") : GOOD.index("\n  accept")], estimate)
    body = body.replace("{below: 0}", accept).replace("  smallest_effect: 0.01\n", "")
    (claim,) = load_claims(write(tmp_path, body))
    assert rule_text(claim) == text


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("kind: paired_difference", "kind: paired", 6, "'paired' found using 'kind' does not match"),
        ("{below: 0}", "{below: 0, above: 1}", 7, "give exactly one of below, above, within"),
        ("{below: 0}", "{}", 7, "give exactly one of below, above, within"),
        ("{below: 0}", "{within: [2, 1]}", 7, "within runs from 2 down to 1"),
        ("{below: 0}", "{below: .nan}", 7, "finite number"),
        ("{below: 0}", "{within: [-1, 1]}", 8, "it goes with below or above, not with within"),
        ("smallest_effect: 0.01", "smallest_effect: -1", 8, "greater than 0"),
        ("decidable_from: laptop", "decidable_from: pc", 9, "'smoke', 'laptop', 'workstation' or 'paper' .got 'pc'"),
        ("smallest_effect: 0.01", "may_miss_regime: -1", 8, "greater than or equal to 0"),
        ("polarity: claim", "polarity: clame", 3, "'claim', 'control' or 'our_finding' .got 'clame'"),
        ("polarity: claim", "colour: red", 3, "colour: there is no such key; there are: accept, amended, "),
        ("metric: fluctuation, ", "", 6, "metric: the key is missing"),
        ("minus: {arm: plain}", "minus: {arm: noisy}", 6, "of and minus name the same runs"),
        (
            "minus: {arm: plain}",
            "minus: {size: 3}",
            6,
            "of names the axes arm, minus size; both must name the same axes",
        ),
        ("minus: {arm: plain}", "to: {arm: plain}", 6, "fig4-stable.estimate.minus: the key is missing"),
        ("pair_by: seed", "pair_bye: seed", 6, "fig4-stable.estimate.pair_bye: .* did you mean 'pair_by'"),
        ("nature: empirical", "nature: true", 10, "'empirical', 'theorem' or 'printed'"),
        ("  nature: empirical\n", "", 1, "nature: the key is missing"),
        ("nature: empirical", "nature: empirical\n  size: {reported: 1, origin: 1}", 11, "the reported effect is none"),
        ("pair_by: seed", "pair_by: sample", 6, "pair_by: Input should be 'seed'"),
        ("pair_by: seed", "where: {seed: 0}", 6, "n counts seeds"),
        (
            "pair_by: seed",
            "where: {size: [1, 2]}",
            6,
            "where.size: an axis is fixed to one value; list the axis in over",
        ),
        ("reported: null", "reported: [1]", 4, "source.reported: a whole number, a number or a text is needed"),
        ("pair_by: seed", "over: [arm]", 6, "axis arm is fixed to one value and also in over"),
        ("id: fig4-stable", "id: a b", 1, "id: String should match pattern"),
        ("decidable_from: laptop", "amended: {date: 2026-01-01}", 9, "reason: the key is missing"),
        ("decidable_from: laptop", "decidable_from: [", 11, "not valid YAML"),
    ],
)
def test_mistake_names_file_line_and_key(tmp_path: Path, old: str, new: str, line: int, message: str) -> None:
    path = write(tmp_path, GOOD.replace(old, new))
    with pytest.raises(UserError, match=rf"claims\.yaml:{line}: .*{message}") as error:
        load_claims(path)
    assert "\n" not in str(error.value)


def test_worst_case_needs_a_side(tmp_path: Path) -> None:
    body = GOOD.replace(GOOD[GOOD.index("{kind") : GOOD.index("\n  accept")], "{kind: worst_case, metric: m, over: a}")
    body = body.replace("{below: 0}", "{within: [0, 1]}").replace("  smallest_effect: 0.01\n", "")
    with pytest.raises(UserError, match=r"claims\.yaml:7: .*Two sides are two claims"):
        load_claims(write(tmp_path, body))


def test_repeated_id_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"claims\.yaml:11: claim fig4-stable is already defined in line 1"):
        load_claims(write(tmp_path, GOOD + GOOD))


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"claims\.yaml: no such file"):
        load_claims(tmp_path / "claims.yaml")


def test_check_names_file_line_and_what_exists(tmp_path: Path) -> None:
    (claim,) = load_claims(write(tmp_path, GOOD))
    axes = {"arm": ["noisy", "plain"], "seed": [0, 1, 2]}
    check(claim, ["fluctuation"], axes, experiments=["modular_addition"])
    place = r"claims\.yaml:1: claim fig4-stable: "
    unknown: list[tuple[str, Any]] = [
        (r"no experiment is called modular_addition \(did you mean modular_adition", (None, axes, ["modular_adition"])),
        (r"modular_addition has no metric fluctuation \(did you mean fluctuations", (["fluctuations", "loss"], axes)),
        ("axis modulus of modular_addition is neither named nor in over", (None, {**axes, "modulus": [97]})),
        (r"axis arm has no value noisy \(known: plain\)", (None, {**axes, "arm": ["plain"]})),
        ("modular_addition has no axis seed to count n by", (None, ["arm"])),
        ("modular_addition has no axis arm", (None, ["seed"])),
    ]
    for message, (metrics, of_grid, *experiments) in unknown:
        with pytest.raises(UserError, match=place + message):
            check(claim, metrics, of_grid, experiments=experiments[0] if experiments else None)


def test_of_values_that_are_there_the_nearest_number_is_proposed(tmp_path: Path) -> None:
    (claim,) = load_claims(write(tmp_path, GOOD.replace("{arm: noisy}", "{arm: 12}")))
    with pytest.raises(UserError, match=r"axis arm has no value 12 \(did you mean 10\? known: 2, 4, 10, 100\)"):
        check(claim, None, {"arm": [100, 10, 2, 4], "seed": [0, 1]})


def test_reading_claims_imports_no_analysis_library() -> None:
    code = "import sys, common.claims; print([m for m in ('pandas', 'scipy', 'numpy') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_dispute_stands_beside_a_claim_and_does_not_change_its_rule(tmp_path: Path) -> None:
    (plain,) = load_claims(write(tmp_path, GOOD))
    (disputed,) = load_claims(write(tmp_path, GOOD + "  disputed: {url: 'https://example.org/7', since: 2026-02-03}\n"))
    assert disputed.disputed is not None
    assert disputed.disputed.since.isoformat() == "2026-02-03"
    assert claim_digest(disputed) == claim_digest(plain)
    with pytest.raises(UserError, match=r"disputed\.url"):
        load_claims(write(tmp_path, GOOD + "  disputed: {url: 'javascript:alert(1)', since: 2026-02-03}\n"))

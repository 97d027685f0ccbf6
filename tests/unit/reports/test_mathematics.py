"""Mathematics in statements: what is set, and the words that are left alone."""

import re

import pytest

from common.reports.mathematics import mathematics, with_mathematics


def plain(text: str) -> str:
    """Set text with short marks: variables as *x*, powers as ^{}, indices as _{}."""
    short = {"<i>": "*", "</i>": "*", "<sup>": "^{", "</sup>": "}", "<sub>": "_{", "</sub>": "}"}
    return re.sub("|".join(short), lambda found: short[found.group()], str(mathematics(text)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("λ₁ · η", "*λ*_{1} · *η*"),
        ("2(1 + β)/((1 + 2β)η)", "2(1 + *β*)/((1 + 2*β*)*η*)"),
        ("‖H‖_F of Tr H²", "‖*H*‖_{F} of Tr *H*^{2}"),
        ("σ² and 5·10⁻⁴", "*σ*^{2} and 5·10^{−4}"),
        ("falls as e^-1.06.", "falls as *e*^{−1.06}."),
        ("n ≥ d^5, N_min", "*n* ≥ *d*^{5}, *N*_{min}"),
        ("d^(l−1)/‖A‖₂^(l−1)", "*d*^{*l*−1}/‖*A*‖_{2}^{*l*−1}"),
        ("D^-½AD^-½ or D⁻¹A", "*D*^{−½}*AD*^{−½} or *D*^{−1}*A*"),
        ("√(C vᵀHv/N)", "√(*C* *v*^{T}*Hv*/*N*)"),
        ("‖θ‖²_{2,√d} and 2^{k+1}", "‖*θ*‖^{2}_{2,√*d*} and 2^{*k*+1}"),
        ("(N − B)/(B(N − 1))", "(*N* − *B*)/(*B*(*N* − 1))"),
        ("ΔL, N H₊ + I", "Δ*L*, *N* *H*_{+} + *I*"),
        ("the published a, a = Tr H/P", "the published *a*, *a* = Tr *H*/*P*"),
        ("log₁₀ 0.15 and max |f − y|", "log_{10} 0.15 and max |*f* − *y*|"),
        ("the n-th step", "the *n*-th step"),
        ("a < b & c", "*a* &lt; *b* &amp; *c*"),
    ],
)  # fmt: skip
def test_variables_powers_and_indices_are_set(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "A batch of a network, and I think so.",
        "e.g. i.e. Fig. 4a, panel b, panels a to d, Table C",
        "Polyak’s heavy ball; Table 7’s difference",
        "fan_out, large_decay_nso and 2/fan_out",
        "fig1_map of table3_gap",
        "MNIST-1D, ResNet-20, 25k parameters at 95 %",
        "U-Net, t-test, x-axis",
        "SGD, GCN and log10 of (its) loss",
        "log_, _x, ^ and (",
        "",
    ],
)
def test_ordinary_words_stay_as_they_are(text: str) -> None:
    assert mathematics(text) == text


def test_a_number_over_a_variable_stays_on_one_line() -> None:
    assert mathematics("to 2/η and") == 'to <span class="whole">2/<i>η</i></span> and'


def test_formulas_code_and_links_of_a_page_stay() -> None:
    html = '<em>B</em> &lt; n <code>λ₁ a_b</code> <a href="#n^2">n^2</a> <math><mi>λ</mi></math>'
    assert with_mathematics(html) == (
        '<em><i>B</i></em> &lt; <i>n</i> <code>λ₁ a_b</code> <a href="#n^2"><i>n</i><sup>2</sup></a> '
        "<math><mi>λ</mi></math>"
    )

"""The numbers that Practical PAC-Bayes (2021) prints in Tables 1 to 9 and in section 5."""

from dataclasses import dataclass

GAMMAS = (0.0, 0.0001, 0.0005)


@dataclass(frozen=True)
class Row:
    """A line of Tables 1, 2, 4 or 5.

    Attributes:
        error_gap: ΔE, training minus test accuracy in percent.
        loss_gap: ΔL, test minus training loss in nats.
        trace, trace_squared: the columns "Tr H" and "Tr H²", which are means over parameters (deviation D4).
        sharpness: |H|.
        measure: a.
        training_accuracy: percent, from the text (the perceptron's: test accuracy of the text plus ΔE).
    """

    weight_decay: float
    error_gap: float
    loss_gap: float
    trace: float
    trace_squared: float
    sharpness: float
    measure: float
    training_accuracy: float


@dataclass(frozen=True)
class Table:
    """A network's table: its number, the parameter count of the text, and its lines in the order of `GAMMAS`."""

    number: int
    parameters: int
    rows: tuple[Row, Row, Row]


def _table(number: int, parameters: int, *rows: tuple[float, ...]) -> Table:
    first, second, third = (Row(*row) for row in rows)
    return Table(number, parameters, (first, second, third))


TABLES = {
    "mlp": _table(
        1,
        9_960,
        (0.0, 0.48, 0.024, 1.82e-2, 1.20e-1, 14.4, 7.6, 94.88),
        (0.0001, 0.51, 0.022, 1.67e-2, 1.04e-1, 15.0, 7.2, 96.97),
        (0.0005, -0.05, 0.007, 1.76e-2, 1.63e-1, 17.8, 6.1, 96.65),
    ),
    "cnn": _table(
        2,
        1_387_108,
        (0.0, 32.40, 2.506, 1.82e-3, 1.35e-2, 49.0, 45.2, 86.3),
        (0.0001, 32.50, 2.463, 2.20e-3, 1.68e-2, 66.0, 35.8, 87.9),
        (0.0005, 31.14, 2.144, 4.62e-3, 1.17e-1, 130.0, 23.0, 86.0),
    ),
    "preresnet": _table(
        4,
        1_726_388,
        (0.0, 27.2, 2.24, 5.5e-5, 1.1e-5, 2.52, 160.0, 99.987),
        (0.0001, 24.4, 1.16, 6.7e-4, 6.0e-4, 11.49, 36.9, 99.985),
        (0.0005, 23.11, 0.92, 2.1e-3, 3.1e-3, 23.03, 22.06, 99.87),
    ),
    "wrn": _table(
        5,
        36_546_980,
        (0.0, 24.92, 2.08, 9.4e-7, 2.3e-7, 1.69, 101.0, 99.984),
        (0.0001, 20.68, 0.85, 6.7e-5, 1.3e-4, 39.13, 21.9, 99.984),
        (0.0005, 19.6, 0.79, 1.1e-4, 3.0e-4, 40.0, 15.8, 99.982),
    ),
}
MLP_TEST_ACCURACY = (94.4, 96.46, 96.7)
"""Percent, in the order of `GAMMAS` (section 5)."""

SEEDS_OF_TABLE_7 = 4
TABLE_7 = {"with": (80.75, 0.19), "without": (80.48, 0.26)}
"""Validation accuracy (percent) and what stands after ±, with η = 10⁻⁴ and with η = 0."""

TABLE_8 = {"without": (81.05, 62.89), "with": (80.95, 62.66)}
"""Training and validation accuracy (percent) on ImageNet-32, one run each."""

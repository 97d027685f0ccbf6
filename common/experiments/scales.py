"""The four scales at which the same code runs."""

from typing import Literal, get_args

Scale = Literal["smoke", "laptop", "workstation", "paper"]
SCALES: tuple[str, ...] = get_args(Scale)

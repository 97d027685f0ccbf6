"""Typed parameters of an experiment: each field says its unit, range, meaning and source."""

from typing import Annotated, Any

import pydantic

DatasetName = Annotated[str, "data set"]
"""Type of a parameter that names a data set: the data set becomes an input of the run."""


def Field(default: Any, *, description: str, source: str, unit: str | None = None, **constraints: Any) -> Any:
    """A parameter with its meaning.

    Args:
        default: value where config.yaml gives none.
        description: what it is, in one phrase.
        source: where the value comes from ("Wang et al. 2018, Fig. 3", "our choice, deviation D2").
        unit: unit of a quantity ("epochs", "images"), "1" for a pure number, None for a name.
        constraints: pydantic's (gt, ge, lt, le, pattern, …).
    """
    extra: dict[str, Any] = {"source": source, "unit": unit}
    return pydantic.Field(default, description=description, json_schema_extra=extra, **constraints)


class ExperimentParameters(pydantic.BaseModel):
    """Base of an experiment's `Parameters`; unknown names and values out of range are refused."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    seed: int = Field(0, ge=0, description="index of the repetition", source="grid")

"""paper.yaml: the citation, what we find, what of the document is covered, and where we deviate."""

import datetime
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, model_validator

Belief = Literal["believe", "with care", "not supported"]
"""How far a reader may rely on a statement: what stands and falls with it is in `common.reports.gist`."""

SYNTHESIS = Path("replications") / "synthesis.yaml"
"""Where in a checkout stands what the replications come to together."""

_MATHEMATICS = re.compile(r"(\$[^$\n]+\$)")
_PLACEHOLDER = re.compile(r"\{([A-Za-z0-9][A-Za-z0-9._/-]*)\}")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Coverage(_Strict):
    """One figure, table, theorem or numbered claim of the document and what became of it."""

    item: str
    status: Literal["replicated", "reduced", "quoted", "illustration"]
    experiment: str | None = None
    figure: str | None = None
    reason: str | None = None
    note: str | None = None

    @model_validator(mode="after")
    def _says_why(self) -> "Coverage":
        if self.status != "replicated" and not self.reason:
            raise ValueError(f"{self.item} is {self.status}: give a reason")
        if self.status in ("replicated", "reduced") and not self.experiment:
            raise ValueError(f"{self.item} is {self.status}: name the experiment")
        return self


class Deviation(_Strict):
    """A numbered difference from the document, with its reason and what it should change."""

    id: str
    text: str
    reason: str
    effect: str
    experiments: list[str] = []


class Finding(_Strict):
    """What we find, in a sentence for a reader with two minutes, and the claims that it rests on.

    Attributes:
        text: Markdown; `{claim-id}` outside `$…$` stands for what was measured for one of `claims`.
        claims: ids; in synthesis.yaml PAPER/ID.
        figure: EXPERIMENT/FIGURE; in synthesis.yaml PAPER/EXPERIMENT/FIGURE.
    """

    belief: Belief
    text: str = Field(min_length=1)
    claims: list[str] = Field(min_length=1)
    figure: str | None = None

    @model_validator(mode="after")
    def _speaks_of_its_claims(self) -> "Finding":
        for part in self.parts:
            if part[1] and part[0] not in self.claims:
                raise ValueError(f"the text speaks of {{{part[0]}}}, which is not among the claims")
        return self

    @property
    def parts(self) -> list[tuple[str, bool]]:
        """The text in pieces, each with whether it is the id of a claim, in whose place its amount is said."""
        found: list[tuple[str, bool]] = []
        for number, piece in enumerate(_MATHEMATICS.split(self.text)):
            pieces = [piece] if number % 2 else _PLACEHOLDER.split(piece)
            found += [(text, place % 2 == 1) for place, text in enumerate(pieces) if text]
        return found


class Withdrawal(_Strict):
    """Claims that are judged no more although evidence for them was published, with the reason."""

    date: datetime.date
    reason: str = Field(min_length=1)
    claims: list[str] = Field(min_length=1)


class Synthesis(RootModel[Annotated[list[Finding], Field(max_length=10)]]):
    """synthesis.yaml: what several replications come to, in at most ten statements."""


class Paper(_Strict):
    """paper.yaml: the citation, what we find, what is covered, and where we deviate.

    Attributes:
        units: of metrics, in which pages tell their numbers where the claim itself has no `unit`.
    """

    key: str
    title: str
    authors: list[str]
    year: int
    url: str
    bibtex: str
    summary: str
    question: str | None = None
    answer: str | None = None
    findings: list[Finding] = Field([], max_length=6)
    coverage: list[Coverage]
    deviations: list[Deviation] = []
    units: dict[str, str] = {}
    withdrawn: list[Withdrawal] = []

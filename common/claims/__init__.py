"""Claims: what a document states, the rule that decides it, and the verdict of the runs.

    claims = load_claims(Path("replications/pacgen/claims.yaml"))
    verdict = judge(claims[0], table, paper="pacgen", scale="laptop")

`judge` imports pandas and scipy when it is first used; reading and checking claims does not.
"""

from typing import TYPE_CHECKING, Any

from common.claims.checking import check
from common.claims.schema import Claim, load_claims
from common.claims.verdicts import VERDICTS, Verdict, expected_false_verdicts
from common.claims.wording import rule_text

if TYPE_CHECKING:
    from common.claims.judging import judge

__all__ = [
    "VERDICTS",
    "Claim",
    "Verdict",
    "check",
    "expected_false_verdicts",
    "judge",
    "load_claims",
    "rule_text",
]


def __getattr__(name: str) -> Any:
    if name == "judge":
        from common.claims.judging import judge

        return judge
    raise AttributeError(f"module {__name__} has no attribute {name}")

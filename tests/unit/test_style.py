"""What neither formatter nor linter sees: calls of many arguments, and tables alone kept from the formatter."""

import ast
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MOST = 5
"""Positional arguments of a call."""
TABLES = (ast.List, ast.Tuple, ast.Dict, ast.Set)
CODE = sorted(path for folder in ("common", "replications") for path in (ROOT / folder).rglob("*.py"))
FORMATTED = sorted({*CODE, *(path for folder in ("tests", "benchmarks") for path in (ROOT / folder).rglob("*.py"))})

OF_TORCH = ("_apply", "save_for_backward", "convolution_backward", "native_batch_norm_backward")
"""What torch asks to be called so."""


def long_calls(source: str) -> list[int]:
    """Lines of calls with more positional arguments than a reader can tell apart; unpacked sequences count as one."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if len(call.args) > MOST and not ast.unparse(call.func).endswith(OF_TORCH)]


def misused_skips(source: str) -> list[int]:
    """Lines of `# fmt: skip` at the end of what is no table."""
    lines = iter(source.splitlines(keepends=True))
    tokens = tokenize.generate_tokens(lambda: next(lines, ""))
    skips = {token.start[0] for token in tokens if token.type == tokenize.COMMENT and "fmt: skip" in token.string}
    return sorted(skips - set(_ends_of_tables(ast.parse(source))))


def _ends_of_tables(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Return) and isinstance(node.value, TABLES):
            yield node.end_lineno or 0
        for decorator in getattr(node, "decorator_list", []):
            if isinstance(decorator, ast.Call) and any(isinstance(value, TABLES) for value in decorator.args):
                yield decorator.end_lineno or 0


def offenders(paths: Iterable[Path], found: Callable[[str], list[int]]) -> dict[str, list[int]]:
    """Lines by file, of files that have any."""
    lines = {path.relative_to(ROOT).as_posix(): found(path.read_text()) for path in paths}
    return {name: numbers for name, numbers in lines.items() if numbers}


def test_no_call_has_more_than_five_positional_arguments() -> None:
    assert offenders(CODE, long_calls) == {}


def test_only_tables_are_kept_from_the_formatter() -> None:
    assert offenders(FORMATTED, misused_skips) == {}


def test_a_call_is_counted_as_it_is_read() -> None:
    assert long_calls("f(1, 2, 3, 4, 5, 6)") == [1]
    assert long_calls("f(1, 2, 3, 4, 5, six=6)\nf(*row)\nf([1, 2, 3, 4, 5, 6])") == []


def test_a_table_is_a_literal_that_is_assigned_returned_or_given_to_a_decorator() -> None:
    skip = "  # fmt: " + "skip"
    tables = (f"rows = [\n 1,\n]{skip}", f"def f():\n return {{\n 1: 2}}{skip}", "@mark(\n 'x', [1])\ndef f(): ...")
    assert [misused_skips(table) for table in tables] == [[], [], []]
    assert misused_skips(f"rows = f(\n 1){skip}") == [2]
    assert misused_skips(f"@mark(\n 'x'){skip}\ndef f(): ...") == [2]

"""Digests of code: what an entry point reaches, without comments, docstrings and layout."""

import ast
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from common.errors import UserError
from common.experiments.syntax import Sources
from common.files import as_json

_BEHIND_THE_CONTEXT = (
    # What reaches a run through its context, which syntax trees do not show.
    ("common.experiments.seeds", "stream_seed"),
    ("common.datasets.formats", "read_dataset"),
    ("common.datasets.splits", "Split"),
)
_SAYING_NOTHING = ("description", "source", "unit")
"""Keywords of `Field` that no number depends on."""


def code_digest(sources: Sources, module: str, entry: str) -> str:
    """Digest of all definitions of ours that `entry` of `module` uses.

    `run` includes the module's `Parameters`. A module that does not exist, or has no such function, has the digest
    of nothing. Where a definition lies plays no part: files may be moved.
    """
    try:
        roots = sources.resolve(module, entry)
        if entry == "run":
            roots += [(module, "Parameters"), *_BEHIND_THE_CONTEXT]
        found = sources.reachable(roots)
        for key, body in found.items():
            if key not in sources.texts:
                sources.texts[key] = [f"{key[1]}={canonical(statement)!r}" for statement in body]
    except RecursionError as error:
        raise UserError(f"{module}.{entry} uses an expression that is nested too deeply to be read.") from error
    return short_digest(sorted(text for key in found for text in sources.texts[key]))


def canonical(node: Any) -> Any:
    """A syntax tree as nested tuples: equal for equal code on Python 3.11 to 3.13.

    Empty fields, which versions print or add differently, are left out; so are docstrings and annotations of
    function arguments, and the words of a `Field`. Of a relative import only the file's name counts, not the folder.
    """
    if isinstance(node, ast.AST):
        fields = []
        for name, value in ast.iter_fields(node):
            if isinstance(node, ast.ImportFrom) and node.level:
                value = {"module": (node.module or "").rpartition(".")[2] or None, "level": 1}.get(name, value)
            if name in ("ctx", "kind", "type_comment", "returns") or (
                isinstance(node, ast.arg) and name == "annotation"
            ):
                continue
            if name == "keywords" and _is_field(node):
                value = [keyword for keyword in value if keyword.arg not in _SAYING_NOTHING]
            if name == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                value = _without_docstring(value)
            if value is not None and value != []:
                fields.append((name, canonical(value)))
        return (type(node).__name__, *fields)
    if isinstance(node, list):
        return tuple(canonical(item) for item in node)
    return (type(node).__name__, repr(node))


def _is_field(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field"


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_text = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    return body[1:] if is_text else body


def short_digest(value: Iterable[str] | Mapping[str, Any]) -> str:
    """16 hexadecimal digits of the sha256 of a JSON-like value."""
    content = dict(value) if isinstance(value, Mapping) else list(value)
    return hashlib.sha256(as_json(content).encode()).hexdigest()[:16]

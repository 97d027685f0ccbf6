"""What the command line turns into one sentence, and what is told of the errors of an experiment's code."""

import difflib
import importlib.util
import traceback
from collections.abc import Iterable
from pathlib import Path


class UserError(Exception):
    """Something the user can mend: names the file, line or value and what to do. Exit code 2."""


class DataUnavailable(Exception):
    """A data set that no source delivered; the message lists each attempt, its reason and the ways out."""


LISTED = 30
"""More names than these are not listed in a sentence."""


def suggestion(name: object, names: Iterable[object]) -> str:
    """The end of a sentence about a name that there is not: `; did you mean …?` or the list of what there is.

    Example:
        >>> suggestion("gdr", ["sgd", "adam"]), suggestion("x", ["sgd", "adam"])
        ("; did you mean 'sgd'?", '; there are: adam, sgd.')
        >>> suggestion("x", range(40))
        '; none of the 40 that there are is like it.'
    """
    known = sorted(map(str, names))
    close = difflib.get_close_matches(str(name), known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    if len(known) > LISTED:
        return f"; none of the {len(known)} that there are is like it."
    return f"; there are: {', '.join(known) or 'none'}."


_PACKAGES = {"PIL": "pillow", "markdown_it": "markdown-it-py", "yaml": "PyYAML"}
"""Packages that are named otherwise than their modules."""


def lacking(module: str) -> str:
    """The sentence about a module that cannot be imported: its package, and how to have it.

    Example:
        >>> lacking("torch_geometric.nn")
        'this needs torch-geometric, which the environment lacks: pip install torch-geometric, or make setup for all.'
    """
    top = module.partition(".")[0]
    package = _PACKAGES.get(top, top.replace("_", "-"))
    return f"this needs {package}, which the environment lacks: pip install {package}, or make setup for all."


def needs(module: str) -> None:
    """Ask for a module of another package before anything is begun that starts it as a process.

    Raises:
        UserError: it is not installed; the sentence says how it would be.
    """
    if importlib.util.find_spec(module) is None:
        raise UserError(lacking(module))


def told(error: BaseException, root: Path) -> str:
    """Kind and message of an error, and the last line below `root`/replications that it went through."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    places += [(error.filename, error.lineno)] if isinstance(error, SyntaxError) and error.filename else []
    base = root.resolve()
    own = [(Path(file).resolve(), line) for file, line in places]
    inside = [f"{file.relative_to(base)}:{line}" for file, line in own if file.is_relative_to(base / "replications")]
    message = writable(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    return f"{inside[-1]}: {message}" if inside else message


def writable(text: object) -> str:
    """A text in which what is no character (halves of surrogate pairs) is written as its number."""
    return str(text).encode("utf-8", "backslashreplace").decode("utf-8")

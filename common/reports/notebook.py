"""The narrative of a paper: report.py as a notebook, executed by Jupyter, turned into HTML."""

import os
import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from markupsafe import Markup

from common.files import as_json
from common.reports.drawing import inline_svg
from common.reports.paper_view import FIGURE_MIME, VERDICTS_MIME
from common.reports.sanitise import sanitised
from common.reports.text import markdown, math_to_mathml

CELL_SECONDS = 120  # a narrative draws on what is saved: a cell that takes longer computes what belongs elsewhere
LONGEST_SOCKET = 103 - len("-ipc-5")  # bytes of a path: 103 on macOS, 107 on Linux, less what Jupyter appends
LONGEST_TEXT = 20_000  # characters of one plain-text output on a page

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Story:
    """An executed narrative.

    Attributes:
        blocks: its text and outputs as HTML, in order.
        figures: (experiment, name) of the saved figures that it shows.
        asides: the cards of those that it captions and leaves to the end of the page.
        beside: of each claim the figures that it stands beside, as (experiment, name, title or nothing).
        problems: one sentence for each cell that failed.
        notebook: the executed notebook as JSON text.
    """

    blocks: list[Markup] = field(default_factory=list)
    figures: set[tuple[str, str]] = field(default_factory=set)
    beside: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    asides: dict[tuple[str, str], Markup] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notebook: str = ""


def run_notebook(source: Path, variables: dict[str, str], root: Path) -> tuple[Any, list[str]]:
    """Convert a percent-format script to a notebook and execute it with the Python of this process.

    A cell that fails does not stop those after it. No kernel needs to be registered, nothing of the user's Jupyter
    or IPython configuration is read, and no network is used.

    Args:
        source: the script; its folder becomes the working directory.
        variables: environment variables for the kernel, beside those of this process.
        root: the folder that imports of this project start from.

    Returns:
        The executed notebook, and one sentence for each cell that failed.
    """
    from jupyter_core.utils import run_sync

    with tempfile.TemporaryDirectory(prefix="narrative-") as scratch:
        kernel = _start_kernel(source.parent, _environment(variables, root, Path(scratch)), Path(scratch))
        try:
            notebook = _converted(source)
            stopped = _execute(notebook, kernel, source.name)
        finally:
            if kernel.has_kernel:
                run_sync(kernel.shutdown_kernel)(now=True)
    return notebook, stopped + _failures(notebook, source.name)


def _start_kernel(folder: Path, environment: dict[str, str], scratch: Path) -> Any:
    """A kernel of the running interpreter; it boots while this process goes on.

    It is reached through socket files in `scratch`, or through ports of this machine where their paths would be longer
    than the system takes.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager
    from jupyter_core.utils import run_sync

    class ThisPython(AsyncKernelManager):
        """Starts the running interpreter, whatever kernels are registered."""

        @property
        def kernel_spec(self) -> KernelSpec:
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=command, display_name="Python 3", language="python")

    connection = scratch / "kernel.json"
    transport = "ipc" if len(os.fsencode(connection)) <= LONGEST_SOCKET else "tcp"
    kernel = ThisPython(transport=transport, connection_file=str(connection))
    run_sync(kernel.start_kernel)(env=environment, cwd=str(folder))
    return kernel


def _converted(source: Path) -> Any:
    """The script as a notebook whose cell ids are their places, so that equal scripts give equal notebooks."""
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # jsonschema would compile 38 grammars: 3 s
    import jupytext

    notebook = jupytext.reads(source.read_text(), fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return notebook


def _execute(notebook: Any, kernel: Any, name: str) -> list[str]:
    """Fill in the outputs; a sentence if the kernel stopped before the end."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    client = NotebookClient(notebook, km=kernel, timeout=CELL_SECONDS, allow_errors=True, record_timing=False)
    client.shutdown_kernel = "immediate"
    try:
        client.execute(cleanup_kc=True)
    except CellTimeoutError:
        return [f"{name}: a cell took longer than {CELL_SECONDS} s and the rest was not run."]
    except DeadKernelError:
        return [f"{name}: the kernel died and the rest was not run."]
    notebook.metadata.pop("language_info", None)
    return []


def _environment(variables: dict[str, str], root: Path, scratch: Path) -> dict[str, str]:
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = dict(os.environ) | variables
    environment |= {"PYTHONPATH": path, "IPYTHONDIR": str(scratch), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    environment.pop("MPLBACKEND", None)  # the kernel sets its own
    return environment


def _failures(notebook: Any, name: str) -> list[str]:
    return [
        f"{name}: cell {number}: {output['ename']}: {output['evalue']}"
        for number, cell in enumerate(notebook.cells, start=1)
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]


class Cards(Protocol):
    """How a page shows what a narrative has of it."""

    def figure(self, shown: dict[str, Any]) -> Markup:
        """A saved figure: experiment and name, caption (see, printed), and ids of claims."""

    def verdicts(self, claims: list[str]) -> Markup:
        """The verdicts of claims, by id."""


def tell(notebook: Any, problems: list[str], cards: Cards) -> Story:
    """Turn an executed notebook into HTML: text, outputs, and the page's cards for saved figures and verdicts."""
    story = Story(problems=list(problems), notebook=as_json(notebook))
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            story.blocks.append(markdown(cell.source))
        elif cell.cell_type == "code":
            if "show" in cell.metadata.get("tags", []):
                story.blocks.append(Markup('<pre class="code" tabindex="0"><code>{}</code></pre>').format(cell.source))
            for place, output in enumerate(cell.outputs):
                story.blocks.append(_output(output, f"story-{number}-{place}", story, cards))
    return story


def _output(output: Any, prefix: str, story: Story, cards: Cards) -> Markup:
    if output.output_type == "error":
        sentence = f"This part of the story could not be computed: {output.ename}: {output.evalue}"
        return Markup('<p class="problem" role="note">{}</p>').format(sentence)
    if output.output_type == "stream":
        return _plain(output.text) if output.name == "stdout" else Markup("")
    data = output.data
    if FIGURE_MIME in data:
        shown = data[FIGURE_MIME]
        key = shown["experiment"], shown["name"]
        for claim in shown["claims"]:
            story.beside.setdefault(claim, []).append((shown["experiment"], shown["name"], shown.get("title", "")))
        card = cards.figure(shown)
        if shown.get("aside"):
            story.asides[key] = card
            return Markup("")
        story.figures.add(key)
        return card
    if VERDICTS_MIME in data:
        claims = data[VERDICTS_MIME]["claims"]
        return cards.verdicts(claims) if claims else Markup("")
    return _rich(data, prefix)


def _rich(data: Any, prefix: str) -> Markup:
    """An ordinary output, in the richest form that needs neither scripts nor a network."""
    plain = str(data.get("text/plain", ""))
    if "text/html" in data:
        return Markup('<div class="output" tabindex="0" role="group" aria-label="Table">{}</div>').format(
            sanitised(data["text/html"])
        )
    if "image/svg+xml" in data:
        return Markup('<div class="drawing">{}</div>').format(inline_svg(data["image/svg+xml"], prefix, plain))
    if "image/png" in data:
        source = "data:image/png;base64," + data["image/png"].replace("\n", "")
        return Markup('<div class="drawing"><img src="{}" alt="{}"></div>').format(source, plain)
    if "text/markdown" in data:
        return markdown(data["text/markdown"])
    if "text/latex" in data:
        return math_to_mathml(data["text/latex"].strip().strip("$").strip(), display=True)
    return _plain(plain)


def _plain(text: str) -> Markup:
    text = _ANSI.sub("", text)
    cut = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "\n… (cut; the notebook has it all)"
    return Markup('<pre tabindex="0">{}</pre>').format(cut.rstrip()) if cut.strip() else Markup("")

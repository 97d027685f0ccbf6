"""The folder of one call of `run()`: unfinished records, checkpoint, and the move of complete runs into place.

Layout below `results/.work/<scale>/<paper>/<experiment>/<first run>/`:
`manifest.json` (which runs, computed from what), `runs/<name>/…` (records and artifacts so far),
`checkpoint.pt`, and `commit.json`, which says that all is written: from then on only renames are left, and a
killed process's successor does those that are missing.
"""

import errno
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.experiments.grid import Run
from common.experiments.outcomes import Results
from common.files import atomic_path, peek_json, remove_temporary_files, sync_folder, write_json
from common.locks import Taken, lock

CHECKPOINT_ENTRIES = {"state", "offsets", "divergences", "elapsed", "segments"}
"""What a checkpoint holds (see `RunContext`)."""


class Busy(UserError):
    """Another process computes these runs."""


class Workspace:
    """Files of the call of `run()` whose first run is `runs[0]`; at most one process has it open."""

    def __init__(self, results: Results, runs: Sequence[Run]) -> None:
        self.results = results
        self.runs = list(runs)
        self.folder = results.work(runs[0])
        self.place = results.folder(runs[0]).parent
        self.checkpoint = self.folder / "checkpoint.pt"

    def run_folder(self, run: Run) -> Path:
        """Where the records and artifacts of a run grow."""
        return self.folder / "runs" / run.name

    @contextmanager
    def locked(self, seconds_left: Callable[[], float] | None = None) -> Iterator[None]:
        """Hold the workspace.

        Args:
            seconds_left: how long to wait still for another process that holds it, asked again and again; without
                it there is no waiting.

        Raises:
            Busy: another process holds it.
        """
        try:
            with lock(self.folder.with_name(f".{self.folder.name}.lock"), seconds_left=seconds_left):
                yield
        except Taken:
            raise Busy(f"{self.runs[0]} is being computed by another process; wait for it or stop it.") from None

    def begin(self, identities: Mapping[str, str], source: Mapping[str, Any]) -> dict[str, Any]:
        """Prepare to compute runs of the given identities, keeping a checkpoint of just these runs.

        Args:
            identities: digest of the inputs, by run name.
            source: what of the source is to be known later.

        Returns:
            `source` as it was when these runs were begun: of an interrupted call, what that call gave.
        """
        path = self.folder / "source.json"
        if self.interrupted() == dict(identities):
            remove_temporary_files(self.folder)
            return peek_json(path) or dict(source)
        self.clear()
        write_json(path, dict(source))
        write_json(self.folder / "manifest.json", dict(identities))
        return dict(source)

    def interrupted(self) -> dict[str, str]:
        """Identities by run name of an interrupted call, empty if there is none or it cannot be continued."""
        stated = peek_json(self.folder / "manifest.json") if self.checkpoint.is_file() else None
        return stated if isinstance(stated, dict) else {}

    def clear(self) -> None:
        """Forget checkpoint and unfinished records."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save_checkpoint(self, content: dict[str, Any]) -> None:
        """Write the checkpoint atomically."""
        import torch

        with atomic_path(self.checkpoint) as path:
            torch.save(content, path)

    def load_checkpoint(self) -> dict[str, Any] | None:
        """The last checkpoint, None if there is none; one that cannot be read is set aside."""
        import torch

        from common.memory import shortage

        if not self.checkpoint.is_file():
            return None
        try:
            content = torch.load(self.checkpoint, weights_only=True, map_location="cpu")
        except Exception as error:  # of a damaged file torch complains in many ways, EINVAL among them
            of_the_disk = isinstance(error, OSError) and error.errno != errno.EINVAL
            if of_the_disk or shortage(error) is not None:
                raise
            self.set_checkpoint_aside(type(error).__name__)
            return None
        if not isinstance(content, dict) or not content.keys() >= CHECKPOINT_ENTRIES:
            self.set_checkpoint_aside(f"it lacks {', '.join(sorted(CHECKPOINT_ENTRIES))}")
            return None
        return content

    def set_checkpoint_aside(self, reason: str) -> None:
        """Rename a checkpoint that is of no use and drop its records: the call starts from the beginning."""
        aside = self.checkpoint.with_name("checkpoint.damaged.pt")
        self.checkpoint.replace(aside)
        shutil.rmtree(self.folder / "runs", ignore_errors=True)
        print(
            f"{self.runs[0]}: its checkpoint cannot be used ({reason}); it is kept as {aside} until the runs are "
            "complete, and they start from the beginning.",
            flush=True,
        )

    def commit(self) -> None:
        """Declare the run folders of `runs` (none, if all failed) complete and move them into place."""
        write_json(self.folder / "commit.json", [run.name for run in self.runs])
        self.finish_commit()

    def finish_commit(self) -> None:
        """Do the moves that a declared commit still lacks; nothing where none was declared."""
        names = peek_json(self.folder / "commit.json")
        if not isinstance(names, list):
            return
        for name in names:
            complete = self.folder / "runs" / name
            if complete.is_dir():
                _replace(complete, self.place / name, aside=self.folder / "replaced" / name)
        shutil.rmtree(self.folder)


def _replace(new: Path, place: Path, aside: Path) -> None:
    """Rename `new` to `place`; what lay there waits in `aside` meanwhile."""
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        aside.parent.mkdir(parents=True, exist_ok=True)
        place.rename(aside)
    new.rename(place)
    sync_folder(place.parent)

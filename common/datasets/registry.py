"""`data/registry.yaml` with types: what each data set is, what its files must be, and where they come from."""

import difflib
import hashlib
import json
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, model_validator

from common.errors import UserError
from common.files import project_root
from common.sources import load_typed


def is_safe_relative(path: str) -> bool:
    """Whether `path` stays below the folder that it is joined to: relative, no `..`, no drive, no backslash."""
    parts = PurePosixPath(path).parts
    return bool(path) and not path.startswith("/") and ".." not in parts and not set(path) & set("\\:\0")


def _safe_relative(path: str) -> str:
    if not is_safe_relative(path):
        raise ValueError(f"{path!r} must be a relative path without '..'")
    return path


RelativePath = Annotated[str, AfterValidator(_safe_relative)]
FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
# A pin goes onto a command line: it can be neither an option nor an address nor a path.
Pin = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~_:-]*$")]
NpmName = Annotated[str, Field(pattern=r"^(@[a-z0-9][a-z0-9._-]*/)?[a-z0-9][a-z0-9._-]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DataFile(_Strict):
    """One file in its decoded form: the bytes that are cached, checked and loaded."""

    name: FileName
    size: int = Field(ge=1, description="bytes")
    sha256: Sha256


class _Source(_Strict):
    inside: RelativePath = Field(".", description="folder in the package that holds the files")
    time_limit: float = Field(900, gt=0, description="seconds after which the client is stopped")


class Mirror(_Strict):
    """Folders (or single archives) in the folder that `REPLICATIONS_MIRROR` names; the first that serves wins."""

    kind: Literal["mirror"]
    folders: tuple[RelativePath, ...] = Field(min_length=1)

    @property
    def label(self) -> str:
        return "mirror"


class Npm(_Source):
    kind: Literal["npm"]
    package: NpmName
    version: Pin
    archive_sha256: Sha256 | None = None

    @property
    def label(self) -> str:
        return f"npm {self.package}@{self.version}"


class Pip(_Source):
    kind: Literal["pip"]
    package: Pin
    version: Pin
    archive_sha256: Sha256 | None = None

    @property
    def label(self) -> str:
        return f"pip {self.package}=={self.version}"


class Apt(_Source):
    kind: Literal["apt"]
    package: Pin
    version: Pin | None = Field(None, description="Debian version; without it, the one that the release carries")

    @property
    def label(self) -> str:
        return f"apt {self.package}" + (f"={self.version}" if self.version else "")


class Torchvision(_Source):
    """The data set's official home, as torchvision knows it."""

    kind: Literal["torchvision"]
    dataset: str = Field(pattern=r"^[A-Z][A-Za-z0-9]*$", description="class in torchvision.datasets")

    @property
    def label(self) -> str:
        return f"torchvision {self.dataset}"


class TorchGeometric(_Source):
    """The official home of the TU collections of graphs, as torch-geometric knows it."""

    kind: Literal["torch_geometric"]
    collection: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", description="name in TUDataset")

    @property
    def label(self) -> str:
        return f"torch-geometric {self.collection}"


class Web(_Source):
    """One file at the data set's official home."""

    kind: Literal["web"]
    address: str = Field(pattern=r"^https://[A-Za-z0-9.-]+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$")

    @property
    def file(self) -> str:
        return PurePosixPath(self.address).name

    @property
    def label(self) -> str:
        return f"web {self.file}"


Client = Npm | Pip | Apt | Torchvision | TorchGeometric | Web
Source = Annotated[Mirror | Client, Field(discriminator="kind")]
Decoder = Literal[
    "plain",
    "cifar_python",
    "cifar_png",
    "cifar100_python",
    "cifar100_differences",
    "tiny_imagenet",
    "movie_reviews_csv",
    "paraphrase_text",
    "sentiment_table",
    "tu_text",
    "adjacency_text",
    "edge_text",
    "counted_edges",
    "graph_tool",
]
Format = Literal["idx", "cifar_batches", "safetensors", "files"]


class Splits(_Strict):
    """Which files make which split, in the order in which they are joined."""

    train: tuple[FileName, ...] = Field(min_length=1)
    test: tuple[FileName, ...] = Field(min_length=1)


class Entry(_Strict):
    """One data set. `files` are its decoded files; every source must deliver exactly these bytes."""

    title: str
    version: Pin
    licence: str
    citation: str
    format: Format
    classes: int | None = Field(None, ge=2)
    network: str | None = Field(None, description="of weights: torchvision's name of their network, or `transformers`")
    files: tuple[DataFile, ...] = ()
    instructions: str = Field("", description="how to come by the data where no source can deliver them")
    splits: Splits | None = None
    decoders: tuple[Decoder, ...] = ("plain",)
    archives: tuple[FileName, ...] = Field((), description="archives that a mirror or the cache may hold instead")
    sources: tuple[Source, ...]

    # Besides the files' digests, what decides which tensors `load` returns.
    _digested: ClassVar[tuple[str, ...]] = ("format", "classes", "splits")

    @model_validator(mode="after")
    def _agrees(self) -> "Entry":
        names = [file.name for file in self.files]
        if not names and not self.instructions:
            raise ValueError("files: at least one is needed, or instructions how to come by the data")
        if len(set(names)) != len(names):
            raise ValueError(f"files: a name appears twice among {', '.join(names)}")
        if self.format == "files" or not names:
            return self
        if self.splits is None or self.classes is None:
            raise ValueError(f"a data set of format {self.format} needs splits and classes")
        for name in (*self.splits.train, *self.splits.test):
            if name not in names:
                raise ValueError(f"splits: {name!r} is not among the files")
        per_split = {"idx": 2, "safetensors": 1}.get(self.format)
        for label, members in (("train", self.splits.train), ("test", self.splits.test)):
            if per_split is not None and len(members) != per_split:
                raise ValueError(f"splits: {label} ({self.format}) takes {per_split} files, not {len(members)}")
        return self

    @property
    def digest(self) -> str:
        """sha256 over the files' digests and over what decides how they are read. A change makes runs due."""
        content: dict[str, Any] = self.model_dump(mode="json", include=set(self._digested))
        content["files"] = sorted((file.name, file.sha256) for file in self.files)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


EntryName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class Registry(RootModel[dict[EntryName, Entry]]):
    """All data sets by name."""

    def names(self) -> list[str]:
        return sorted(self.root)

    def entry(self, name: str) -> Entry:
        """The data set `name`; raises `UserError` with suggestions if there is none."""
        if name in self.root:
            return self.root[name]
        close = difflib.get_close_matches(name, self.names(), n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(close)}?" if close else "."
        known = ", ".join(self.names()) or "none"
        raise UserError(f"There is no data set {name!r} in data/registry.yaml (known: {known}){hint}")


def registry_path() -> Path:
    """`data/registry.yaml` of the checkout around the working directory, else of the one that holds this code."""
    try:
        path = project_root() / "data" / "registry.yaml"
    except UserError:
        path = Path()
    return path if path.is_file() else Path(__file__).resolve().parents[2] / "data" / "registry.yaml"


def load_registry(path: Path | None = None) -> Registry:
    """Read the registry (again only if the file changed); raises `UserError` with file and line."""
    path = registry_path() if path is None else path
    if not path.is_file():
        raise UserError(f"{path}: no such file; the registry of data sets is missing from this checkout.")
    status = path.stat()
    return _load(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _load(path: Path, _modified: int, _size: int) -> Registry:
    return load_typed(path, Registry)

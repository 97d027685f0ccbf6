"""Files that somebody wrote, read with types: an error names the file, the line and the key."""

import hashlib
import re
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import yaml

from common.errors import UserError, suggestion
from common.files import checkout_of
from common.kept import content_digest, kept

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Model = TypeVar("Model", bound="BaseModel")

DEEPEST = 100
"""Lists and mappings in one another that a YAML file may hold."""

_NOT_JSON = {f"tag:yaml.org,2002:{kind}" for kind in ("binary", "omap", "pairs", "set", "timestamp")}
"""What YAML has and JSON, in which parameters are kept, lacks: a date is read as text, the others are refused."""


_MENDED = {
    "mapping values are not allowed in this context": "a colon with a space after it begins a mapping; put a text that "
    "holds one into quotes",
}
"""What is said in the place of YAML's words, which leave open what to do."""


_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "string": "a text",
    "list": "a list",
    "tuple": "a list",
    "dict": "a mapping",
    "model": "a mapping",
}
"""What pydantic's types of error ask for."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """SafeLoader (libyaml's where it is there) that reads 1e-3 as a number and refuses a key given twice."""

    yaml_constructors = {tag: made for tag, made in yaml.SafeLoader.yaml_constructors.items() if tag not in _NOT_JSON}
    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NOT_JSON]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _at(key_node, "a list or mapping cannot be a key")
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise _at(key_node, f"the key {key_node.value} is no text; put it into quotes")
            if key in seen:
                raise _at(key_node, f"key {key!r} appears twice")
            seen.add(key)
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)[eE][-+]?\d+$"),
    list("-+0123456789."),
)


def _at(node: yaml.Node, problem: str) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


def read_source(path: Path) -> str:
    """The text of a file that somebody wrote.

    Raises:
        UserError: it is missing, cannot be read, or is not UTF-8; names the line.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file.")
    content = b""
    try:
        content = path.read_bytes()
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UserError(f"{path}:{line}: not UTF-8 text; save the file as UTF-8.") from error


def read_yaml(path: Path) -> tuple[Any, yaml.Node | None]:
    """The content of a YAML file, of JSON's types alone, and its node tree (which knows the lines)."""
    return _parsed(path, read_source(path))


def _parsed(path: Path, text: str) -> tuple[Any, yaml.Node | None]:
    """`read_yaml` of a file that was read already."""
    loader = None
    try:
        _refuse_depth(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        return (loader.construct_object(node, deep=True) if node is not None else None), node
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        said = _MENDED.get(error.problem or "", error.problem)
        raise UserError(f"{path}:{line}: not valid YAML: {said}.") from error
    except yaml.reader.ReaderError as error:
        raise UserError(f"{path}:{_line_of_control(text)}: not valid YAML: {error.reason}.") from error
    except (ValueError, KeyError) as error:  # an integer of 5,000 digits, a !!bool that is none
        raise UserError(f"{path}: not valid YAML: {error}.") from error
    except RecursionError as error:
        raise UserError(f"{path}: not valid YAML: it is nested too deeply.") from error
    finally:
        if loader is not None:
            loader.dispose()


def _refuse_depth(text: str) -> None:
    """Raise `RecursionError` where a text nests deeper than `DEEPEST`: libyaml's composer would exhaust the stack.

    Only a text whose brackets or indentation look like it is parsed for that.
    """
    depth = most = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth = depth + 1 if bracket in "[{" else max(depth - 1, 0)
        most = max(most, depth)
    if most <= DEEPEST and not re.search(rf"^[ ?-]{{{DEEPEST}}}", text, re.MULTILINE):
        return
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise RecursionError


def _line_of_control(text: str) -> int:
    """Line (from 1) of the first character that YAML does not allow."""
    found = yaml.reader.Reader.NON_PRINTABLE.search(text)
    return text[: found.start()].count("\n") + 1 if found else 1


def line_of(node: yaml.Node | None, location: tuple[int | str, ...]) -> int:
    """Line (from 1) of the deepest node along `location` that exists."""
    line = node.start_mark.line + 1 if node is not None else 1
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == str(part)]
            if not found:
                continue  # a name that pydantic adds, such as the member of a union
            key, node = found[0]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line


def line_in(path: Path, location: tuple[int | str, ...]) -> int:
    """`line_of` a location in a YAML file, which is parsed once, however often it is asked."""
    return line_of(_tree(path, read_source(path)), location)


@lru_cache(maxsize=2)
def _tree(path: Path, text: str) -> yaml.Node | None:
    return _parsed(path, text)[1]


def load_typed(path: Path, model: type[Model]) -> Model:
    """Read `path` as `model`.

    Raises:
        UserError: the file is missing, is not YAML, or breaks the model; one sentence with file, line and key.
    """
    from pydantic import ValidationError

    content = read_content(path)
    try:
        return model.model_validate({} if content is None and not _is_root(model) else content)
    except ValidationError as error:
        raise UserError(validation_sentence(path, model, content, error)) from error


def read_content(path: Path) -> Any:
    """The content of a YAML file, of JSON's types alone."""
    path = path.absolute()
    text = read_source(path)
    root = checkout_of(path.parent)
    name = "-".join(path.relative_to(root).parts) if root else path.name
    key = f"{hashlib.sha256(text.encode()).hexdigest()} {_reader()}"
    return kept(root, name, key, lambda: _parsed(path, text)[0])  # of the very text


@cache
def _reader() -> str:
    """Digest of what reads YAML."""
    return f"{content_digest([Path(__file__)])} {yaml.__version__} {yaml.__with_libyaml__}"


def _is_root(model: "type[BaseModel]") -> bool:
    return bool(model.__pydantic_root_model__)


def validation_sentence(path: Path, model: "type[BaseModel]", content: Any, error: "ValidationError") -> str:
    """The first of a model's complaints as `file:line: key: what is wrong (got …)`."""
    errors = error.errors(include_url=False)
    first = errors[0]
    location = tuple(first["loc"])
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".")
    given = first.get("input")
    shown = f" (got {given!r})" if first["type"] != "value_error" and isinstance(given, str | int | float) else ""
    place = _key(content, location)
    kinds = dict.fromkeys(str(e["type"]).split("_")[0] for e in errors if _key(content, tuple(e["loc"])) == place)
    if len(kinds) > 1 and kinds.keys() <= _KINDS.keys():  # the members of a union, each with its own complaint
        *words, last = dict.fromkeys(_KINDS[kind] for kind in kinds)
        message = f"{', '.join(words)}{' or ' if words else ''}{last} is needed"
    said = f"{message}{shown}."
    if first["type"] == "missing":
        said = "the key is missing."
    if first["type"] == "extra_forbidden":
        said = f"there is no such key{suggestion(location[-1], _keys(model, location[:-1]))}"
    return f"{path}:{line_in(path, location)}: {place}: {said}"


def _key(content: Any, location: tuple[int | str, ...]) -> str:
    """A place in a file as one says it: by its keys, an entry of a list by its `id` or `item` where it has one."""
    words = []
    for number, part in enumerate(location, start=1):
        inside = isinstance(content, dict) and part in content
        if inside or (isinstance(content, list) and isinstance(part, int) and part < len(content)):
            content = content[part]
            named = isinstance(content, dict) and isinstance(part, int)
            words.append(str(content.get("id", content.get("item", part)) if named else part))
        elif number == len(location) and isinstance(content, dict):
            words.append(str(part))  # a key that is missing; other names are those of a union's members
    return ".".join(words) or "the file"


def _keys(model: "type[BaseModel]", location: tuple[int | str, ...]) -> set[str]:
    """The keys that a model has at a place: those of each member where it is one of several models."""
    here = _models(model)
    for part in location:
        fields = [one.model_fields[str(part)] for one in here if part in one.model_fields]
        here = {found for field in fields for found in _models(field.annotation)} if fields else here
    return {name for one in here for name in one.model_fields}


def _models(annotation: Any) -> "set[type[BaseModel]]":
    """The models in a type, such as those of a list, a mapping or a union; of a root model those in its root."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        return _models(annotation.model_fields["root"].annotation) if _is_root(annotation) else {annotation}
    return {model for part in get_args(annotation) for model in _models(part)}

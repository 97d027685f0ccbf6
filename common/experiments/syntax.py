"""Reading experiment files as syntax trees: what a definition reaches, without importing anything."""

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

from common.errors import UserError
from common.kept import content_digest
from common.sources import read_source

LOCAL_PACKAGES = ("common", "replications")


@dataclass(frozen=True)
class Target:
    """What an imported name stands for: a module of ours, or `attribute` of it."""

    module: str
    attribute: str | None


@dataclass
class Module:
    """Definitions and local imports of one file, by name."""

    name: str
    path: Path
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, Target] = field(default_factory=dict)


Key = tuple[str, str]
"""Module and name of a definition."""


class Sources:
    """The project's modules, found and parsed on demand; each definition is walked once.

    Args:
        root: the folder that holds `replications/`; `common` is taken from there too, else from where it is
            installed.

    Attributes:
        roots: where modules are looked for, in this order.
        texts: canonical texts of definitions, as far as they were asked for (see `digests.py`).
    """

    def __init__(self, root: Path) -> None:
        self.roots = (root, Path(__file__).parents[2])
        self.texts: dict[Key, list[str]] = {}
        self._modules: dict[str, Module | None] = {}
        self._uses: dict[Key, tuple[Key, ...]] = {}

    def module(self, name: str) -> Module | None:
        """The module `name` if it is one of ours and exists."""
        if name not in self._modules:
            path = self._path(name)
            self._modules[name] = None if path is None else _parse(name, path, read_source(path))
        return self._modules[name]

    @cached_property
    def fingerprint(self) -> str:
        """Digest of all Python files of the project, of the code that reads them and of Python's version."""
        reading = [Path(__file__), Path(__file__).with_name("digests.py")]
        return content_digest([*reading, *self._files()]) + f" {sys.version_info[:2]}"

    def _files(self) -> list[Path]:
        found, seen = [], set()
        for top in (root / package for package in LOCAL_PACKAGES for root in self.roots):
            for folder, folders, names in os.walk(top, followlinks=True):
                real = os.path.realpath(folder)
                folders[:] = [] if real in seen else [name for name in folders if name != "__pycache__"]
                found += [Path(folder, name) for name in names if name.endswith(".py") and real not in seen]
                seen.add(real)
        return sorted(found)

    def _path(self, name: str) -> Path | None:
        parts = name.split(".")
        if parts[0] not in LOCAL_PACKAGES:
            return None
        for root in self.roots:
            folder = root.joinpath(*parts)
            for path in (folder.with_suffix(".py"), folder / "__init__.py"):
                if path.is_file():
                    return path
        return None

    def resolve(self, module: str, name: str) -> list[Key]:
        """Where `name`, used in `module`, is defined: (module, name) pairs, through re-exports; [] if not ours."""
        found = self.module(module)
        if found is None:
            return []
        if name in found.definitions:
            return [(module, name)]
        if name in found.imports:
            target = found.imports[name]
            return [] if target.attribute is None else self.resolve_target(target)
        return []

    def resolve_target(self, target: Target) -> list[Key]:
        """Definitions behind an import target; a whole module stands for all its definitions."""
        if target.attribute is None:
            module = self.module(target.module)
            return [(target.module, name) for name in module.definitions] if module else []
        found = self.resolve(target.module, target.attribute)
        if found or self.module(f"{target.module}.{target.attribute}") is None:
            return found
        return self.resolve_target(Target(f"{target.module}.{target.attribute}", None))

    def reachable(self, roots: list[Key]) -> dict[Key, list[ast.stmt]]:
        """All definitions of ours that `roots` use, directly or not: (module, name) to statements."""
        found: dict[Key, list[ast.stmt]] = {}
        waiting = list(roots)
        while waiting:
            key = waiting.pop()
            if key in found:
                continue
            module = self.module(key[0])
            if module is None or key[1] not in module.definitions:
                continue
            found[key] = module.definitions[key[1]]
            if key not in self._uses:
                self._uses[key] = tuple(dict.fromkeys(self._used(module, found[key])))
            waiting += self._uses[key]
        return found

    def _used(self, module: Module, statements: list[ast.stmt]) -> Iterator[Key]:
        bindings = dict(module.imports)
        nodes = [node for statement in statements for node in _walk(statement)]
        for node in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                bindings.update(_bindings(node, module.name, module.path.name == "__init__.py"))
        whole_module_used_as_value = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
        for node in nodes:
            if isinstance(node, ast.Name):
                if node.id in bindings and not self._is_module(bindings[node.id]):
                    yield from self.resolve_target(bindings[node.id])
                elif node.id in bindings and id(node) not in whole_module_used_as_value:
                    yield from self.resolve_target(self._as_module(bindings[node.id]))
                elif node.id in module.definitions:
                    yield (module.name, node.id)
            elif isinstance(node, ast.Attribute):
                yield from self._attribute(node, bindings)

    def _attribute(self, node: ast.Attribute, bindings: dict[str, Target]) -> Iterator[Key]:
        chain = [node.attr]
        value = node.value
        while isinstance(value, ast.Attribute):
            chain.insert(0, value.attr)
            value = value.value
        if not isinstance(value, ast.Name) or value.id not in bindings:
            return
        target = bindings[value.id]
        if not self._is_module(target):
            return
        module = self._as_module(target).module
        for part in chain:
            if self.module(f"{module}.{part}") is None:
                yield from self.resolve_target(Target(module, part))
                return
            module = f"{module}.{part}"

    def _is_module(self, target: Target) -> bool:
        return self._as_module(target).attribute is None

    def _as_module(self, target: Target) -> Target:
        if target.attribute is None or self.resolve(target.module, target.attribute):
            return target
        if self.module(f"{target.module}.{target.attribute}") is not None:
            return Target(f"{target.module}.{target.attribute}", None)
        return target


@lru_cache(maxsize=2048)
def _parse(name: str, path: Path, text: str) -> Module:
    try:
        tree = ast.parse(text, filename=str(path))
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno or 1}: not valid Python: {error.msg}.") from error
    except ValueError as error:  # a null byte
        raise UserError(f"{path}: not valid Python: {error}.") from error
    except (RecursionError, MemoryError) as error:
        raise UserError(f"{path}: not valid Python: it is nested too deeply.") from error
    module = Module(name, path)
    _collect(tree.body, module)
    return module


def _collect(body: list[ast.stmt], module: Module) -> None:
    package = module.path.name == "__init__.py"
    for statement in body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound = _bindings(statement, module.name, package)
            if "*" in bound:
                raise UserError(
                    f"{module.path}:{statement.lineno}: import the names that are used instead of *; what a run "
                    "depends on is read from them."
                )
            module.imports.update(bound)
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            module.definitions.setdefault(statement.name, []).append(statement)
        elif isinstance(statement, ast.If | ast.Try | ast.With):
            for name in ("body", "orelse", "finalbody"):
                _collect(getattr(statement, name, []), module)
            for handler in getattr(statement, "handlers", []):
                _collect(handler.body, module)
        else:
            for name in _assigned(statement):
                module.definitions.setdefault(name, []).append(statement)


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement binds, and those whose elements or attributes it sets."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name | ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            while isinstance(node, ast.Subscript | ast.Attribute):
                node = node.value
            if isinstance(node, ast.Name):
                yield node.id


def _bindings(node: ast.Import | ast.ImportFrom, module: str, package: bool) -> dict[str, Target]:
    if isinstance(node, ast.Import):
        return {
            alias.asname or alias.name.split(".")[0]: Target(
                alias.name if alias.asname else alias.name.split(".")[0], None
            )
            for alias in node.names
            if alias.name.split(".")[0] in LOCAL_PACKAGES
        }
    source = node.module or ""
    if node.level:
        parts = module.split(".")
        base = parts[: len(parts) - node.level + (1 if package else 0)]
        source = ".".join([*base, source] if source else base)
    if source.split(".")[0] not in LOCAL_PACKAGES:
        return {}
    return {alias.asname or alias.name: Target(source, alias.name) for alias in node.names}


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node` but the annotations of functions, which compute nothing."""
    yield node
    for name, value in ast.iter_fields(node):
        if (isinstance(node, ast.arg) and name == "annotation") or name == "returns":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child)


@dataclass(frozen=True)
class ParameterField:
    """A field of `Parameters` as the file states it.

    Attributes:
        default: of one that names a data set.
        written: the default as it is written, whatever the field is; '' where there is none.
    """

    name: str
    names_dataset: bool
    default: str | None
    written: str = ""


def parameter_fields(
    sources: Sources, module_name: str, class_name: str = "Parameters", below: tuple[Key, ...] = ()
) -> dict[str, ParameterField]:
    """The fields of a module's `Parameters` class, with those of its bases.

    Args:
        below: the classes that inherit from this one, where it is a base.

    Raises:
        UserError: the module has no such class, it inherits from itself, or a data set's default is not a literal.
    """
    module = sources.module(module_name)
    if module is None or class_name not in module.definitions:
        where = module.path if module else module_name
        raise UserError(
            f"{where}: no class {class_name}; an experiment declares `class Parameters(ExperimentParameters)`."
        )
    definition = module.definitions[class_name][0]
    where = f"{module.path}:{definition.lineno}"
    if not isinstance(definition, ast.ClassDef):
        raise UserError(f"{where}: {class_name} is no class; declare `class {class_name}(ExperimentParameters)`.")
    if (module_name, class_name) in below:
        raise UserError(f"{where}: class {class_name} inherits from itself.")
    below = (*below, (module_name, class_name))
    fields: dict[str, ParameterField] = {}
    for base in definition.bases:
        if isinstance(base, ast.Name):
            for owner, name in _owner(sources, module, base.id, class_name):
                fields |= parameter_fields(sources, owner, name, below)
    for statement in definition.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            fields[statement.target.id] = _field(module, statement, statement.target.id)
    return fields


def _owner(sources: Sources, module: Module, name: str, heir: str) -> list[Key]:
    """Where the base `name` of the class `heir` is defined; an imported base may bear the name of its heir."""
    if name in module.definitions and not (name == heir and name in module.imports):
        return [(module.name, name)]
    return sources.resolve_target(module.imports[name]) if name in module.imports else []


def _field(module: Module, statement: ast.AnnAssign, name: str) -> ParameterField:
    value: ast.expr | None = statement.value
    if isinstance(value, ast.Call):
        value = value.args[0] if value.args else None
    written = ast.unparse(value) if value else ""
    if not any(isinstance(node, ast.Name) and node.id == "DatasetName" for node in ast.walk(statement.annotation)):
        return ParameterField(name, False, None, written)
    default = value.value if isinstance(value, ast.Constant) else value
    if default is not None and not isinstance(default, str):
        raise UserError(
            f"{module.path}:{statement.lineno}: {name}: the default of a DatasetName must be a plain string."
        )
    return ParameterField(name, True, default, written)

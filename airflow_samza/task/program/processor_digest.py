"""The digest of what makes the rows of a table that a processor fills.

While it is the same, a table that a host has kept may be read on.

It covers the source of the factory's module and of all modules of the user's that it imports, at any depth; the names
and versions of the libraries that these import; the configuration, which the factory gets; and the columns of the
messages. What a processor reads from elsewhere (a file, a service, the clock) cannot be compared.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.task.program.stage_program import StageProgram
from airflow_samza.task.tables.processors import processor_factory


def processor_digests(program: StageProgram) -> dict[str, str]:
    """The digests of a stage's tables with a processor, by table id.

    A table without a comparable processor is missing (:func:`code_digest`).
    """
    tables = (program.spec.table(table_id) for table_id in program.stage.tables)
    found = {table.table_id: _table_digest(program, table) for table in tables if table.processor is not None}
    return {table_id: digest for table_id, digest in found.items() if digest is not None}


def _table_digest(program: StageProgram, table: TableDescriptor) -> str | None:
    code = code_digest(processor_factory(table))
    if code is None:
        return None
    streams = {}
    for stream_id in table.side_inputs:
        declared, columns = program.spec.side_inputs[stream_id], program.streams.get(stream_id)
        streams[stream_id] = [columns.ddl() if columns is not None else None, declared.key, declared.timestamp]
    return _hash([code, sorted(program.spec.config.items()), streams])


def code_digest(factory: Any) -> str | None:
    """The digest of a factory's code; None where it cannot be compared.

    That is: a factory made inside a function, a lambda, an object, one of ``__main__``, and one whose module has no
    source. What those hold beside their code, or what that code is, cannot be compared from process to process.
    """
    name, module = getattr(factory, "__qualname__", None), getattr(factory, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str) or module == "__main__" or module not in sys.modules:
        return None
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not factory:
        return None
    return _code_digest(module, name)


def _code_digest(module: str, name: str) -> str | None:
    top = module.partition(".")[0]
    sources: dict[str, str] = {}
    libraries: set[str] = set()
    left = [module]
    while left:
        current = left.pop()
        if current in sources:
            continue
        source = _source(current)
        if source is None:
            if current == module:
                return None
            continue
        sources[current] = hashlib.sha256(source.encode()).hexdigest()
        for imported in _imports(current, source):
            if imported.partition(".")[0] == top or _is_of_the_user(imported):
                left.extend(_with_parents(imported))
            else:
                libraries.add(imported.partition(".")[0])
        left.extend(_with_parents(current))
    versions = sorted((library, _version(library)) for library in libraries - sys.stdlib_module_names)
    return _hash([module, name, sorted(sources.items()), versions, platform.python_version_tuple()[:2]])


def _source(module: str) -> str | None:
    """The source of a module.

    None where there is no such module, or no source of it (as of what only looks like one).
    """
    spec = _spec(module)
    read = getattr(spec.loader, "get_source", None) if spec is not None else None
    try:
        if read is not None:
            return read(module)  # type: ignore[no-any-return]
        if spec is not None and str(spec.origin).endswith(".py"):  # a loader that changes code while it loads it
            return Path(spec.origin).read_text(encoding="utf-8")
    except (ImportError, OSError, SyntaxError, UnicodeError):
        pass
    return None


def _spec(module: str) -> Any:
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__spec__", None)
    try:
        return importlib.util.find_spec(module)
    except Exception:  # it imports the package: ``a.b.C``, where b is none, or a package of the user's that raises
        return None


def _imports(module: str, source: str) -> Iterator[str]:
    """The names of all that a module imports, wherever in it.

    Of ``from a import b`` both ``a`` and ``a.b``, which may be a module.
    """
    spec = _spec(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
            origin = ".".join(part for part in (base, node.module or "") if part)
            if origin:
                yield origin
                yield from (f"{origin}.{alias.name}" for alias in node.names)


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _is_of_the_user(module: str) -> bool:
    """Return whether a module is the user's: neither Python's, nor ours, nor of an installed distribution."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "airflow_samza":
        return False
    spec = _spec(top)
    if spec is None:
        return False
    places = [spec.origin] if spec.origin not in (None, "namespace") else list(spec.submodule_search_locations or ())
    return bool(places) and not any(place.startswith(_installed()) for place in places if place)


def _installed() -> tuple[str, ...]:
    """The folders of installed distributions."""
    return tuple(
        {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
        | {p for p in sys.path if "-packages" in p}
    )


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return str(getattr(sys.modules.get(library), "__version__", ""))


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

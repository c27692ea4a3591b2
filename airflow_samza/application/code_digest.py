"""Digests of the code of callables: equal from process to process while the code is, another one after an edit.

A digest covers the byte code of a function, its constants, defaults and closure, and all that it names: functions and
classes of the user, at any depth; modules of the user by their source and that of the modules that they import;
libraries by their version. What a callable reads from elsewhere (a file, a service, the clock) is in no digest.
"""

from __future__ import annotations

import ast
import builtins
import dis
import enum
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import pickle
import platform
import re
import sys
import sysconfig
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
_OF_A_CLASS = frozenset(
    {
        "__abstractmethods__",
        "__annotate_func__",
        "__annotations__",
        "__dataclass_fields__",
        "__dataclass_params__",
        "__dict__",
        "__doc__",
        "__firstlineno__",
        "__module__",
        "__static_attributes__",
        "__weakref__",
        "_abc_impl",
    }
)
"""Attributes of a class that follow from its others, or say where it stands."""

_BY_NAME_ONLY = frozenset({"__import__", "exec", "eval", "compile"})
"""Builtins that run code which no digest can follow."""

_OF_SLOTS = types.GetSetDescriptorType | types.MemberDescriptorType
_WRAPPED = type(functools.lru_cache(len))


def callable_digest(*values: Any) -> str | None:
    """Return the digest of callables and values beside them; None where one of them cannot be compared.

    That is: what cannot be pickled and is neither function nor class, and code that imports or evaluates by itself.
    """
    try:
        return _hash([_Walk().of(value) for value in values])
    except _Incomparable:
        return None


class _Incomparable(Exception):
    """A value that has no digest."""


class _Walk:
    """One walk over functions and what they name; what is met again is named by the number of its first place."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        self._alive: list[Any] = []

    def of(self, value: Any) -> Any:
        """Return a value's part of the digest: JSON."""
        if isinstance(value, enum.Enum):
            return ["enum", type(value).__qualname__, value.name, repr(value.value)]
        if isinstance(value, _PLAIN):
            return [type(value).__name__, repr(value)]
        if id(value) in self._met:
            return ["met", self._met[id(value)]]
        self._met[id(value)] = len(self._met)
        self._alive.append(value)  # or another object might get its id
        return self._of_new(value)

    def _of_new(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return self._of_function(value)
        if isinstance(value, types.CodeType):
            return self._of_code(value)
        if isinstance(value, types.MethodType):
            return ["method", self.of(value.__func__), self.of(value.__self__)]
        if isinstance(value, staticmethod | classmethod):
            return [type(value).__name__, self.of(value.__func__)]
        if isinstance(value, property):
            return ["property", *(self.of(each) for each in (value.fget, value.fset, value.fdel))]
        if isinstance(value, functools.cached_property):
            return ["cached property", self.of(value.func)]
        if isinstance(value, functools.partial):
            return ["partial", self.of(value.func), self.of(value.args), self.of(value.keywords)]
        if isinstance(value, _WRAPPED):
            return ["cached", self.of(value.__wrapped__)]
        if isinstance(value, types.ModuleType):
            return self._of_module(value.__name__)
        if isinstance(value, type):
            return self._of_class(value)
        if isinstance(value, tuple | list):
            return [type(value).__name__, *(self.of(each) for each in value)]
        if isinstance(value, set | frozenset):
            return ["set", *sorted(json.dumps(_Walk().of(each)) for each in value)]
        if isinstance(value, Mapping) and type(value) in (dict, types.MappingProxyType):
            return ["dict", *([self.of(name), self.of(each)] for name, each in value.items())]
        if isinstance(value, re.Pattern):
            return ["pattern", repr(value.pattern), value.flags]
        if isinstance(value, types.BuiltinFunctionType | types.WrapperDescriptorType | types.MethodDescriptorType):
            return ["builtin", getattr(value, "__module__", None) or "", value.__qualname__]
        if isinstance(value, logging.Logger):
            return ["logger", value.name]
        if isinstance(value, types.CellType):
            return ["cell", self._of_cell(value)]
        return self._of_object(value)

    def _of_function(self, function: types.FunctionType) -> Any:
        named = _library_of(getattr(function, "__module__", None))
        if named is not None:
            return ["library", named, function.__qualname__]
        return [
            "function",
            self._of_code(function.__code__),
            self.of(function.__defaults__),
            self.of(function.__kwdefaults__),
            [self._of_cell(cell) for cell in function.__closure__ or ()],
            self._of_names(function.__code__, function.__globals__),
            self.of(getattr(function, "__wrapped__", None)),
        ]

    def _of_cell(self, cell: types.CellType) -> Any:
        try:
            return self.of(cell.cell_contents)
        except ValueError:
            return ["empty"]

    def _of_code(self, code: types.CodeType) -> Any:
        constants = [
            self._of_code(each) if isinstance(each, types.CodeType) else _Walk().of(each) for each in code.co_consts
        ]
        signature = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        names = [list(code.co_names), list(code.co_varnames), list(code.co_freevars), list(code.co_cellvars)]
        return ["code", hashlib.sha256(code.co_code).hexdigest(), constants, names, signature]

    def _of_names(self, code: types.CodeType, sight: Mapping[str, Any]) -> list[Any]:
        """Return the parts of what a function's code, and that of the functions in it, names beyond itself."""
        digests: list[Any] = []
        package = str(sight.get("__package__") or "")
        codes = [code]
        while codes:
            current = codes.pop()
            codes += [each for each in current.co_consts if isinstance(each, types.CodeType)]
            for name in current.co_names:
                if name in sight:
                    digests.append([name, self.of(sight[name])])
                elif name in _BY_NAME_ONLY and hasattr(builtins, name):
                    raise _Incomparable(name)
            digests += [["import", name, self._of_module(name)] for name in _imported_in(current, package)]
        return digests

    def _of_module(self, name: str) -> Any:
        if name.partition(".")[0] == "importlib":
            raise _Incomparable(name)
        named = _library_of(name)
        return ["library", named, name] if named is not None else ["module", name, module_digest(name)]

    def _of_class(self, kind: type) -> Any:
        named = _library_of(kind.__module__)
        if named is not None:
            return ["library", named, kind.__qualname__]
        content = {
            name: each
            for name, each in vars(kind).items()
            if name not in _OF_A_CLASS and not isinstance(each, _OF_SLOTS)
        }
        return [
            "class",
            kind.__qualname__,
            [self.of(base) for base in kind.__bases__],
            [[name, self.of(each)] for name, each in sorted(content.items())],
        ]

    def _of_object(self, value: Any) -> Any:
        kind = type(value)
        if _library_of(kind.__module__) is None and hasattr(value, "__dict__"):
            return ["object", self.of(kind), self.of(dict(vars(value)))]
        try:
            return ["pickled", kind.__qualname__, hashlib.sha256(pickle.dumps(value, protocol=4)).hexdigest()]
        except Exception as error:  # whatever an object's own pickling raises
            raise _Incomparable(kind.__qualname__) from error


def module_digest(name: str) -> str | None:
    """Return the digest of a module of the user's and of all that it imports; None where it has no source."""
    sources, libraries = user_sources(name)
    if name not in sources:
        return None
    digests = sorted((module, hashlib.sha256(source.encode()).hexdigest()) for module, source in sources.items())
    versions = sorted((library, _version(library)) for library in libraries - sys.stdlib_module_names)
    return _hash([digests, versions, platform.python_version_tuple()[:2]])


def user_sources(name: str) -> tuple[dict[str, str], set[str]]:
    """Return the sources of a module of the user's and of all that it imports, by name, and the libraries' names."""
    top = name.partition(".")[0]
    sources: dict[str, str] = {}
    libraries: set[str] = set()
    left = [name]
    seen: set[str] = set()
    while left:
        current = left.pop()
        if current in seen:
            continue
        seen.add(current)
        source = _source(current)
        if source is None:
            continue
        sources[current] = source
        for imported in _imports(current, source):
            if imported.partition(".")[0] == top or _is_of_the_user(imported):
                left.extend(_with_parents(imported))
            else:
                libraries.add(imported.partition(".")[0])
        left.extend(_with_parents(current))
    return sources, libraries


def _source(module: str) -> str | None:
    """The source of a module.

    None where there is no such module, or no source of it (as of what only looks like one).
    """
    spec = _spec(module)
    read = getattr(spec.loader, "get_source", None) if spec is not None else None
    try:
        if read is not None:
            return read(module)  # type: ignore[no-any-return]  # a loader gives a text, or None
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


@functools.lru_cache(maxsize=256)
def _imports(module: str, source: str) -> tuple[str, ...]:
    """The names of all that a module imports, wherever in it.

    Of ``from a import b`` both ``a`` and ``a.b``, which may be a module.
    """
    return tuple(_imported_names(module, source))


def _imported_names(module: str, source: str) -> Iterator[str]:
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


def _library_of(module: str | None) -> str | None:
    """Return name and version of the library of a module; None for a module of the user's."""
    top = (module or "builtins").partition(".")[0]
    if top == "__main__" or _is_user_top(top):
        return None
    return f"{top} {_version(top)}" if top not in sys.stdlib_module_names else f"{top} {platform.python_version()}"


@functools.lru_cache(maxsize=4096)
def _is_user_top(top: str) -> bool:
    return _is_of_the_user(top)


def _imported_in(code: types.CodeType, package: str) -> Iterator[str]:
    """Yield the modules that a function imports when it is called."""
    level: Any = 0
    constants: list[Any] = []
    module = ""
    for step in dis.get_instructions(code):
        if step.opname == "IMPORT_NAME":
            level = constants[-2] if len(constants) > 1 and isinstance(constants[-2], int) else 0
            name = str(step.argval)
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - level + 1]) if level else ""
            module = ".".join(part for part in (base, name) if part)
            yield module
        if step.opname == "IMPORT_FROM" and _source(f"{module}.{step.argval}") is not None:
            yield f"{module}.{step.argval}"
        if step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
            constants.append(step.argval)

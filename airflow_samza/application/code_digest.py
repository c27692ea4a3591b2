"""Digests of the code of callables, by sources: equal from process to process while the code is, else another one.

Of a callable count the statements of its module that it reaches by name, and those that change what it reaches; the
whole text of the user's modules that these import; the versions of libraries; and the values that it holds. Objects are
only looked at for such values: what an object does stands in the text of its class. Comments and layout do not count.
What a callable reads from elsewhere (a service, the clock, a file that does not travel with it) is in no digest. The
planner digests the code of each stage by it; the launcher names the zip of the user's code, and the stage runner its
setup, after one.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import io
import pickle
import platform
import sys
import types
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.application.module_statements import (
    Module,
    Statement,
    is_of_the_user,
    module_source,
    module_spec,
    package_of,
    parsed,
    with_packages,
)


class Place(NamedTuple):
    """A class or function that is named ``package.module:name``."""

    module: str
    name: str


def user_sources(name: str) -> dict[str, str]:
    """Return the sources of a module of the user's and of all that it imports, by name."""
    project = CodeDigests(name)
    modules, _ = project.imported([name])
    return {module: source for module in modules if (source := project.source(module)) is not None}


class Incomparable(Exception):
    """Code or a value that has no digest."""


class CodeDigests:
    """Digests of callables of one application, whose modules are looked at once, as they are now.

    ``within`` is the application's module: what it imports may change what a callable reaches.
    """

    def __init__(self, within: str = "") -> None:
        self._within = within
        self.source = functools.cache(module_source)
        self.module = functools.cache(self._module)
        self._is_top = functools.cache(is_of_the_user)
        self._changed_modules = functools.cache(self._changes)

    def of(self, *values: Any) -> str | None:
        """Return the digest of callables, places, and values beside them; None where one cannot be compared.

        That is a value that cannot be pickled, or code that imports modules by names that it makes.
        """
        held = _Held(self)
        try:
            content = held.digest(values)
            return _hash(content, *self.texts(held.names, held.parts), *platform.python_version_tuple()[:2])
        except Incomparable:
            return None

    def is_own(self, module: str) -> bool:
        """Return whether a module is the user's."""
        top = module.partition(".")[0]
        return top != "" and (top == self._within.partition(".")[0] or self._is_top(top))

    def _module(self, name: str) -> Module | None:
        """Return the statements of a module; None where there is none, as it is a name within one."""
        source = self.source(name)
        if source is None and str(getattr(module_spec(name), "origin", "")).endswith((".so", ".pyd", ".pyc")):
            raise Incomparable(name)
        try:
            return parsed(source, package_of(name)) if source is not None else None
        except (SyntaxError, ValueError, RecursionError):
            raise Incomparable(name) from None

    def imported(self, names: Iterable[str]) -> tuple[dict[str, Module], set[str]]:
        """Return modules of the user's with all that they import, and the libraries among that."""
        modules: dict[str, Module] = {}
        libraries: set[str] = set()
        left = with_packages(names)
        while left:
            name = left.pop()
            if not self.is_own(name):
                libraries.add(name.partition(".")[0])
            elif name not in modules and (module := self.module(name)) is not None:
                modules[name] = module
                left |= module.imports - modules.keys()
        return modules, libraries

    def texts(self, names: Mapping[str, set[str]], parts: Mapping[str, Sequence[Statement]]) -> list[str]:
        """Return digests of the sources behind names of modules and parts of their statements.

        The name ``*`` stands for a whole module, "" for nothing of it.
        """
        names = {name: set(found) for name, found in names.items()}
        while True:
            reached = {name: self._reached(name, found, parts.get(name, ())) for name, found in names.items()}
            belonging = [each for found in reached.values() for each in found]
            modules, libraries = self.imported(name for each in belonging for name in each.imports)
            more = modules.keys() | self._changing(names.keys() | modules.keys())
            if all("*" in names.get(name, ()) for name in more):
                break
            names.update({name: {"*"} for name in more})
        if any(each.doubts == "*" for each in belonging):
            raise Incomparable
        versions = sorted(f"{library} {_version(library)}" for library in libraries - sys.stdlib_module_names)
        return [*sorted(_hash(*(each.text for each in found)) for found in reached.values()), *versions]

    def _changing(self, reached: set[str]) -> set[str]:
        """Return the modules that change something in modules that are reached; all of them may run at any time."""
        imported, _ = self.imported({*reached, self._within})
        leading, before = {*reached}, 0  # modules from which one that is reached may be had
        while before != len(leading):
            before = len(leading)
            leading |= {name for name, module in imported.items() if not leading.isdisjoint(module.imports)}
        return {
            name
            for name, module in imported.items()
            if name not in reached and not leading.isdisjoint(self._changed_modules(module))
        }

    def _changes(self, module: Module) -> set[str]:
        """Return the modules of the user's from which a module imports something that it changes."""
        changed = frozenset[str]().union(*(self._changed(module, each) for each in module.statements))
        targets = {target for each, target in module.imported.items() if each in changed and self.is_own(target)}
        return {each if self.source(each) is not None else each.rpartition(".")[0] for each in targets}

    def _changed(self, module: Module, statement: Statement) -> set[str]:
        """Return the names whose objects a statement may change.

        A method of a module or class is called without that, and of libraries only what is set is followed.
        """
        return statement.stores | {
            name
            for name in statement.changes - module.constant
            if (target := module.imported.get(name)) is None or (self.is_own(target) and self.source(target) is None)
        }

    def _reached(self, name: str, names: set[str], parts: Sequence[Statement]) -> list[Statement]:
        """Return the statements of a module that belong to names of it, and to parts of statements."""
        module = self.module(name)
        if module is None:
            raise Incomparable(name)
        statements, imported = module.statements, module.imported.keys()
        bound = set[str]().union(*(each.binds for each in statements))
        mentioned = set[str]().union(*(each.names for each in statements))
        found = {
            number
            for number, each in enumerate(statements)
            if each.acts
            or each.stores & imported
            or (each.imports and not each.binds & mentioned and any(map(self.is_own, each.imports)))
        }
        reached = names.union(*(each.names for each in (*parts, *(statements[number] for number in found))))
        changed = [self._changed(module, each) for each in statements]
        changers: set[str] = set()
        before = None
        while before != (len(found), len(reached), len(changers)):
            before = len(found), len(reached), len(changers)
            for number in (*range(len(statements)), *reversed(range(len(statements)))):
                each = statements[number]
                changes = changed[number] & reached or each.called & changers
                if number in found or changes or each.binds & reached:
                    found.add(number)
                    reached |= each.names
                    changers |= each.binds - imported if changes else set()
        belonging = [*(statements[number] for number in sorted(found)), *parts]
        if names - bound - {""} or "*" in bound or any(each.doubts for each in belonging):
            return [*statements, *parts]
        return belonging


class _Held(pickle.Pickler):
    """Pickles values; in the place of functions, classes and modules among them it notes their places.

    ``names`` are the names of modules behind which their code stands, ``parts`` functions within statements.
    """

    def __init__(self, modules: CodeDigests) -> None:
        self._content = io.BytesIO()
        super().__init__(self._content, protocol=4)
        self.names: dict[str, set[str]] = defaultdict(set)
        self.parts: dict[str, list[Statement]] = defaultdict(list)
        self._modules = modules
        self._met: dict[int, int] = {}
        self._left: list[Any] = []  # with all that was met: another object might get its id

    def digest(self, value: Any) -> str:
        """Return the digest of a value and of all that it holds."""
        self._left.append((None, value))
        done = 0
        try:
            while done < len(self._left):
                self.dump(self._left[done][1])
                done += 1
        except Exception as error:  # whatever an object's own pickling raises
            raise Incomparable(type(value).__qualname__) from error
        return hashlib.sha256(self._content.getvalue()).hexdigest()

    def persistent_id(self, value: Any) -> str | None:
        """Return what stands for a value that is not pickled itself."""
        kind = type(value)
        if kind in (str, bytes):  # two that are equal may be one object here, and two in another process
            return f"{kind.__name__} {value!r}"
        if kind is Place:
            has_place = not self._modules.is_own(value.module) or self._modules.source(value.module) is not None
            return self._place(value.module, value.name) if has_place else f"no place {value}"
        if isinstance(value, types.ModuleType):
            return self._place(value.__name__, "*")
        if isinstance(value, set | frozenset):
            return f"{kind.__qualname__} {sorted(self._alone(each) for each in value)}"
        if isinstance(value, type):
            if not (_is_at_its_name(value) or self._modules.is_own(value.__module__) or value.__module__ == "builtins"):
                raise Incomparable(value.__qualname__)
            return self._place(value.__module__, value.__qualname__)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.CellType):
            return self._content_of(value, "cell", value.cell_contents)
        if kind is _CACHED:
            if _is_at_its_name(value):
                return self._place(value.__module__, value.__qualname__)
            return self._content_of(value, "cached", value.__wrapped__)
        return None

    def _alone(self, value: Any) -> str:
        held = _Held(self._modules)
        held.names, held.parts = self.names, self.parts
        return held.digest(value)

    def _content_of(self, value: Any, text: str, *content: Any) -> str:
        """Return what stands for a value that holds others; met again, it is known by the number of its first place."""
        if id(value) not in self._met:
            self._met[id(value)] = len(self._met)
            self._left.append((value, content))
        return f"{text} {self._met[id(value)]}"

    def _place(self, module: str, name: str) -> str:
        if module == "__main__":
            raise Incomparable(name)
        if not self._modules.is_own(module):
            return f"{module} {name} {_version(module.partition('.')[0])}"
        self.names[module].add(name.partition(".")[0])
        return f"place {name}"

    def _function(self, function: types.FunctionType) -> str:
        if _is_at_its_name(function):
            return self._place(function.__module__, function.__qualname__)
        module = str(function.__globals__.get("__name__"))
        part = self._part(module, function)
        self.parts[module] += [part] if part is not None else []
        text = f"{self._place(module, '' if part is not None else '*')} {function.__qualname__}"
        defaults = function.__defaults__, function.__kwdefaults__
        return self._content_of(function, text, defaults, function.__closure__, function.__dict__)

    def _part(self, name: str, function: types.FunctionType) -> Statement | None:
        """Return a function within a statement; None where it is not in the source as it is now."""
        module = self._modules.module(name) if self._modules.is_own(name) else None
        if module is None or function.__code__ not in _codes(self._modules.source(name) or ""):
            return None
        first, named = function.__code__.co_firstlineno, function.__code__.co_name
        nodes = [
            node
            for node in ast.walk(module.tree)
            if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef)
            and getattr(node, "name", "<lambda>") == named
            and min(each.lineno for each in (node, *getattr(node, "decorator_list", ()))) == first
        ]
        return Statement(nodes, package_of(name)) if nodes else None


_CACHED = type(functools.lru_cache(len))


@functools.lru_cache(maxsize=64)
def _codes(source: str) -> set[types.CodeType]:
    """Return the code of all functions in a source."""
    return _codes_within(compile(source, "", "exec", dont_inherit=True))


def _codes_within(code: types.CodeType) -> set[types.CodeType]:
    return {code}.union(*(_codes_within(each) for each in code.co_consts if isinstance(each, types.CodeType)))


def _is_at_its_name(value: Any) -> bool:
    """Return whether a value is found at its name in its module."""
    module: Any = sys.modules.get(str(getattr(value, "__module__", None)))
    return (
        functools.reduce(lambda found, part: getattr(found, part, None), value.__qualname__.split("."), module) is value
    )


def _version(library: str) -> str:
    """Return the version of a library; where no distribution has its name, its own source, which often names one."""
    if library in sys.stdlib_module_names:
        return platform.python_version()
    try:
        return importlib.metadata.version(library)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return _hash(module_source(library) or "")


def _hash(*texts: str) -> str:
    content = "".join(f"{len(text)} {text}" for text in texts)
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()

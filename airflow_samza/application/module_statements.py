"""Statements at the top of a module as the digest of code needs them: their text, their names, and what they change.

What is read here is text, never an object, and no module is imported for it.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

_ANY_NAME = frozenset({"globals", "locals", "vars", "exec", "eval", "compile", "__subclasses__"})
"""Functions behind which any name of the module may be; those with an argument of which they tell excepted."""

_ANY_MODULE = frozenset({"import_module", "__import__", "spec_from_file_location", "run_path", "run_module"})
"""Functions behind which any module may be, unless the first two get a literal name."""


_CONSTANT = re.compile(
    r"ClassDef|Assign\(targets=\[Name\([^\[\]]*\)\], value=(Constant|Call\(func=[^\[]*'(getLogger|get_logger|compile)')"
)
"""Texts of statements that bind what no other statement changes by a method of it."""


@dataclass(frozen=True, eq=False)
class Module:
    """The statements of a module, and the module, or the name behind one and a dot, for which imported names stand.

    ``imports`` are all modules that it imports, and its own package. ``constant`` are names of classes, loggers,
    patterns and plain values, methods of which change nothing, unless the class itself says so.
    """

    tree: ast.Module
    statements: tuple[Statement, ...]
    imported: dict[str, str]
    imports: frozenset[str]
    constant: frozenset[str]


@functools.lru_cache(maxsize=4096)
def parsed(source: str, package: str) -> Module:
    """Return the statements of a module in a package; what has been parsed is kept by its content."""
    tree = ast.parse(source)
    statements = tuple(Statement([node], package) for node in tree.body if not _is_main(node))
    imported = {name: target for each in statements for name, target in each.imported.items()}
    imports = frozenset(with_packages({package} - {""}).union(*(with_packages(each.imports) for each in statements)))
    constant = frozenset[str]().union(*(each.binds for each in statements if _CONSTANT.match(each.text)))
    return Module(tree, statements, imported, imports, constant)


def with_packages(names: Iterable[str]) -> set[str]:
    """Return modules with the packages that they are in, which are imported before them."""
    return {each for name in names for each in accumulate(name.split("."), "{}.{}".format)}


def _is_main(node: ast.AST) -> bool:
    """Return whether a statement is ``if __name__ == "__main__"``, which no module runs that is imported."""
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test) and not node.orelse


class Statement(ast.NodeVisitor):
    """A statement at the top of a module, or functions within one.

    ``text`` has no comments and no layout. ``binds`` are the names that it gives to the module, ``names`` all that it
    mentions, at any depth: those of local variables, too, which mean nothing unless the module has them. ``called`` are
    names that it calls, decorates with or derives classes from. ``stores`` are those whose attributes or items it sets,
    ``changes`` those whose objects it may change in another way: it calls a method of one, or refers to one when the
    module is imported. ``imports`` are modules. ``acts``: it is there for its effect. ``doubts``: any name of the
    module, or ``*``, any module, may be behind it.
    """

    def __init__(self, nodes: Iterable[ast.AST], package: str) -> None:
        self.text = ""
        self.binds: set[str] = set()
        self.names: set[str] = set()
        self.called: set[str] = set()
        self.stores: set[str] = set()
        self.changes: set[str] = set()
        self.imports: set[str] = set()
        self.imported: dict[str, str] = {}
        self.acts = False
        self.doubts = ""
        self._package = package.split(".") if package else []
        self._later = 0
        self._class = ""
        for node in nodes:
            self.text += ast.dump(node)
            self.visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        """Note the modules that are imported."""
        for alias in node.names:
            self._import(alias.asname or alias.name.partition(".")[0], alias.name, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note both ``a`` and ``a.b`` of ``from a import b``, which may be a module."""
        base = self._package[: len(self._package) - node.level + 1] if node.level else []
        origin = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            self._import(alias.asname or alias.name, f"{origin}.{alias.name}", origin, f"{origin}.{alias.name}")

    def _import(self, name: str, target: str, *modules: str) -> None:
        self._bind(name)
        self.imports.update(modules)
        self.imported[name] = target
        self._doubt(target.rpartition(".")[2] if target.rpartition(".")[2] != name else "")

    def _bind(self, name: str) -> None:
        if not self._later and not self._class:
            self.binds.add(name)

    def visit_Global(self, node: ast.Global) -> None:
        """Note names that a function binds."""
        self.binds.update(node.names)
        self.stores.update(node.names)

    def visit_Name(self, node: ast.Name) -> None:
        """Note a name; a statement that refers to an object while the module is imported may change it."""
        self.names.add(node.id)
        self._doubt(node.id)
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)
        elif not self._later:
            self.changes.add(node.id)

    def _doubt(self, name: str) -> None:
        self.doubts = "*" if name in _ANY_MODULE else self.doubts or "." * (name in _ANY_NAME)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note an attribute that is set."""
        if node.attr in _ANY_MODULE or (node.attr == "modules" and self._root(node) == "sys"):
            self.doubts = "*"
        self._doubt(node.attr if node.attr == "__subclasses__" else "")
        self.visit_Subscript(node)

    def visit_Subscript(self, node: ast.Attribute | ast.Subscript) -> None:
        """Note an item that is set."""
        if not isinstance(node.ctx, ast.Load):
            self.stores.add(self._class if self._root(node) == "cls" else self._root(node))
        self.generic_visit(node)

    def _root(self, node: ast.AST) -> str:
        """Return the name with which a chain of attributes, items and calls begins; "" where it begins with none."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        return node.id if isinstance(node, ast.Name) else ""

    def visit_Expr(self, node: ast.Expr) -> None:
        """Note a statement that is there for its effect."""
        self.acts |= not (self._later or self._class or isinstance(node.value, ast.Constant))
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """Note what is called."""
        first = node.args[0] if node.args else None
        name = node.func.attr if isinstance(node.func, ast.Attribute) else self._root(node.func)
        if name in ("import_module", "__import__") and isinstance(first, ast.Constant):
            self.imports.add(str(first.value))
        elif name in _ANY_MODULE:
            self.doubts = "*"
        elif name != "vars" or not first:
            self._call(node.func)
        for each in (*node.args, *node.keywords):
            self.visit(each)

    def _call(self, node: ast.expr) -> None:
        """Visit what is called: a function by its name is not changed by that, an object by a method of it may be."""
        if isinstance(node, ast.Name):
            self.called.add(node.id)
        elif isinstance(node, ast.Attribute):
            of_class = self._root(node) == "cls" and not isinstance(node.value, ast.Name)
            (self.stores if of_class else self.changes).add(self._class if of_class else self._root(node))
        self._doing_later(node)

    def _doing_later(self, *nodes: ast.AST | None) -> None:
        """Visit what runs when a function is called, or is only looked at."""
        self._later += 1
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._later -= 1

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Visit an assignment; its annotation is only looked at."""
        self._doing_later(node.annotation)
        for each in (node.target, *([node.value] if node.value else [])):
            self.visit(each)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> None:
        """Visit a function: its decorators and defaults run now, its body later."""
        if not isinstance(node, ast.Lambda):
            self._bind(node.name)
            for each in node.decorator_list:
                self._call(each)
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        arguments = [each.annotation for each in ast.walk(node.args) if isinstance(each, ast.arg)]
        self._doing_later(*arguments, getattr(node, "returns", None))
        self._doing_later(*(node.body if isinstance(node.body, list) else [node.body]))

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # noqa: N815 - names of the base class

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit a class, whose body runs now and binds nothing in the module."""
        self._bind(node.name)
        for each in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self._call(each)
        outer, self._class = self._class, self._class or node.name
        for statement in node.body:
            self.visit(statement)
        self._class = outer


def module_spec(module: str) -> Any:
    """Return the spec of a module; None where there is none."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        return getattr(loaded, "__spec__", None)
    try:
        return importlib.util.find_spec(module)
    except Exception:  # it imports the package: ``a.b.C``, where b is none, or a package of the user's that raises
        return None


def module_source(module: str) -> str | None:
    """Return the source of a module as it is now; None where there is no such module, or no source of it."""
    spec = module_spec(module)
    read = getattr(spec.loader, "get_source", None) if spec is not None else None
    try:
        if read is not None:
            return read(module)  # type: ignore[no-any-return]  # a loader gives a text, or None
        if spec is not None and str(spec.origin).endswith(".py"):  # a loader that changes code while it loads it
            return Path(spec.origin).read_text(encoding="utf-8")
    except (ImportError, OSError, SyntaxError, UnicodeError):
        pass
    return None


def package_of(module: str) -> str:
    """Return the package from which the relative imports of a module count."""
    spec = module_spec(module)
    is_package = spec is not None and spec.submodule_search_locations is not None
    return module if is_package else module.rpartition(".")[0]


def is_of_the_user(module: str) -> bool:
    """Return whether a module is the user's: neither Python's, nor ours, nor of an installed distribution."""
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "airflow_samza":
        return False
    spec = module_spec(top)
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

"""Modules made of single functions of a Dag file, for stage runners and workers that have no Dag file."""

from __future__ import annotations
import __future__

import ast
import builtins
import dis
import importlib
import importlib.util
import inspect
import os
import sys
import textwrap
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from airflow_samza.application.loader import function_module
from airflow_samza.errors import ConfigError, InvalidApplication
from airflow_samza.private_folder import scratch_folder

ATTRIBUTE = "described"

_READS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


@dataclass(frozen=True)
class FunctionModule:
    """A module with one function: its name (of its content) and its source."""

    name: str
    source: str

    @classmethod
    def of(
        cls, function: Callable[..., Any], decorator: str, parameter: str, *, application: str | None = None
    ) -> FunctionModule:
        """Return the module of a function that ``decorator`` decorates, and that gets ``parameter``.

        With ``application`` it describes an application of that name. Rejects a function that needs anything of the
        Dag file around it.
        """
        name = function.__name__
        if len(inspect.signature(function).parameters) != 1:
            raise InvalidApplication(
                f"The function {name!r} of {decorator} has the parameters {inspect.signature(function)}.",
                hint=f"Give it one parameter: {parameter}.",
                name=name,
            )
        outside = sorted({*_globals_of(function.__code__), *function.__code__.co_freevars} - set(dir(builtins)))
        if outside:
            raise InvalidApplication(
                f"The function {name!r} of {decorator} uses {', '.join(map(repr, outside))} of the Dag file, which "
                "Spark's workers do not import.",
                hint="Import or define it in the function; or move the function into a module and name it: "
                'application="package.module:name" (source="package.module:name" of a push).',
                name=name,
            )
        lines = [_undecorated(function)]
        if function.__code__.co_flags & __future__.annotations.compiler_flag:
            lines.insert(0, "from __future__ import annotations\n")
        if application is not None:
            lines += [
                "from airflow_samza import stream_application",
                "",
                f"{ATTRIBUTE} = stream_application({application!r})({name})",
            ]
        else:
            lines.append(f"{ATTRIBUTE} = {name}")
        source = "\n".join([*lines, ""])
        return cls(function_module(name, source), source)

    @property
    def reference(self) -> str:
        """The application or function in the module, as ``module:attribute``."""
        return f"{self.name}:{ATTRIBUTE}"

    def bring(self) -> list[Path]:
        """Make the module importable in this process; return its file, and those of the user's modules it imports."""
        folder = scratch_folder("functions")
        file = Path(folder) / f"{self.name}.py"
        if not file.exists() or file.read_text(encoding="utf-8") != self.source:
            partial = file.with_name(f".{self.name}.{uuid.uuid4().hex}")
            partial.write_text(self.source, encoding="utf-8")
            os.replace(partial, file)
        if folder not in sys.path:
            sys.path.append(folder)
        importlib.invalidate_caches()
        return [file, *_users_modules(self.source)]


def _undecorated(function: Callable[..., Any]) -> str:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except OSError as error:
        raise ConfigError(
            f"The source of the function {function.__name__!r} cannot be read: {error}.",
            hint="Define it in a file.",
            key="python_callable",
            value=function.__name__,
        ) from None
    (definition,) = ast.parse(text).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    arguments = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
    if definition.returns is None and all(argument.annotation is None for argument in arguments):
        return "\n".join(text.splitlines()[definition.lineno - 1 :])
    # What annotates the parameter is imported by the Dag file, not by the function.
    definition.decorator_list, definition.returns = [], None
    for argument in arguments:
        argument.annotation = None
    return ast.unparse(definition)


def _globals_of(code: CodeType) -> Iterator[str]:
    """Return the global names that a function, and the functions and classes in it, read."""
    instructions = list(dis.get_instructions(code))
    own = {
        instruction.argval for instruction in instructions if instruction.opname == "STORE_NAME"
    }  # of a class's body
    for instruction in instructions:
        if instruction.opname in _READS and instruction.argval not in own and not instruction.argval.startswith("__"):
            yield instruction.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def _users_modules(source: str) -> Iterator[Path]:
    """Return the files and folders of the user's own modules that a source imports: what is not installed."""
    from airflow_samza.launch.code_shipping import is_library

    tops = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            tops |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            tops.add(node.module.partition(".")[0])
    for top in sorted(tops - sys.stdlib_module_names - {"airflow_samza"}):
        module = importlib.util.find_spec(top)
        if module is None or module.origin is None:
            continue
        place = Path(module.origin)
        place = place.parent if place.name == "__init__.py" else place
        if not is_library(place.parent):
            yield place

"""Task decorators: ``@task.samza_stream`` for an application, ``@task.samza_push`` for the source of a push.

A Dag file is no module that a stage runner or a worker of Spark imports. So the function's source becomes a module of
its own (:class:`FunctionModule`), which travels with the run as an application's module does.
"""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory

from airflow_samza.application.loader import function_module
from airflow_samza.errors import ConfigError, InvalidApplication
from airflow_samza.private_folder import scratch_folder
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.operators.table_push import SamzaTablePushOperator

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


class _OfFunction(DecoratedOperator):
    """The shared part: the module of the function, written on the worker before anything else happens there."""

    module: FunctionModule
    py_modules: Sequence[str]

    def execute(self, context: Any) -> Any:
        """Write the module, and run the task."""
        self._bring()
        return super().execute(context)

    def resume_execution(self, next_method: str, next_kwargs: dict[str, Any] | None, context: Any) -> Any:
        """Write the module, and go on where the task deferred: it may be on another worker now."""
        self._bring()
        return super().resume_execution(next_method, next_kwargs, context)

    def _bring(self) -> None:
        self.py_modules = [*self.py_modules, *(str(path) for path in self.module.bring())]


class _SamzaStreamDecoratedOperator(_OfFunction, SamzaStreamOperator):
    """Runs the application that a function of the Dag file describes; parameters as of :class:`SamzaStreamOperator`.

    :param python_callable: The function, whose one parameter is ``app``; what it needs it imports itself.
    :param name: The application's name, which goes into topics and state; by default the function's.
    """

    custom_operator_name = "@task.samza_stream"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *SamzaStreamOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **SamzaStreamOperator.template_fields_renderers,
    }

    def __init__(self, *, python_callable: Callable[..., Any], name: str | None = None, **kwargs: Any) -> None:
        _reject(kwargs, self.custom_operator_name, "application")
        named = name or python_callable.__name__.replace("_", "-")
        module = FunctionModule.of(python_callable, self.custom_operator_name, "app", application=named)
        super().__init__(python_callable=_without_arguments(python_callable), application=module.reference, **kwargs)
        self.module = module


class _SamzaPushDecoratedOperator(_OfFunction, SamzaTablePushOperator):
    """Pushes the DataFrame that a function of the Dag file returns; parameters as of :class:`SamzaTablePushOperator`.

    :param python_callable: The function, whose one parameter is the Spark session; what it needs it imports itself.
    """

    custom_operator_name = "@task.samza_push"
    template_fields: Sequence[str] = (*DecoratedOperator.template_fields, *SamzaTablePushOperator.template_fields)
    template_fields_renderers: ClassVar[dict[str, str]] = {
        **DecoratedOperator.template_fields_renderers,
        **SamzaTablePushOperator.template_fields_renderers,
    }

    def __init__(self, *, python_callable: Callable[..., Any], **kwargs: Any) -> None:
        _reject(kwargs, self.custom_operator_name, "source")
        module = FunctionModule.of(python_callable, self.custom_operator_name, "the Spark session")
        source = {"callable": module.reference}
        super().__init__(python_callable=_without_arguments(python_callable), source=source, **kwargs)
        self.module = module


def samza_stream_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a task of a function that describes an application: ``@task.samza_stream``."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_SamzaStreamDecoratedOperator, **kwargs
    )


def samza_push_task(python_callable: Callable[..., Any] | None = None, **kwargs: Any) -> TaskDecorator:
    """Make a task that pushes a table of a function that returns a DataFrame: ``@task.samza_push``."""
    return task_decorator_factory(
        python_callable=python_callable, decorated_operator_class=_SamzaPushDecoratedOperator, **kwargs
    )


def _without_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with a signature whose parameter may be left out: the runner gives it."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(default=None) for parameter in signature.parameters.values()]
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # mypy knows none
    return function


def _reject(arguments: Mapping[str, Any], decorator: str, name: str) -> None:
    if name in arguments:
        raise ConfigError(
            f"{decorator} has {name}={arguments[name]!r}, and the decorated function is that.",
            hint=f"Leave {name} out, or use the operator.",
            key=name,
            value=arguments[name],
        )

"""Task decorators: ``@task.samza_stream`` for an application, ``@task.samza_push`` for the source of a push.

A Dag file is no module that a stage runner or a worker of Spark imports. So the function's source becomes a module of
its own (:mod:`airflow_samza.provider.function_modules`), which travels with the run as an application's module does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk.bases.decorator import DecoratedOperator, TaskDecorator, task_decorator_factory

from airflow_samza.errors import ConfigError
from airflow_samza.provider.function_modules import FunctionModule
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.provider.operators.table_push import SamzaTablePushOperator


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

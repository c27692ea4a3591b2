"""References of applications, ``package.module:attribute``: the application that one names, and equality of two.

The plan step, the stage runner and every face load an application by it.
"""

from __future__ import annotations

import hashlib
import importlib
import re

from airflow_samza.application.application import StreamApplication
from airflow_samza.application.rejections import USER_ERRORS, did_you_mean, listed, raised_in_user_code
from airflow_samza.errors import InvalidApplication, SamzaError, UnknownName

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def load_application(name: str | StreamApplication | type[StreamApplication]) -> StreamApplication:
    """Return the application that a name like ``package.module:attribute`` stands for.

    Raises :class:`~airflow_samza.errors.UnknownName` when the module or the attribute is missing, and
    :class:`~airflow_samza.errors.InvalidApplication` when it is no application, or its module cannot be imported.

    ```python
    application = load_application("pipelines.page_views:page_views")
    ```

    :param name: The name; an application, or a class of one, is returned (made, for a class) as it is.
    """
    if isinstance(name, StreamApplication):
        return name
    if isinstance(name, type) and issubclass(name, StreamApplication):
        return _instance(name, name.__qualname__)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidApplication(
            f"{name!r} does not name an application.",
            hint='Write "package.module:attribute", for example "pipelines.page_views:page_views".',
            value=repr(name),
        )
    module_name, _, attributes = name.partition(":")
    target = _imported(module_name, name)
    for attribute in attributes.split("."):
        if not hasattr(target, attribute):
            raise UnknownName(
                f"Module {module_name!r} has no {attributes!r}.",
                hint=f"{did_you_mean(attributes, _applications(target))}Its applications are: "
                f"{listed(_applications(target))}.",
                name=name,
            )
        target = getattr(target, attribute)
    if isinstance(target, StreamApplication):
        return target
    if isinstance(target, type) and issubclass(target, StreamApplication):
        return _instance(target, name)
    kind = "a function" if callable(target) and not isinstance(target, type) else repr(target)
    raise InvalidApplication(
        f"{name!r} is {kind}, not an application.",
        hint='Decorate the function with @stream_application("name"), or subclass StreamApplication.',
        name=name,
    )


def _imported(module_name: str, name: str) -> object:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(missing + "."):
            raise UnknownName(
                f"There is no module {missing!r} for the application {name!r}.",
                hint="Put its folder on the Python path (the Dag bundle's folder, PYTHONPATH), or correct the name.",
                name=name,
            ) from error
        raise InvalidApplication(
            f"Module {module_name!r} of the application {name!r} needs the module {missing!r}, which is not installed.",
            hint=f"Install the package that provides {missing!r} where the application is planned, or, if only "
            "stages need it, import it in the functions that use it.",
            name=name,
        ) from error
    except SamzaError:
        raise
    except USER_ERRORS as error:
        raise InvalidApplication(
            f"Module {module_name!r} of the application {name!r} cannot be imported: {raised_in_user_code(error)}.",
            hint=f'Try it: python -c "import {module_name}".',
            name=name,
        ) from error


def _instance(kind: type[StreamApplication], name: str) -> StreamApplication:
    try:
        return kind()
    except TypeError as error:
        raise InvalidApplication(
            f"The application class {name!r} cannot be made without arguments: {error}.",
            hint="Let its constructor work without arguments; settings come from the configuration (app.config).",
            name=name,
        ) from error


def _applications(module: object) -> list[str]:
    return sorted(
        name
        for name, value in vars(module).items()
        if isinstance(value, StreamApplication)
        or (
            isinstance(value, type)
            and issubclass(value, StreamApplication)
            and value.__module__ == getattr(module, "__name__", "")
        )
    )


_OF_A_FUNCTION = re.compile(r"(samza_task_\w+)_[0-9a-f]{12}(?=:)")


def function_module(name: str, source: str) -> str:
    """Return the name of a module that is made of one function: of the function's name and of the module's source."""
    return f"samza_task_{name}_{hashlib.sha256(source.encode()).hexdigest()[:12]}"


def names_the_same(reference: str, other: str) -> bool:
    """Return True if two references name the same function or class, whatever it contains.

    >>> names_the_same("pipelines.views:app", "views:app")
    False
    >>> names_the_same("samza_task_views_0123456789ab:described", "samza_task_views_ba9876543210:described")
    True
    """
    return _OF_A_FUNCTION.sub(r"\1", reference) == _OF_A_FUNCTION.sub(r"\1", other)

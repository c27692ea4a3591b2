"""The processor of a table's side inputs, made by its factory.

A class or function, or ``module:factory`` by name (rules S2, S8).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from airflow_samza.application.callables import check_callable, name_of
from airflow_samza.application.declarations.side_inputs import SideInputsProcessor
from airflow_samza.application.descriptors import TableDescriptor
from airflow_samza.application.rejections import USER_ERRORS, raised_in_user_code
from airflow_samza.errors import ConfigError, InvalidApplication, SamzaError


def make_processor(table: TableDescriptor, config: Mapping[str, str], metrics: Any) -> SideInputsProcessor:
    """A new processor of a table."""
    factory = processor_factory(table)
    try:
        made = factory(config, metrics)
    except SamzaError:
        raise
    except USER_ERRORS as error:
        raise InvalidApplication(
            f"The factory of the processor of table {table.table_id!r}, {name_of(factory)}, raised "
            f"{raised_in_user_code(error)}.",
            hint="It is called with (config, metrics), once in each task.",
            table=table.table_id,
        ) from error
    if not callable(getattr(made, "process", None)):
        raise InvalidApplication(
            f"The factory of the processor of table {table.table_id!r}, {name_of(factory)}, made {made!r:.100}, which "
            "has no "
            "method process.",
            hint="Return an object with process(message, store) that gives (key, row) pairs.",
            table=table.table_id,
        )
    return made  # type: ignore[no-any-return]


def processor_factory(table: TableDescriptor) -> Callable[[Mapping[str, str], Any], Any]:
    """The factory that a table was declared or configured with, imported where it was named."""
    named = table.processor
    if not isinstance(named, str):
        return named  # type: ignore[no-any-return]
    module, _, attribute = named.rpartition(":") if ":" in named else named.rpartition(".")
    try:
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except USER_ERRORS as error:
        raise ConfigError(
            f"The processor of table {table.table_id!r} is {named!r}, which cannot be imported: "
            f"{raised_in_user_code(error)}.",
            hint='Write "package.module:factory" (processor=, or '
            f"stores.{table.table_id}.side.inputs.processor.factory).",
            key=f"stores.{table.table_id}.side.inputs.processor.factory",
            value=named,
        ) from error
    check_callable(
        found,
        f"the processor factory {named!r} of table {table.table_id!r}",
        2,
        hint="Give a callable (config, metrics).",
    )
    return found  # type: ignore[no-any-return]

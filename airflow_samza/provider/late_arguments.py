"""Arguments of a group that are known only when it runs: those of a mapped ``@task_group``, and outputs of tasks.

The task group passes them on, and outlets wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.errors import ConfigError


def is_late(value: Any) -> bool:
    """Return whether Airflow finds a value only when the task runs."""
    return hasattr(value, "resolve") and hasattr(value, "iter_references")


def as_read(values: Any) -> Any:
    """Return settings as an application can read them when its stages are cut.

    A value that is known later is a text there, as an expression of Jinja is one; a mapping that is known later is
    empty.
    """
    if is_late(values):
        return {}
    if not isinstance(values, Mapping):
        return values
    return {name: f"{{{{ {name} }}}}" if is_late(value) else value for name, value in values.items()}


def reject_late(group_id: str, **arguments: Any) -> None:
    """Reject a value that decides which tasks a group has, and is known only when they run."""
    for name, value in arguments.items():
        if is_late(value):
            raise ConfigError(
                f"The task group {group_id!r} has {name} from its mapping or from a task, which is known when it runs; "
                "the tasks of its stages exist when the Dag file is read.",
                hint=f"Give {name} in the Dag file. What a run may differ in are config, systems, conn_id, "
                "data_interval, state_from, table_versions, input_versions, sections, spark_conf.",
                key=name,
                value=type(value).__name__,
            )


def reject_mapping(group: str) -> ConfigError:
    """Return the error for a group that is mapped as an operator is."""
    return ConfigError(
        f"{group} cannot be mapped itself: Airflow maps only the groups of @task_group functions.",
        hint=f"Write @task_group def each(region): {group}(…, config={{'region': region}}), "
        "and each.expand(region=[…]).",
        key="expand",
        value=group,
    )

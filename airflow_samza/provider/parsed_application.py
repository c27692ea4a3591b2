"""An application as a Dag file can know it: its stages and outputs, without counts and without I/O.

Task groups and operators take their stages and outlets from it. Arguments that are known only when a group runs, those
of a mapped ``@task_group`` and outputs of tasks, are passed on, and outlets wait for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from airflow_samza.application.application import ApplicationSpec, DecoratedApplication
from airflow_samza.application.loader import load_application
from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.planner.planner import plan_shape
from airflow_samza.provider.connections.bindings import text_map


class ParsedApplication(NamedTuple):
    """A described application, and its plan without counts."""

    spec: ApplicationSpec
    shape: ExecutionPlan


_PARSED: WeakKeyDictionary[DecoratedApplication, dict[tuple[tuple[str, str], ...], ParsedApplication]] = (
    WeakKeyDictionary()
)
"""The applications of the Dag files that this process reads: every task of a Dag asks for its own."""


def parse_application(application: str, config: Any) -> ParsedApplication:
    """Return an application as it is with a configuration; what it cannot be is a :class:`SamzaError`."""
    loaded = load_application(application)
    settings = text_map("config", as_read(config))
    parsed = _PARSED.setdefault(loaded, {}) if isinstance(loaded, DecoratedApplication) else {}
    key = tuple(sorted(settings.items()))
    if key not in parsed:
        spec = loaded.spec(settings)
        parsed[key] = ParsedApplication(spec, plan_shape(spec))
    return parsed[key]


def application_if_there(application: Any, config: Any) -> ParsedApplication | None:
    """Return an application where the Dag file can know it.

    None where its name is a template, or it cannot be loaded here: the ``plan`` task says why, where it has to be.
    """
    if not isinstance(application, str) or "{{" in application:
        return None
    with suppress(SamzaError):
        return parse_application(application, config)
    return None


def words_on(stage: Stage, shape: ExecutionPlan) -> str:
    """Return what a stage reads and writes, for its task's page.

    Airflow's arrows do not tell it where stages run at the same time.
    """
    writers: Mapping[str, str] = {stream_id: other.stage_id for other in shape.stages for stream_id in other.outputs}
    reads = [f"{name} (written by the stage {writers[name]})" if name in writers else name for name in stage.inputs]
    return f"Reads {', '.join(reads)}. Writes {', '.join(stage.outputs) or 'nothing'}."


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

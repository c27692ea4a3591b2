"""An application as a Dag file can know it: its stages and outputs, without counts and without I/O.

Task groups and operators take their stages and outlets from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from airflow_samza.application.application import ApplicationSpec, DecoratedApplication
from airflow_samza.application.loader import load_application
from airflow_samza.errors import SamzaError
from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.planner.planner import plan_shape
from airflow_samza.provider.connections.bindings import text_map
from airflow_samza.provider.late_arguments import as_read


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

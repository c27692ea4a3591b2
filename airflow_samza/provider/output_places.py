"""The places of what stages write, for links to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from airflow_samza.errors import SamzaError
from airflow_samza.prepare.bound_systems import run_bindings
from airflow_samza.provider.consoles import console_address
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult

if TYPE_CHECKING:
    from airflow_samza.provider.hooks.samza import SamzaHook


def outputs_of(run: RunPlan, stage_ids: Sequence[str]) -> list[str]:
    """Return the streams that stages write outside the run."""
    written = {stream_id for stage_id in stage_ids for stream_id in run.plan.stage(stage_id).outputs}
    return sorted(stream_id for stream_id in written if not run.is_own(stream_id))


def console_of(hook: SamzaHook, run: RunPlan, stream_ids: Sequence[str]) -> str:
    """Return where a browser shows the first of several outputs that such a place is known of; empty: none."""
    return _console(hook, run, [(run.streams[name].system, run.streams[name].spec.name) for name in stream_ids])


def console_of_results(hook: SamzaHook, run: RunPlan, results: Sequence[StageResult]) -> str:
    """Return the same of stages that have ended, by the paths that their outputs have in the end."""
    written = (output for result in results for output in result.outputs if not output.own)
    return _console(
        hook, run, [(output.system, str(output.facts["path"])) for output in written if "path" in output.facts]
    )


def _console(hook: SamzaHook, run: RunPlan, places: Iterable[tuple[str, str]]) -> str:
    """Return the console of the first of several places (system, and a path below its root or a whole one)."""
    with suppress(SamzaError, OSError):  # no link is worth a task
        bindings = run_bindings(run.systems, hook.bindings())
        for system, path in places:
            options = dict(bindings[system].options) if system in bindings else {}
            root = str(options.pop("root", ""))
            whole = path if "://" in path or path.startswith("/") else f"{root.rstrip('/')}/{path}"
            found = console_address(whole, options)
            if found:
                return found
    return ""

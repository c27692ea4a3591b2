"""The XCom of tasks that ran stages: counts and places, without long lists.

Stage operators push it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_samza.records import plain
from airflow_samza.runs.progress.run_costs import range_facts
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult, new_results, run_seconds

LONGEST_LIST = 50
"""Files of an output beyond this many are left out of the XCom."""


def summary(run: RunPlan, results: Iterable[StageResult]) -> dict[str, Any]:
    """Return the XCom of stages, by stream: inputs with their ranges, and outputs with rows and places.

    ``seconds`` is the time in which at least one of the stages was at work, without those that keep a former result;
    ``bytes`` of inputs are those in memory.
    """
    stage_results = list(results)
    outputs = [output for result in stage_results for output in result.outputs]
    inputs = [read for result in stage_results for read in result.inputs]
    return {
        "run_id": run.run_id,
        "stages": [result.stage_id for result in stage_results],
        "generation": stage_results[-1].generation if stage_results else None,
        "seconds": round(run_seconds(run, new_results(stage_results)), 3),
        "read": {
            read.stream_id: {"messages": read.messages, "control": read.control, "bytes": read.bytes} for read in inputs
        },
        "slices": {
            read.stream_id: range_facts(run, read.stream_id) for read in inputs if not run.is_own(read.stream_id)
        },
        "rows": {output.stream_id: output.messages for output in outputs},
        "outputs": {
            output.stream_id: {
                "system": output.system,
                "stream": output.stream,
                "control": output.control,
                "bytes": output.bytes,
                **({"expectations": [plain(each) for each in output.expectations]} if output.expectations else {}),
                **({"held": True} if output.held else {}),
                **_short_facts(output.facts),
            }
            for output in outputs
        },
    }


def _short_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a system's facts without long lists: XComs lie in Airflow's database."""
    short: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, list | tuple) and len(value) > LONGEST_LIST:
            short[name] = [*value[:LONGEST_LIST]]
            short[f"{name}_left_out"] = len(value) - LONGEST_LIST
        else:
            short[name] = value
    return short

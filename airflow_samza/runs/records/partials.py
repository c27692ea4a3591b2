"""Names of the partial results of data intervals, which later runs read instead of the files (decision 117).

A file holds what one task sends of one partition of an interval to one topic. Its name is a digest of all that this
follows from, so it is written once, by whoever comes first, and never out of date; who misses it computes it. The stage
runner writes and reads them, the plan step names them, and a sweep deletes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from airflow_samza.runs.records.run_plan import RunPlan

KEPT = "kept_results"
"""The key of an input range under which it names the files, by stage: their ``folder``, and by interval the name for
each partition ("": nothing of it lies there).
"""


def partial_path(folder: str, name: str, output: int) -> str:
    """Return the path of what goes to one of a stage's outputs, by its number."""
    return f"{folder}/{name}-{output}.arrow"


def kept_by(run: RunPlan) -> Iterator[Mapping[str, Any]]:
    """Yield what the input ranges of a run say about partial results, stage by stage."""
    for stream in run.streams.values():
        yield from ((stream.slice or {}).get(KEPT) or {}).values()


def kept_paths(run: RunPlan) -> set[str]:
    """Return the paths, without the number of the output, of all partial results that a run reads or leaves."""
    return {f"{kept['folder']}/{name}" for kept in kept_by(run) for names in kept["names"] for name in names if name}

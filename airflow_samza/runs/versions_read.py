"""Which versions of pushed tables an epoch reads, by what its intent names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.runs.epoch_records import Intent
from airflow_samza.runs.run_plan import RunPlan
from airflow_samza.runs.table_versions import TableVersion, versions
from airflow_samza.systems.filesystem import Filesystem


def versions_read(files: Filesystem, run: RunPlan, intent: Intent) -> dict[str, int]:
    """The version that each pushed table of an epoch holds, by table; none that is not known any more."""
    found = {}
    for table_id, pinned in run.tables.items():
        read = intent.side_inputs.get(pinned["stream_id"])
        if read is not None:
            bound = run.side_input(pinned["stream_id"])
            number = number_of(read.slice, versions(files, bound.system, bound.spec.name))
            if number:
                found[table_id] = number
    return found


def number_of(slice_: Mapping[str, Any], known: Sequence[TableVersion]) -> int:
    """The newest version that consists of just what a slice reads; 0: none."""
    read = [(section["producer"], section["generation"]) for section in slice_.get("sections", ())]
    return next((version.number for version in reversed(known) if list(version.sections) == read), 0) if read else 0

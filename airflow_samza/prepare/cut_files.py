"""Files that several tasks read parts of, behind an operator that assumes that each key lies in one partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.operator_spec import KeyedSpec
from airflow_samza.errors import PartitioningMismatch, PlanError
from airflow_samza.planner.join_groups import streams_arriving
from airflow_samza.planner.paths import operator_label
from airflow_samza.planner.wording import partition_before
from airflow_samza.runs.records.run_plan import BoundStream


def reject_cut_files(spec: ApplicationSpec, streams: Mapping[str, BoundStream]) -> list[PlanError]:
    """Return an error for each operator with ``assume_partitioned_by`` that reads a file in several partitions."""
    errors: list[PlanError] = []
    for op in spec.operators:
        if not isinstance(op, KeyedSpec) or not op.assume_partitioned_by:
            continue
        for stream_id in streams_arriving(op):
            path = _file_in_parts(streams[stream_id].slice or {}) if stream_id in spec.inputs else None
            if path is not None:
                errors.append(
                    PartitioningMismatch(
                        f"{operator_label(op)} has assume_partitioned_by=, and several partitions read parts of the "
                        f"file {path} of {stream_id!r}: the rows of one key may lie in several of them.",
                        hint=f"{partition_before(op.key)}; or give {stream_id!r} fewer partitions, or smaller files.",
                        operator=op.op_id,
                        key=op.key,
                        stream=stream_id,
                        location=str(op.location) if op.location else None,
                    )
                )
    return errors


def _file_in_parts(slice_: Mapping[str, Any]) -> str | None:
    """Return the path of a file of a slice of which several partitions read parts; None: there is none."""
    splits: Sequence[Sequence[Sequence[Any]]] = slice_.get("splits", ())
    read: set[int] = set()
    for of_partition in splits:
        files = {int(split[0]) for split in of_partition}
        if read & files:
            return str(slice_["files"][min(read & files)]["path"])
        read |= files
    return None

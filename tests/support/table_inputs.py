"""Inputs that read a table, whatever its kind: their streams, and the rows that tasks read of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.systems.system import ColumnBound, MessageRun, StreamSpec, SystemStreamPartition


def stream(
    table: str = "web.views", *, partitions: int | None = 1, schema: str | None = None, **options: str
) -> StreamSpec:
    """Return an input that reads a table."""
    said = tuple({"table": table, **options}.items())
    return StreamSpec("views", partitions=partitions, schema=schema, options=said)


def rows_of(
    system: Any,
    spec: StreamSpec,
    bounds: Sequence[ColumnBound] = (),
    columns: Sequence[str] | None = None,
    range_: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return the rows of an input, which its range holds, as a task reads them: the range goes through JSON."""
    fixed = json.loads(json.dumps(range_ if range_ is not None else system.slice_within(spec, bounds)))
    consumer = system.consumer(spec, fixed)
    rows: list[dict[str, Any]] = []
    for partition in range(fixed["partitions"]):
        for envelope in consumer.read(SystemStreamPartition("lake", "views", partition), None, columns, bounds):
            if isinstance(envelope, MessageRun):
                rows += envelope.batch.to_pylist()
    return rows

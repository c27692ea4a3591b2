"""Model of a stream join, in plain Python: every pair looked at. And a join operator to run beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza import stream_application
from airflow_samza.application.operator_specs import StreamJoinSpec
from airflow_samza.task.operators.stream_join.operator import StreamJoin

KINDS = ("inner", "left", "right", "full")


def join_spec(
    how: str,
    ttl_ms: int,
    key: Sequence[str],
    left: str,
    right: str,
    *,
    timestamps: bool = True,
    function: Any = None,
    schema: Any = None,
) -> StreamJoinSpec:
    """A join of streams ``left`` and ``right`` (DDL) by columns that the right stream calls ``r_…``.

    Times are ``at`` and ``r_at``.
    """
    right_key = [f"r_{column}" for column in key]

    @stream_application("joining")
    def joining(app: Any) -> None:
        one = app.input_stream("left", schema=left, key=list(key), timestamp="at" if timestamps else None)
        other = app.input_stream("right", schema=right, key=right_key, timestamp="r_at" if timestamps else None)
        joined = one.join(
            other,
            function,
            id="joined",
            how=how,
            ttl=ttl_ms,
            left_key=list(key),
            right_key=right_key,
            **({"schema": schema} if schema else {}),
        )
        joined.send_to(app.output_stream("joined"))

    return next(operator for operator in joining.spec().operators if isinstance(operator, StreamJoinSpec))


def make_join(spec: StreamJoinSpec, clock: Callable[[], int] = lambda: 0) -> StreamJoin:
    """The operator, started."""
    left, right = (source.schema for source in spec.inputs)
    assert left is not None
    assert right is not None
    assert spec.schema is not None
    made = StreamJoin(spec, left, right, spec.schema, clock)
    made.start()
    return made


def joined_rows(
    spec: StreamJoinSpec, left: Sequence[dict[str, Any]], right: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the output of a bounded run; times are ms."""
    one_schema, other_schema = (source.schema for source in spec.inputs)
    assert one_schema is not None
    assert other_schema is not None
    added = [name for name in other_schema.names if name not in spec.right_key]
    found = []
    met: set[int] = set()
    for one in left:
        partners = [place for place, other in enumerate(right) if _meet(spec, one, other)]
        met.update(partners)
        found += [{**one, **{name: right[place][name] for name in added}} for place in partners]
        if not partners and spec.how in ("left", "full"):
            found.append({**one, **dict.fromkeys(added)})
    if spec.how in ("right", "full"):
        for place, other in enumerate(right):
            if place not in met:
                keys = {mine: other[theirs] for mine, theirs in zip(spec.left_key, spec.right_key, strict=True)}
                found.append({**dict.fromkeys(one_schema.names), **keys, **{name: other[name] for name in added}})
    return found


def _meet(spec: StreamJoinSpec, one: dict[str, Any], other: dict[str, Any]) -> bool:
    pairs = [(one[mine], other[theirs]) for mine, theirs in zip(spec.left_key, spec.right_key, strict=True)]
    if any(a is None or b is None or not _same(a, b) for a, b in pairs):
        return False
    if spec.left_time is None or spec.right_time is None:
        return True
    times = one[spec.left_time], other[spec.right_time]
    return None not in times and abs(times[0] - times[1]) <= spec.ttl_ms


def _same(one: Any, other: Any) -> bool:
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or bool(one == other)


def batch_of(rows: Sequence[dict[str, Any]], spec: StreamJoinSpec, side: int) -> pa.RecordBatch:
    """Messages of one side."""
    schema = spec.inputs[side].schema
    assert schema is not None
    return pa.RecordBatch.from_pylist(list(rows), schema=schema.to_arrow())


def in_order(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Rows as a multiset that can be compared."""
    return sorted(repr(sorted(row.items())) for row in rows)

"""The stores of a task's tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.schema import Schema
from airflow_samza.task.loop.task_tables import empty_store
from tests.support.planner_applications import ROW, keyed, left, spec_of


@pytest.mark.parametrize(
    ("timed", "by_event_time"), [(("a", "b"), True), (("a",), False), (("b",), False), ((), False)]
)
def test_rows_live_by_event_time_only_where_all_users_of_a_table_have_one(
    timed: tuple[str, ...], by_event_time: bool
) -> None:
    def describe(app: Any) -> None:
        table = app.local_table("t", key="k", schema=ROW, ttl="1 hour")
        writer, reader = (keyed(app, name, timestamp="at" if name in timed else None) for name in ("a", "b"))
        writer.send_to(table)
        reader.join(table, left, schema=ROW, id="look-up").sink(print)

    spec = spec_of(describe)
    program: Any = SimpleNamespace(
        spec=spec,
        tables={"t": Schema.of(ROW)},
        operators={op.op_id: SimpleNamespace(spec=op) for op in spec.operators},
    )
    assert empty_store(program, "t").by_event_time == by_event_time

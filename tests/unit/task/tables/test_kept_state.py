"""State whose columns have other types than its operator's, where only Spark could tell them.

One sentence, no error of Arrow's.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import max_, stream_application
from airflow_samza.application.operator_specs import AggregateSpec
from airflow_samza.errors import StateError
from airflow_samza.schema import Schema
from airflow_samza.task.operators.aggregation.aggregate import Aggregate


@stream_application("kept")
def kept(app: Any) -> None:
    rows = app.input_stream("rows", schema="member bigint, v string")
    rows.aggregate("member", top=max_("v"), id="tops").send_to(app.output_stream("out"))


def aggregate(kind: str, value: object) -> Aggregate:
    spec = next(op for op in kept.spec().operators if isinstance(op, AggregateSpec))
    inputs = Schema.of(f"member bigint, v {kind}")
    made = Aggregate(spec, inputs, Schema.of(f"member bigint, top {kind}"))
    made.process(pa.RecordBatch.from_arrays([pa.array([1]), pa.array([value])], schema=inputs.to_arrow()))
    return made


def test_rejects_state_of_another_type_that_only_the_stage_can_tell() -> None:
    other = aggregate("date", None)
    other.restore(aggregate("string", "b").snapshot())
    with pytest.raises(
        StateError, match=r"The state that was kept of aggregate 'tops' does not fit it any more: .*string.*date"
    ):
        list(other.flush())


def test_goes_on_from_state_of_the_same_type() -> None:
    later = aggregate("string", "a")
    later.restore(aggregate("string", "b").snapshot())
    assert [row for batch in later.flush() for row in batch.to_pylist()] == [{"member": 1, "top": "b"}]

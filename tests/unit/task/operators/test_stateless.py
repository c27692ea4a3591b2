"""Functions of whole batches: what they may return, and what is rejected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.errors import SamzaError
from airflow_samza.testing import TestDriver

ROWS = [{"n": n} for n in range(5)]
EMPTY = pa.RecordBatch.from_pydict({"n": pa.array([], pa.int64())})


def run(function: Any) -> list[int]:
    @stream_application("batches")
    def application(app: Any) -> None:
        read = app.input_stream("rows", schema="n bigint")
        read.map_batches(function, schema="n bigint").send_to(app.output_stream("out"))

    return [row.n for row in TestDriver(application).pipe("rows", ROWS).run().output("out")]


def in_pieces(batch: pa.RecordBatch) -> Iterator[Any]:
    yield batch.slice(0, 2)
    yield pa.Table.from_batches([batch.slice(2)])


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: batch,
        lambda batch: pa.Table.from_batches([batch.slice(0, 2), batch.slice(2)]),
        lambda batch: [batch.slice(0, 2), batch.slice(2)],
        in_pieces,
    ],
    ids=["a batch", "a table", "a list", "a generator"],
)
def test_batches_may_be_returned_whole_or_in_pieces(function: Any) -> None:
    assert run(function) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("function", [lambda batch: [], lambda batch: EMPTY, lambda batch: iter(())])
def test_a_function_may_return_no_messages(function: Any) -> None:
    assert run(function) == []


@pytest.mark.parametrize("result", [None, 5, "", "text", b"", {}, {"n": [1]}], ids=repr)
def test_what_is_no_batch_is_rejected_as_it_is(result: Any) -> None:
    with pytest.raises(SamzaError, match=r"a pyarrow\.RecordBatch or an iterable of them") as raised:
        run(lambda batch: result)
    assert repr(result) in raised.value.sentence or type(result).__name__ in raised.value.sentence


@pytest.mark.parametrize("part", [None, 5, "text", {"n": 1}], ids=repr)
def test_pieces_that_are_no_batches_are_rejected(part: Any) -> None:
    with pytest.raises(SamzaError, match=r"a pyarrow\.RecordBatch or an iterable of them"):
        run(lambda batch: [batch, part])


def test_an_error_in_the_middle_of_a_generator_names_the_function() -> None:
    def failing(batch: pa.RecordBatch) -> Iterator[Any]:
        yield batch
        raise ZeroDivisionError("by zero")

    with pytest.raises(SamzaError, match=r"failing.* ZeroDivisionError: by zero"):
        run(failing)

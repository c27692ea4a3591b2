"""Tables of bytes in Spark's workers: bytes go into topics as messages, and messages to writers as bytes.

No Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.spark.staging_tasks import PLACE_COLUMN, ReadTask, WriteTask
from airflow_samza.systems.system import Publication, StreamSpec
from tests.support.runs_here import Here

SCHEMA = "id bigint, country string"


def bytes_of(*values: bytes | None, **more: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **more})


@pytest.mark.parametrize(("key", "more"), [((), {PLACE_COLUMN: [1, 0]}), (("id",), {})])
def test_bytes_are_decoded_before_they_find_their_partition_and_encoded_when_they_leave(
    tmp_path: Path, key: tuple[str, ...], more: dict[str, list[int]]
) -> None:
    here = Here(tmp_path)
    here.log.create([StreamSpec("t", 2, SCHEMA)])
    task = ReadTask(str(tmp_path), "t", SCHEMA, key, 2, "stage", "views", "json")
    staged = task._stage(iter([bytes_of(b'{"id": 1, "country": "NL"}', b'{"id":2}', **more)]), "attempt")
    here.log.publish(StreamSpec("t", 2, SCHEMA), Publication("p", "1.1", 0, {0: staged}))
    assert sorted(row["id"] for row in here.rows("t")) == [1, 2]
    slice_ = here.log.slice(StreamSpec("t", 2, SCHEMA))
    if not key:
        assert slice_["offsets"] == [[0, 1], [0, 1]]
    parts = tuple((partition, start, end) for partition, (start, end) in enumerate(slice_["offsets"]))
    writer = WriteTask(str(tmp_path), "t", 2, slice_, parts, "stage", "out", "json")
    sent = [batch for part in parts for batch in writer._rows(*part)]
    assert {name for batch in sent for name in batch.schema.names} == {"value"}
    assert sorted(value for batch in sent for value in batch.column("value").to_pylist()) == [
        b'{"id":1,"country":"NL"}',
        b'{"id":2,"country":null}',
    ]


def test_bytes_that_are_no_message_name_the_stream(tmp_path: Path) -> None:
    Here(tmp_path).log.create([StreamSpec("t", 1, SCHEMA)])
    task = ReadTask(str(tmp_path), "t", SCHEMA, (), 1, "stage", "views", "json")
    with pytest.raises(SchemaError, match="A message of 'views' cannot be read by its serde: it has no value"):
        task._stage(iter([bytes_of(b'{"id": 1}', None)]), "attempt")

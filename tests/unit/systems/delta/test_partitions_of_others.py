"""Partitions of a Delta table whose values another writer has put into the log as other texts."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.delta_lake import append
from tests.support.delta_outputs import Output, made_output
from tests.support.table_outputs import output_stream

CASES = [
    ("timestamp", "2026-01-01T05:00:00.000000Z", "2026-01-01 05:00:00", "2026-01-01 06:00:00"),
    ("timestamp", "2026-01-01T05:00:00.000000Z", "2026-01-01T05:00:00Z", "2026-01-01T05:00:00.5Z"),
    ("timestamp", "2026-01-01T05:00:00.000000Z", "2026-01-01T07:00:00+02:00", "2026-01-01T05:00:00+02:00"),
    ("decimal(9,2)", "1.50", "1.5", "1.05"),
    ("bigint", "7", "007", "70"),
    ("boolean", "true", "TRUE", "false"),
]


@pytest.mark.parametrize(("kind", "ours", "theirs", "another"), CASES)
def test_a_partition_is_replaced_whatever_text_another_writer_has_put_for_its_value(
    kind: str, ours: str, theirs: str, another: str, tmp_path: Path
) -> None:
    made_output(tmp_path, f"id bigint, part {kind}", partition_by="part")
    output = Output(tmp_path, output_stream(mode="replace partitions"))
    schema = pa.schema(output.table().schema().to_arrow())
    (value,) = pa.array([ours]).cast(schema.field("part").type).to_pylist()
    for number in (8, 9):
        append(output.table(), [{"id": number, "part": value}], schema)
    for version, text in ((1, theirs), (2, another)):
        said_otherwise(output, version, text)
    output.publish([{"id": 1, "part": value}])
    assert sorted(row["id"] for row in output.rows()) == [1, 9]


def said_otherwise(output: Output, version: int, text: str) -> None:
    """Have a commit of the log give another text for the partition of its file."""
    commit = output.place / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            action["add"]["partitionValues"]["part"] = text
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))

"""Tables that map their columns, written: files by physical names and field ids, whatever names columns have now."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import SchemaError, TopicError
from airflow_samza.systems.system import ColumnBound, StreamSpec
from tests.support.delta_lake import HandMade, mapped
from tests.support.delta_outputs import Output, made_output
from tests.support.slotted import day
from tests.support.table_outputs import output_stream

NUMBER, PHYSICAL = "delta.columnMapping.id", "delta.columnMapping.physicalName"
TYPES = (
    "id bigint, `a b;` string, day date, st struct<a:int,b:struct<c:string>>, "
    "ar array<struct<x:int,y:map<string,struct<z:bigint>>>>, at timestamp"
)
ROW = {
    "id": 1,
    "a b;": "text",
    "day": date(2026, 11, 1),
    "st": {"a": 2, "b": {"c": "deep"}},
    "ar": [{"x": 3, "y": [("k", {"z": 4})]}, None],
    "at": None,
}
NOTHING = {name: 9 if name == "id" else None for name in ROW}


@pytest.fixture(params=["name", "id"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def logged(output: Output, kind: str) -> list[dict[str, Any]]:
    """Return the actions of a kind in the log, in their order."""
    files = sorted((output.place / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [action[kind] for action in actions if kind in action]


def fields_of(output: Output) -> list[dict[str, Any]]:
    return list(json.loads(logged(output, "metaData")[-1]["schemaString"])["fields"])


def in_log(name: str, kind: Any, metadata: Mapping[str, Any] | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the physical name and the number of a field of the log, and of all fields within it."""
    if metadata is not None:
        yield metadata[PHYSICAL], metadata[NUMBER]
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield from in_log(field["name"], field["type"], field["metadata"])
        for inner in ("elementType", "keyType", "valueType"):
            yield from in_log(inner, kind.get(inner))


def in_file(field: pa.Field) -> Iterator[tuple[str, Any]]:
    """Yield the name and the field id of a column of a file, and of all fields of structs within it."""
    if number := (field.metadata or {}).get(b"PARQUET:field_id"):
        yield field.name, int(number)
    for place in range(field.type.num_fields):
        yield from in_file(field.type.field(place))


def alter(output: Output, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """Commit another schema, as ALTER TABLE does."""
    metadata = logged(output, "metaData")[-1]
    fields = json.loads(metadata["schemaString"])["fields"]
    change(fields)
    metadata["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    version = len(list((output.place / "_delta_log").glob("*.json")))
    (output.place / f"_delta_log/{version:020}.json").write_text(json.dumps({"metaData": metadata}))


def test_files_statistics_and_partitions_go_by_what_the_log_names_fields(tmp_path: Path, mode: str) -> None:
    output = made_output(tmp_path, TYPES, partition_by="day", **{"delta.columnMapping.mode": mode})
    output.publish([ROW, NOTHING])
    assert sorted(output.rows(), key=lambda row: int(row["id"])) == [ROW, NOTHING]
    assert sorted(output.scanned(), key=lambda row: int(row["id"])) == [ROW, NOTHING]
    physical = {field["name"]: field["metadata"][PHYSICAL] for field in fields_of(output)}
    names = [name for field in fields_of(output) for name in in_log(field["name"], field["type"], field["metadata"])]
    assert sorted(number for _, number in names) == list(range(1, 13))
    (metadata,) = logged(output, "metaData")
    assert metadata["configuration"]["delta.columnMapping.maxColumnId"] == "12"
    assert len({name for name, _ in names} - set(physical)) == 12
    for added in logged(output, "add"):
        schema = pq.read_schema(output.place / added["path"])
        assert [one for field in schema for one in in_file(field)] == [
            one for one in names if one[0] != physical["day"]
        ]
        assert list(added["partitionValues"]) == [physical["day"]]
        stats = json.loads(added["stats"])
        assert set(stats["nullCount"]) == {physical[name] for name in ("id", "a b;", "at")}
        assert set(stats["minValues"]) == set(stats["maxValues"]) <= set(stats["nullCount"])
    reader = StreamSpec("in", partitions=1, options=(("table", "web.out"),))
    for column, value, files in (("id", 1, 1), ("id", 2, 0), ("a b;", "text", 1), ("day", date(2026, 11, 1), 1)):
        assert len(output.system.slice_within(reader, [ColumnBound(column, "=", value)])["files"]) == files


def theirs(folder: Path, mode: str, **options: str) -> Output:
    """Return an output to a table of others, whose columns were renamed and of which one was dropped."""
    table = HandMade(
        folder,
        [
            mapped("n", "long", 7, "id"),
            mapped("id", "long", 2, "col-2"),
            mapped("part", "string", 3, "p"),
            mapped(
                "in", {"type": "struct", "fields": [mapped("x", "long", 6, "y"), mapped("y", "long", 5, "x")]}, 4, "s"
            ),
            mapped("run", "string", 8, "col-8"),
        ],
        partitions=["part"],
        reader=2,
        name="web.out",
        configuration={"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "8"},
    )
    table.protocol["minWriterVersion"] = 5
    table.begin()
    return Output(folder, output_stream(**options))


def test_messages_go_by_the_names_that_columns_have_now(tmp_path: Path, mode: str) -> None:
    output = theirs(tmp_path, mode)
    row = {"n": 1, "id": 2, "part": "a", "in": {"x": 3, "y": 4}, "run": None}
    output.publish([row])
    assert output.rows() == output.scanned() == [row]
    with pytest.raises(SchemaError, match="has no column 'col-2'"):
        output.stage(pa.RecordBatch.from_pylist([{"col-2": 1}]))


def rows_in(part: str, *numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "part": part} for number in numbers]


def drop(fields: list[dict[str, Any]]) -> None:
    del fields[1]


def rename(fields: list[dict[str, Any]]) -> None:
    fields[0]["name"], fields[1]["name"] = fields[1]["name"], fields[0]["name"]
    inner = fields[3]["type"]["fields"]
    inner[0]["name"], inner[1]["name"] = inner[1]["name"], "z"


def test_columns_may_be_renamed_after_the_plan_and_not_dropped(tmp_path: Path, mode: str) -> None:
    output = theirs(tmp_path, mode)
    row = {"n": 1, "id": 2, "part": "a", "in": {"x": 3, "y": 4}, "run": None}
    works = [output.publication([row], stage=stage) for stage in ("first", "second")]
    alter(output, rename)
    output.system.publish(output.spec, works[0])
    renamed = {"id": 1, "n": 2, "part": "a", "in": {"y": 3, "z": 4}, "run": None}
    assert output.rows() == output.scanned() == [renamed]
    alter(output, drop)
    with pytest.raises(TopicError, match=r"has no column 'id' any more since the run was planned"):
        output.system.publish(output.spec, works[1])
    del renamed["n"]
    assert output.rows() == output.scanned() == [renamed]


def compact(output: Output) -> None:
    """Put all files of a partition into one, as OPTIMIZE does."""
    live: dict[str, dict[str, Any]] = {}
    for action in logged(output, "add"):
        live[action["path"]] = action
    for action in logged(output, "remove"):
        live.pop(action["path"], None)
    version = len(list((output.place / "_delta_log").glob("*.json")))
    tables = [pq.ParquetFile(output.place / path).read() for path in live]
    pq.write_table(pa.concat_tables(tables), output.place / f"packed-{version}.parquet")
    added = {**next(iter(live.values())), "path": f"packed-{version}.parquet", "dataChange": False, "stats": None}
    actions: list[dict[str, Any]] = [{"remove": {"path": path, "dataChange": False}} for path in live]
    lines = [json.dumps(one) for one in [*actions, {"add": added}]]
    (output.place / f"_delta_log/{version:020}.json").write_text("\n".join(lines))


def test_rows_are_replaced_by_files_by_partitions_and_by_the_column_of_runs(tmp_path: Path, mode: str) -> None:
    output = theirs(tmp_path, mode, run_column="run")
    output.publish(rows_in("a", 1, 2), slot=day(1))
    output.publish(rows_in("a", 3), run="tuesday", slot=day(2))
    output.publish(rows_in("a", 4), slot=day(1), generation="1.2")
    assert output.ids() == [3, 4]
    output.foreign({"id": 9, "part": "c"})
    assert output.ids() == [3, 4, 9]
    output.table().delete("id = 9")
    compact(output)
    output.publish(rows_in("a", 5), run="backfill", slot=day(1))
    assert output.ids() == [3, 5]
    output.publish(rows_in("b", 6), run="wednesday", slot=day(3))
    by_partition = Output(tmp_path, output_stream(mode="replace partitions"))
    by_partition.publish(rows_in("a", 7), run="month", slot=day(4))
    assert output.ids() == [6, 7]


def test_checkpoints_keep_what_commits_say_of_mapped_tables(tmp_path: Path, mode: str) -> None:
    properties = {"delta.columnMapping.mode": mode, "delta.checkpointInterval": "2"}
    output = made_output(tmp_path, partition_by="part", **properties)
    for epoch in range(5):
        output.publish(rows_in("a", epoch), epoch=epoch)
    for path in (output.place / "_delta_log").glob("*[0-3].json"):
        path.unlink()
    assert output.ids() == [0, 1, 2, 3, 4]
    output.publish(rows_in("a", 7), generation="1.2")
    assert output.ids() == [7]

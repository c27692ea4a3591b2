"""Upserts of tables: races, lost answers, files that stay, rows that others have deleted, and what is rejected."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.types import LongType, StringType

from airflow_samza.errors import ConfigError, SamzaError, SchemaError, TopicError
from airflow_samza.schema import Schema
from airflow_samza.systems.delta.publishing import _Publisher as DeltaPublisher
from airflow_samza.systems.iceberg.publishing import _Publisher as IcebergPublisher
from airflow_samza.systems.system import ColumnBound
from airflow_samza.systems.tables import publishing
from airflow_samza.systems.tables.upserts import Upserts
from tests.support import iceberg_lake
from tests.support.table_kinds import KINDS
from tests.support.table_outputs import output_stream

PUBLISHERS: dict[str, Any] = {"delta": DeltaPublisher, "iceberg": IcebergPublisher}
COLUMNS = "id bigint, v string"

pytestmark = pytest.mark.parametrize("kind", ["delta", "iceberg"])


def output_of(kind: str, folder: Path, schema: str = COLUMNS, key: tuple[str, ...] = ("id",), **options: str) -> Any:
    spec = output_stream(schema=schema, **{"create": "true", "mode": "upsert", **options})
    output = KINDS[kind](folder, dataclasses.replace(spec, key=key))
    output.system.create([output.spec])
    return output


def batch(*rows: tuple[int | None, str | None] | int, schema: str = COLUMNS) -> pa.RecordBatch:
    """Return changes: (id, v) is a row, and a number the key of one that is gone."""
    columns = Schema.of(f"{schema}, _deleted boolean").to_arrow()
    made = [
        {"id": row, "v": None, "_deleted": True} if isinstance(row, int) else {"id": row[0], "v": row[1]}
        for row in rows
    ]
    return pa.RecordBatch.from_pylist(made, schema=columns)


def rows_of(output: Any) -> list[tuple[int, str]]:
    ours, theirs = (sorted((row["id"], row["v"]) for row in rows) for rows in (output.rows(), output.scanned()))
    assert ours == theirs
    return ours


def files_in(folder: Path) -> set[Path]:
    return set(folder.rglob("samza-*.parquet"))


def live_files(kind: str, output: Any) -> set[str]:
    if kind == "delta":
        return {Path(path).name for path in output.table().file_uris()}
    return {task.file.file_path.rpartition("/")[2] for task in output.table().scan().plan_files()}


def test_of_an_epoch_the_last_change_of_a_key_counts(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b"), 2, (1, "c"), 3, (3, "d")))
    assert rows_of(output) == [(1, "c"), (3, "d")]
    output.publish(batch(1, 9, (3, "e")), epoch=1)
    assert rows_of(output) == [(3, "e")]
    assert {path.name for path in files_in(tmp_path)} >= live_files(kind, output)
    assert len(files_in(tmp_path)) == 2, "a file for each epoch, and no staged changes"


def test_only_files_with_rows_of_the_keys_are_written_anew(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    (first,) = live_files(kind, output)
    facts = output.publish(batch((5, "c"), (6, "d")), epoch=1)
    assert facts["superseded"] == []
    read = mock.Mock(side_effect=PUBLISHERS[kind].rows_of, autospec=True)
    with mock.patch.object(PUBLISHERS[kind], "rows_of", lambda self, *args: read(self, *args)):
        facts = output.publish(batch((6, "e")), epoch=2)
    assert len({call.args[2].path for call in read.call_args_list}) == 1
    assert len(facts["superseded"]) == 1
    assert first in live_files(kind, output)
    assert rows_of(output) == [(1, "a"), (2, "b"), (5, "c"), (6, "e")]


def test_changes_of_no_row_make_no_file(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch(1, 2))
    output.publish(batch(), epoch=1)
    assert rows_of(output) == []
    assert not files_in(tmp_path)
    output.publish(batch((1, "a")), epoch=2)
    assert rows_of(output) == [(1, "a")]


@contextmanager
def once(kind: str, act: Callable[[], object]) -> Iterator[None]:
    """Have something happen between the look at a table and the first commit from it."""
    commit, acts = PUBLISHERS[kind].commit, [act]

    def committing(self: Any, *args: Any) -> Any:
        if acts:
            acts.pop()()
        return commit(self, *args)

    with mock.patch.object(PUBLISHERS[kind], "commit", committing):
        yield


def test_a_race_is_run_again_from_the_state_that_the_other_has_left(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    other = output.publication(batch((2, "other"), (4, "d")), run="other")
    with once(kind, lambda: output.system.publish(output.spec, other)):
        output.publish(batch((1, "mine"), 2), epoch=1)
    assert rows_of(output) == [(1, "mine"), (4, "d")]
    live = live_files(kind, output)
    assert len(files_in(tmp_path)) == len(live) + 2, "what the lost try has written is gone; two were replaced"


def test_two_processes_publish_an_epoch_once(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a")))
    work = output.publication(batch((1, "b"), (2, "c")), epoch=1)
    with once(kind, lambda: output.system.publish(output.spec, work)):
        output.system.publish(output.spec, work)
    state = live_files(kind, output)
    output.system.publish(output.spec, work)
    assert live_files(kind, output) == state
    assert rows_of(output) == [(1, "b"), (2, "c")]


def test_an_answer_that_is_lost_is_looked_up(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    commit, lost = PUBLISHERS[kind].commit, [True]

    def committing(self: Any, *args: Any) -> Any:
        committed = commit(self, *args)
        if lost:
            lost.pop()
            raise OSError("connection reset")
        return committed

    with mock.patch.object(PUBLISHERS[kind], "commit", committing):
        output.publish(batch((1, "c"), 2), epoch=1)
    assert rows_of(output) == [(1, "c")]
    assert len(live_files(kind, output)) == 1


def test_a_try_that_fails_leaves_no_files(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a")))
    before = files_in(tmp_path)
    work = output.publication(batch((1, "b")), epoch=1)
    staged = files_in(tmp_path) - before
    with (
        mock.patch.object(PUBLISHERS[kind], "commit", side_effect=OSError("no")),
        mock.patch.object(publishing, "UNKNOWN_TRIES", 2),
        mock.patch("time.sleep"),
        pytest.raises((OSError, SamzaError), match="no"),
    ):
        output.system.publish(output.spec, work)
    assert len(files_in(tmp_path) - before - staged) <= 1, "but for those of the last try, which may have landed"
    output.system.publish(output.spec, work)
    assert rows_of(output) == [(1, "b")]


def test_rows_that_others_have_deleted_do_not_come_back(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b"), (3, "c")))
    if kind == "delta":
        output.table().delete("id = 2")
    else:
        (task,) = output.table().scan().plan_files()
        iceberg_lake.delete_positions(output.table(), {task.file.file_path: [1]})
    assert rows_of(output) == [(1, "a"), (3, "c")]
    output.publish(batch((3, "d")), epoch=1)
    assert rows_of(output) == [(1, "a"), (3, "d")]


def test_a_higher_generation_upserts_again_and_a_lower_one_no_more(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    former = output.publication(batch((9, "late")), epoch=1)
    output.publish(batch((1, "c")), generation="1.2")
    assert rows_of(output) == [(1, "c"), (2, "b")]
    with pytest.raises(TopicError):
        output.system.publish(output.spec, former)
    assert rows_of(output) == [(1, "c"), (2, "b")]


def test_a_table_that_got_a_column_while_changes_waited_is_upserted(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    output.publish(batch((1, "a"), (2, "b")))
    waiting = output.publication(batch((1, "c"), 2, (3, "d")), run="two")
    if kind == "iceberg":
        with output.table().update_schema() as update:
            update.add_column("more", StringType())
        iceberg_lake.append(output.table(), [{"id": 9, "v": "z", "more": "m"}])
    else:
        more = pa.table({"id": [9], "v": ["z"], "more": ["m"]})
        write_deltalake(output.table(), more, mode="append", schema_mode="merge")
    output.system.publish(output.spec, waiting)
    assert sorted((row["id"], row["v"], row["more"]) for row in output.scanned()) == [
        (1, "c", None),
        (3, "d", None),
        (9, "z", "m"),
    ]


def test_a_column_that_got_another_name_while_changes_waited_is_found_by_its_id(kind: str, tmp_path: Path) -> None:
    if kind == "delta":
        pytest.skip("columns of tables that are made have no ids")
    output = output_of(kind, tmp_path, "id int, v string")
    output.publish(batch((1, "a"), (2, "b"), schema="id int, v string"))
    waiting = output.publication(batch((1, "c"), 2, (3, "d"), schema="id int, v string"), run="two")
    later = output.publication(batch((1, "e"), schema="id int, v string"), run="three")
    with output.table().update_schema() as update:
        update.rename_column("id", "number")
        update.update_column("id", LongType())
        update.rename_column("v", "w")
    output.system.publish(output.spec, waiting)
    assert sorted((row["number"], row["w"]) for row in output.scanned()) == [(1, "c"), (3, "d")]
    with output.table().update_schema() as update:
        update.delete_column("number")
    with pytest.raises(TopicError, match="has no column 'id' any more, which is of the key"):
        output.system.publish(output.spec, later)


def test_a_required_column_may_be_missing_where_the_row_is_gone(kind: str, tmp_path: Path) -> None:
    schema = "id bigint not null, v string not null"
    output = output_of(kind, tmp_path, schema)
    output.publish(batch((1, "a"), (2, "b"), schema=COLUMNS))
    output.publish(batch(1), epoch=1)
    assert rows_of(output) == [(2, "b")]
    with pytest.raises(SchemaError, match=r"'v' of the table web\.out is required"):
        output.publish(batch((3, None)), epoch=2)


def test_a_message_without_its_key_is_rejected(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    with pytest.raises(SchemaError, match="of the key of the output 'out' is null"):
        output.publish(batch((None, "a")))


NESTED = "id bigint, v struct<a: int, b: struct<c: string>>, l array<struct<a: int>>, m map<string, struct<a: int>>"


def nested(*ids: int) -> pa.RecordBatch:
    columns = Schema.of(f"{NESTED}, _deleted boolean").to_arrow()
    row = {"v": {"a": 1, "b": {"c": "x"}}, "l": [{"a": 2}, None], "m": [("k", {"a": 3})]}
    made = [{"id": one, **row} for one in ids] + [{"id": 9, "v": None, "l": None, "m": None}]
    return pa.RecordBatch.from_pylist([*made, {"id": 8, "_deleted": True}], schema=columns)


def test_a_table_that_got_fields_within_structs_while_changes_waited_is_upserted(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path, NESTED)
    output.publish(nested(1, 8))
    waiting = output.publication(nested(1, 2), run="two")
    if kind == "iceberg":
        with output.table().update_schema() as update:
            for path in (("v", "new"), ("v", "b", "new"), ("l", "element", "new"), ("m", "value", "new")):
                update.add_column(path, StringType())
    else:
        within = {"a": 1, "new": "n"}
        row = {"id": 7, "v": {**within, "b": {"c": "x", "new": "n"}}, "l": [within], "m": [("k", within)]}
        fields = pa.struct([("a", pa.int32()), ("new", pa.string())])
        deep = pa.struct(
            [("a", pa.int32()), ("b", pa.struct([("c", pa.string()), ("new", pa.string())])), *[fields[1]]]
        )
        types = [("id", pa.int64()), ("v", deep), ("l", pa.list_(fields)), ("m", pa.map_(pa.string(), fields))]
        write_deltalake(
            output.table(), pa.Table.from_pylist([row], pa.schema(types)), mode="append", schema_mode="merge"
        )
    output.system.publish(output.spec, waiting)
    found = {row["id"]: row for row in output.scanned()}
    assert found.keys() == {1, 2, 9} | ({7} if kind == "delta" else set())
    for one in (1, 2):
        assert (found[one]["v"]["a"], found[one]["v"]["b"]["c"], found[one]["v"]["new"]) == (1, "x", None)
        assert found[one]["v"]["b"]["new"] is None
        assert [item and (item["a"], item["new"]) for item in found[one]["l"]] == [(2, None), None]
        assert [(key, value["a"], value["new"]) for key, value in dict(found[one]["m"]).items()] == [("k", 3, None)]
    assert (found[9]["v"], found[9]["l"] or None, found[9]["m"] or None) == (None, None, None)  # pyiceberg gives []


def test_fields_within_structs_that_got_other_names_while_changes_waited_are_found_by_their_ids(
    kind: str, tmp_path: Path
) -> None:
    if kind == "delta":
        pytest.skip("columns of tables that are made have no ids")
    output = output_of(kind, tmp_path, NESTED)
    output.publish(nested(1, 8))
    waiting = output.publication(nested(1, 2), run="two")
    with output.table().update_schema() as update:
        update.rename_column(("v", "a"), "was_a")
        update.update_column(("v", "a"), LongType())
        update.rename_column(("l", "element", "a"), "item")
        update.rename_column(("m", "value", "a"), "value_a")
        update.delete_column(("v", "b", "c"))
        update.add_column(("v", "b", "d"), StringType())
    with output.table().update_schema() as update:
        update.add_column(("v", "b", "c"), StringType())  # another one, of this name
    output.system.publish(output.spec, waiting)
    found = {row["id"]: row for row in output.scanned()}
    assert found.keys() == {1, 2, 9}
    for one in (1, 2):
        assert found[one]["v"] == {"was_a": 1, "b": {"d": None, "c": None}}
        assert found[one]["l"] == [{"item": 2}, None]
        assert dict(found[one]["m"]) == {"k": {"value_a": 3}}


def test_an_empty_key_is_rejected_where_it_would_be_a_null(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path, key=("v",), partition_by="v")
    if kind == "iceberg":
        output.publish(batch((1, ""), (2, "b")))
        output.publish(batch((3, "")), epoch=1)
        assert rows_of(output) == [(2, "b"), (3, "")]
    else:
        with pytest.raises(SchemaError, match=r"is empty in a message, and the table web\.out is partitioned by it"):
            output.publish(batch((1, ""), (2, "b")))


@pytest.mark.parametrize(
    ("schema", "key", "more", "error", "says"),
    [
        (COLUMNS, (), {}, ConfigError, "and no key"),
        (COLUMNS, ("nobody",), {}, SchemaError, "has no such column"),
        ("id double, v string", ("id",), {}, SchemaError, "no two of such values are surely the same"),
        (COLUMNS, ("id",), {"branch": "audit"}, ConfigError, "branch='audit'"),
        (COLUMNS, ("id",), {"run_column": "v"}, ConfigError, "run_column='v'"),
    ],
)
def test_a_wrong_declaration_is_rejected(
    kind: str, tmp_path: Path, schema: str, key: tuple[str, ...], more: dict[str, str], error: Any, says: str
) -> None:
    output = output_of(kind, tmp_path, schema)
    spec = dataclasses.replace(output.spec, key=key, options=tuple({**dict(output.spec.options), **more}.items()))
    with pytest.raises(error, match=says):
        output.system.fix_output(spec, None)


def test_a_table_with_a_column_for_the_mark_is_rejected(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path, f"{COLUMNS}, _deleted boolean", mode="append")
    spec = dataclasses.replace(output.spec, options=(("table", "web.out"), ("mode", "upsert")))
    with pytest.raises(SamzaError, match="has a column '_deleted'"):
        output.system.fix_output(spec, None)


def test_files_are_left_out_by_the_keys_or_their_bounds(kind: str) -> None:
    rng = random.Random(7)
    keys = [rng.randint(-5000, 5000) for _ in range(900)]
    columns = Schema.of("k bigint, t string, f timestamp, _deleted boolean").to_arrow()

    def bounds(ids: list[int]) -> list[ColumnBound]:
        rows = pa.Table.from_pylist([{"k": one, "t": str(one), "_deleted": False} for one in ids], schema=columns)
        return Upserts(rows, ("k", "t", "f")).bounds()

    assert bounds([2, 1, 2]) == [ColumnBound("k", "in", (1, 2)), ColumnBound("t", "in", ("1", "2"))]
    assert bounds(keys) == [ColumnBound("k", ">=", min(keys)), ColumnBound("k", "<=", max(keys))]


def test_small_files_of_many_epochs_are_merged(kind: str, tmp_path: Path) -> None:
    output = output_of(kind, tmp_path)
    with mock.patch("airflow_samza.systems.iceberg.expiry.YOUNG_SECONDS", -60):
        for number in range(23):
            output.publish(batch((number, "a")), run=f"run-{number // 2}", epoch=number % 2)
        assert rows_of(output) == [(number, "a") for number in range(23)]
        assert len(live_files(kind, output)) < 16
        output.publish(batch((3, "b"), 4), run="last")
    assert rows_of(output) == [(n, "b" if n == 3 else "a") for n in range(23) if n != 4]

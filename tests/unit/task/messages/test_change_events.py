"""Change events as messages: operations, images, what stands beside them, and what is none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import (
    SamzaError,
    StreamTask,
    change_events,
    dead_letter,
    debezium,
    stream_application,
    task_application,
)
from airflow_samza.errors import InvalidApplication, SchemaError, UnknownName
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.schema import Schema
from airflow_samza.systems.system import MessageRun, SystemStreamPartition
from airflow_samza.task.loop.reading import InputReading, TaskInput
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.program.stage_program import compile_stage
from airflow_samza.testing import TestDriver

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
ANY_FORM: Any = debezium


def read(events: list[Any], schema: Any, **said: Any) -> TestDriver:
    @stream_application("test")
    def describe(app: Any) -> None:
        if said.get("on_error") == "aside":
            said["on_error"] = dead_letter(app.output_stream("aside"))
        app.input_stream("events", schema=schema, **said).send_to(app.output_stream("rows"))

    return TestDriver(describe).pipe("events", events).run()


def envelope(op: str | None, before: Any, after: Any, **source: Any) -> bytes:
    return json.dumps({"op": op, "before": before, "after": after, "source": {"db": "shop", **source}, "x": 1}).encode()


def test_each_event_is_a_row_and_a_delete_is_marked() -> None:
    rows = read(
        [
            envelope("r", None, {"id": 1, "tier": "new", "more": [1]}, lsn=1, ts_ms=0),
            envelope("u", {"id": 1, "tier": "new"}, {"id": 1, "tier": "old"}, lsn=2, ts_ms=-1),
            envelope("m", None, None, lsn=3),
            envelope("d", {"id": 1, "tier": None}, None, lsn=4, ts_ms=1_767_225_600_123),
        ],
        "id bigint, tier string, lsn bigint, at timestamp",
        serde="json",
        changes=debezium(columns={"lsn": "source.lsn", "at": "source.ts_ms"}),
    ).output("rows")
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert [(row.tier, row.lsn, row.at, row._deleted) for row in rows] == [
        ("new", 1, epoch, False),
        ("old", 2, epoch - timedelta(milliseconds=1), False),
        (None, 4, START + timedelta(milliseconds=123), True),
    ]


@pytest.mark.parametrize(
    ("field", "number", "micros"),
    [("ts_ms", -7, -7000), ("ts_us", -7, -7), ("ts_ns", -7, -1), ("ts_ns", -1000, -1), ("ts_ns", 1999, 1)],
)
def test_times_have_the_unit_that_their_name_has(field: str, number: int, micros: int) -> None:
    rows = read(
        [envelope("c", None, {"id": 1}, **{field: number})],
        "id bigint, at timestamp",
        serde="json",
        changes=debezium(columns={"at": f"source.{field}"}),
    ).output("rows")
    assert rows[0].at == datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)


def test_an_event_may_be_in_the_field_payload() -> None:
    event = json.loads(envelope("c", None, {"id": 1}, lsn=5))
    rows = read(
        [json.dumps({"schema": {"type": "struct"}, "payload": event}).encode()],
        "id bigint, lsn bigint",
        serde="json",
        changes=debezium(columns={"lsn": "source.lsn"}, payload=True),
    ).output("rows")
    assert [(row.id, row.lsn, row._deleted) for row in rows] == [(1, 5, False)]


def test_words_of_operations_count_in_either_case_and_others_are_left_out() -> None:
    events = [{"what": word, "id": number} for number, word in enumerate(["I", "rm", "RM ", "old"])]
    form = change_events("what", writes="i", deletes=["rm"], ignores="old")
    rows = read(events, "id bigint", changes=form).output("rows")
    assert [(row.id, row._deleted) for row in rows] == [(0, False), (1, True), (2, True)]


def test_the_column_of_the_operation_may_be_one_of_the_rows() -> None:
    rows = read([{"op": "u", "id": 1}], "id bigint, op string", changes=change_events()).output("rows")
    assert [(row.id, row.op, row._deleted) for row in rows] == [(1, "u", False)]


def test_messages_of_a_class_have_the_mark_as_a_field() -> None:
    @dataclass(frozen=True)
    class Member:
        id: int
        _deleted: bool = False

    rows = read([{"op": "d", "id": 1}], Member, changes=change_events())
    assert rows.output("rows")[0]._deleted


@pytest.mark.parametrize(("word", "says"), [("x", "its operation (op) is 'x'"), (None, "it has no operation")])
def test_an_unknown_operation_fails_the_stage_or_is_set_aside(word: str | None, says: str) -> None:
    events = [{"op": op, "id": number} for number, op in enumerate(["c", word, "u", word])]
    with pytest.raises(SamzaError, match="at offset 1 of input 'events', partition 0 is no change event") as failed:
        read(events, "id bigint", changes=change_events())
    assert says in str(failed.value)
    dropped = read(events, "id bigint", changes=change_events(), on_error="drop")
    assert [row.id for row in dropped.output("rows")] == [0, 2]
    aside = read(events, "id bigint", changes=change_events(), on_error="aside").output("aside")
    assert [(json.loads(row.message)["id"], row.error) for row in aside] == [(1, says), (3, says)]


def test_rows_that_are_needed_are_read_whatever_else_is_left_out() -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        events = app.input_stream("events", schema="id bigint, tier string", changes=debezium())
        events.where("id > 1").select("id").send_to(app.output_stream("rows"))

    events = [{"op": "c", "after": {"id": number, "tier": "a"}} for number in (1, 2)]
    driver = TestDriver(describe, reduced=True).pipe("events", events).run()
    assert [row.id for row in driver.output("rows")] == [2]


def test_a_low_level_task_gets_all_events() -> None:
    class Marks(StreamTask):
        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            collector.send("marks", {"id": envelope.message.id, "gone": envelope.message._deleted})

    @task_application("test")
    def describe(app: Any) -> None:
        app.input_stream("events", schema="id bigint", changes=change_events())
        app.output_stream("marks", schema="id bigint, gone boolean")
        app.task(Marks)

    events = [{"op": op, "id": number} for number, op in enumerate(["c", "d", "update_before"])]
    rows = TestDriver(describe).pipe("events", events).run().output("marks")
    assert [(row.id, row.gone) for row in rows] == [(0, False), (1, True), (2, None)]


def looked_up(events: list[Any], **said: Any) -> list[tuple[Any, ...]]:
    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.side_input("events", **{"schema": "id bigint, tier string, lsn bigint", "key": "id", **said})
        table = app.table("tiers", key="id", side_inputs=[changes], sequence_by="lsn")
        app.input_stream("ids", schema="id bigint", key="id").join(table, how="left", id="found").send_to(
            app.output_stream("rows")
        )

    driver = TestDriver(describe).pipe("events", events).pipe("ids", [{"id": number} for number in (1, 2, 3)]).run()
    return [(row.id, row.tier) for row in driver.output("rows")]


def change(op: str, id: int | None, tier: str | None, lsn: int | None) -> dict[str, Any]:
    return {"op": op, "id": id, "tier": tier, "lsn": lsn}


def test_a_table_takes_changes_in_the_order_of_their_sequence() -> None:
    events = [change("d", 1, None, 9), change("c", 1, "late", 5), change("u", 2, "b", 2), change("u", 2, "a", 1)]
    events += [
        change("u", 3, "x", 3),
        change("u", 3, "again", 3),
        change("u", 3, "none", None),
        change("c", None, "", 1),
    ]
    assert looked_up(events, changes=change_events()) == [(1, None), (2, "b"), (3, "again")]


def test_what_is_dropped_moves_no_number_of_a_sequence_to_another_row() -> None:
    events = [change("c", 2, None, 7), change("u", 1, "new", 9), change("d", 3, "a", 4), change("c", 3, None, 8)]
    events += [change("u", 1, "old", 5), change("c", 3, "c", 6), change("c", 2, "b", 1)]
    said = {"schema": "id bigint, tier string not null, lsn bigint", "on_error": "drop", "changes": change_events()}
    assert looked_up(events, **said) == [(1, "new"), (2, "b"), (3, "c")]


def test_a_side_input_leaves_out_events_that_are_none() -> None:
    events = [change("c", 1, "a", 1), change("?", 2, "b", 2), change("update_before", 3, "c", 3)]
    assert looked_up(events, changes=change_events(), on_error="drop") == [(1, "a"), (2, None), (3, None)]
    with pytest.raises(SchemaError, match="side input 'events', partition 0 is no change event: its operation"):
        looked_up(events, changes=change_events())


def test_a_processor_gets_rows_and_none_for_a_delete() -> None:
    class Tiers:
        def __init__(self, config: Any, metrics: Any) -> None:
            pass

        def process(self, message: Any, store: Any) -> Any:
            yield message.key, None if message.message is None else {"tier": message.message.tier.upper()}

    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.side_input("events", schema="id bigint, tier string", key="id", changes=debezium())
        table = app.table("tiers", key="id", side_inputs=[changes], schema="id bigint, tier string", processor=Tiers)
        app.input_stream("ids", schema="id bigint", key="id").join(table, how="left", id="found").send_to(
            app.output_stream("rows")
        )

    events = [
        {"op": "c", "after": {"id": 1, "tier": "a"}},
        {"op": "c", "after": {"id": 2, "tier": "b"}},
        {"op": "d", "before": {"id": 1, "tier": None}},
    ]
    driver = TestDriver(describe).pipe("events", events).pipe("ids", [{"id": number} for number in (1, 2)]).run()
    assert [(row.id, row.tier) for row in driver.output("rows")] == [(1, None), (2, "B")]


def test_changes_with_times_are_found_as_of_event_times() -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.side_input(
            "events",
            schema="id bigint, tier string, at timestamp",
            key="id",
            timestamp="at",
            changes=debezium(columns={"at": "source.ts_ms"}),
        )
        table = app.table("tiers", key="id", side_inputs=[changes], retain="1 day")
        views = app.input_stream("views", schema="id bigint, seen timestamp", key="id", timestamp="seen")
        views.join(table, as_of="event time", how="left", id="found").select("id", "seen", "tier").send_to(
            app.output_stream("rows")
        )

    def event(op: str, tier: str | None, minute: int) -> dict[str, Any]:
        row = {"id": 1, "tier": tier}
        time = int((START + timedelta(minutes=minute)).timestamp() * 1000)
        return {"op": op, "before" if op == "d" else "after": row, "source": {"ts_ms": time}}

    driver = TestDriver(describe).pipe("events", [event("c", "a", 10), event("d", None, 30), event("u", "b", 20)])
    views = [{"id": 1, "seen": START + timedelta(minutes=minute)} for minute in (5, 15, 25, 35)]
    rows = driver.pipe("views", views).run().output("rows")
    assert [row.tier for row in rows] == [None, "a", "b", None]


def described(**said: Any) -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        app.input_stream("events", **{"schema": "id bigint", "changes": change_events(), **said}).send_to(
            app.output_stream("rows")
        )

    describe.spec()


@dataclass(frozen=True)
class Unmarked:
    id: int


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ({"schema": None}, "has changes= and no schema="),
        ({"changes": debezium(columns={"lsn": "source.lsn"})}, "has no such column"),
        ({"schema": "id timestamp", "changes": debezium(columns={"id": "source.when"})}, "whose unit is not known"),
        ({"changes": debezium(columns={"id": "source.lsn"})}, "has no column of a row"),
        ({"schema": Unmarked}, "has no field '_deleted'"),
        ({"schema": "id bigint, _deleted string"}, "marks the rows that are gone"),
        ({"changes": "debezium"}, "has changes='debezium'"),
        ({"schema": "id timestamp", "timestamp": "id", "slice": "timestamp", "changes": debezium()}, "inside of the"),
    ],
)
def test_a_wrong_form_is_rejected_when_it_is_declared(said: dict[str, Any], says: str) -> None:
    with pytest.raises(SamzaError, match=says):
        described(**said)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: change_events(""), "operation=''"),
        (lambda: change_events(writes=[]), "writes="),
        (lambda: change_events(deletes="C"), "the word 'c' twice"),
        (lambda: ANY_FORM(columns=["lsn"]), "columns="),
        (lambda: debezium(columns={"a": "source.a.b"}), "too deep"),
        (lambda: ANY_FORM(payload="yes"), "payload='yes'"),
    ],
)
def test_a_wrong_word_is_rejected(make: Any, says: str) -> None:
    with pytest.raises(InvalidApplication, match=says):
        make()


@pytest.mark.parametrize(
    ("said", "kind", "says"),
    [
        ({"sequence_by": ""}, InvalidApplication, "sequence_by=''"),
        ({"sequence_by": "lns"}, UnknownName, "There is no column 'lns'"),
        ({"sequence_by": "tier"}, InvalidApplication, "of type string, which orders no changes"),
        ({"sequence_by": "lsn", "processor": "a:b"}, InvalidApplication, "and a processor"),
    ],
)
def test_a_wrong_sequence_of_a_table_is_rejected(said: dict[str, Any], kind: type[SamzaError], says: str) -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.side_input("events", schema="id bigint, tier string, lsn bigint", key="id")
        app.table("tiers", key="id", side_inputs=[changes], **said)

    with pytest.raises(kind, match=says):
        describe.spec()


def test_a_table_by_sequence_has_no_rows_of_former_times() -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        changes = app.side_input("events", schema="id bigint, at timestamp, lsn bigint", key="id", timestamp="at")
        table = app.table("tiers", key="id", side_inputs=[changes], sequence_by="lsn")
        views = app.input_stream("views", schema="id bigint, seen timestamp", key="id", timestamp="seen")
        views.join(table, as_of="event time", id="found")

    with pytest.raises(InvalidApplication, match="which keeps the newest row alone"):
        describe.spec()


def test_errors_of_the_columns_of_events_name_them() -> None:
    with pytest.raises(SamzaError, match="'id'"):
        read([{"op": "c", "id": None}], "id bigint not null", changes=change_events())


def test_an_input_of_events_counts_as_read_to_its_end() -> None:
    @stream_application("test")
    def describe(app: Any) -> None:
        events = app.input_stream("events", schema="id bigint", changes=change_events(operation="op"))
        events.send_to(app.output_stream("rows"))

    spec = describe.spec()
    plan = ExecutionPlanner({}, {"events": 1}).plan(spec)
    program = compile_stage(spec, plan, plan.stages[0].stage_id)
    run = MessageRun(SystemStreamPartition("memory", "events", 0), 0, pa.record_batch({"id": [1], "op": ["c"]}))
    given = TaskInput("events", 0, [run], 0, 1)
    conformers = {"events": SchemaConformer(Schema.of("id bigint"), "input 'events'")}
    reading = InputReading(program, [given], conformers, {"events": {0: 1}})
    assert [envelope.messages for _, envelope in reading.envelopes()] == [1]
    assert reading.read_up == [given]

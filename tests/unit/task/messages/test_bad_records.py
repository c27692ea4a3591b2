"""``on_error``: messages that fail are dropped or sent away, and nothing else is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import (
    DEAD_LETTERS,
    AsyncStreamTask,
    Row,
    StreamTask,
    count,
    dead_letter,
    stream_application,
    task_application,
    tumbling,
)
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import InvalidApplication, MessageError, SamzaError, SchemaError, UnsupportedShape
from airflow_samza.systems.system import ControlEnvelope, Envelope, MessageRun, SystemStreamPartition, UnreadableRun
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.messages.bad_records import BadRecords, Reading, readable
from airflow_samza.task.program.stage_program import check_application, compile_stage
from airflow_samza.testing import TestDriver
from tests.support.run_task import run_task

SCHEMA = "k bigint not null, v bigint, at timestamp"
ROWS = [{"k": number, "v": number % 5, "at": number * 1_000_000} for number in range(10)]
GOOD = [number for number in range(10) if number % 5]
"""v is 0 on the others."""


@dataclass(frozen=True)
class Message:
    """A message."""

    k: int
    v: int | None


def ten(message: Any) -> dict[str, Any]:
    return {"k": message.k, "v": 10 // message.v}


def driver_of(step: Callable[[Any, Any], Any], on_error: str, **more: Any) -> TestDriver:
    """An application of one step; ``on_error`` is ``drop`` or ``dead_letter``."""

    @stream_application("bad")
    def bad(app: Any) -> None:
        policy: Any = dead_letter(app.output_stream("bad")) if on_error == "dead_letter" else on_error
        made = step(app.input_stream("rows", schema=SCHEMA, key="k", timestamp="at"), policy)
        if made is not None:
            made.send_to(app.output_stream("out"))

    return TestDriver(bad, **more).pipe(
        "rows",
        pa.Table.from_pylist(
            ROWS, pa.schema([("k", pa.int64()), ("v", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
        ),
    )


def twice(message: Any) -> Any:
    yield {"k": message.k, "v": 1}
    yield {"k": message.k, "v": 10 // message.v}


def ten_in_batches(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{"k": row["k"], "v": 10 // row["v"]} for row in batch.to_pylist()],
        pa.schema([("k", pa.int64()), ("v", pa.int64())]),
    )


SEEN: list[int] = []


def sunk(message: Any) -> None:
    SEEN.append(message.k if message.v else 1 // 0)


PAIR = "k bigint, v bigint"
STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "map": lambda rows, policy: rows.map(ten, schema=PAIR, on_error=policy, id="step"),
    "filter": lambda rows, policy: rows.filter(lambda message: 10 // message.v, on_error=policy, id="step"),
    "flat_map": lambda rows, policy: rows.flat_map(twice, schema=PAIR, on_error=policy, id="step"),
    "map_batches": lambda rows, policy: rows.map_batches(ten_in_batches, schema=PAIR, on_error=policy, id="step"),
    "where": lambda rows, policy: rows.where("10 / v > 0", on_error=policy, id="step"),
    "select": lambda rows, policy: rows.select("k", "10 / v AS v", on_error=policy, id="step"),
    "shape": lambda rows, policy: rows.map(
        lambda message: {"k": message.k, "v": message.v or "none"}, schema=PAIR, on_error=policy, id="step"
    ),
    "misshapen": lambda rows, policy: rows.flat_map(
        lambda message: [{"k": message.k, "v": 1}, {"k": message.k, "v": message.v or "none"}],
        schema=PAIR,
        on_error=policy,
        id="step",
    ),
    "sink": lambda rows, policy: rows.sink(sunk, on_error=policy, id="step"),
}


@pytest.mark.parametrize("step", STEPS)
def test_only_messages_that_fail_are_dropped(step: str) -> None:
    SEEN.clear()
    driver = driver_of(STEPS[step], "drop").run()
    times = 2 if step in ("flat_map", "misshapen") else 1
    found = SEEN if step == "sink" else sorted(row.k for row in driver.output("out"))
    assert found == sorted(GOOD * times)
    (report,) = driver.reports()
    assert report.metrics == {"dropped_messages.step": 2}


@pytest.mark.parametrize("step", STEPS)
def test_messages_that_fail_go_to_the_dead_letter_stream(step: str) -> None:
    driver = driver_of(STEPS[step], "dead_letter").run()
    letters = driver.output("bad")
    assert [json.loads(letter.message)["k"] for letter in letters] == [0, 5]
    assert [(letter.stream, letter.partition, letter.offset) for letter in letters] == [("rows", 0, 0), ("rows", 0, 5)]
    assert {letter.operator for letter in letters} == {f"bad-1-{driver.spec.operators[1].op}-step"}
    assert all(letter.error and letter.at == driver.clock for letter in letters)
    (report,) = driver.reports()
    assert report.metrics == {"dead_letters.step": 2}
    assert "(rows, partition 0, offset 0)" in report.bad_samples[0]


@pytest.mark.parametrize("step", STEPS)
def test_without_on_error_the_stage_fails(step: str) -> None:
    with pytest.raises(MessageError):
        driver_of(STEPS[step], "fail").run()


def test_every_message_is_called_once() -> None:
    called = []

    def once(message: Any) -> Any:
        called.append(message.k)
        return ten(message)

    driver_of(lambda rows, policy: rows.map(once, schema=PAIR, on_error=policy), "drop").run()
    assert called == list(range(10))


def test_stop_iteration_is_a_failure_like_any_other() -> None:
    def stops(message: Any) -> Any:
        if not message.v:
            raise StopIteration
        return message

    driver = driver_of(lambda rows, policy: rows.map(stops, on_error=policy), "drop").run()
    assert [row.k for row in driver.output("out")] == GOOD


def test_a_dead_letter_has_the_whole_message_also_where_only_some_columns_are_read() -> None:
    def narrow(rows: Any, policy: Any) -> Any:
        return rows.where("10 / v > 0", on_error=policy).select("k")

    driver = driver_of(narrow, "dead_letter", reduced=True).run()
    assert json.loads(driver.output("bad")[1].message) == {"k": 5, "v": 0, "at": "1970-01-01T00:00:05.000000Z"}


def test_offsets_are_told_as_long_as_no_message_was_left_out_before() -> None:
    def tried(message: Any) -> Any:
        assert message.w
        return message

    def behind(rows: Any, policy: Any) -> Any:
        return rows.select("*", "v + 0 AS w").map(lambda message: message).map(tried, on_error=policy)

    assert [letter.offset for letter in driver_of(behind, "dead_letter").run().output("bad")] == [0, 5]

    def filtered(rows: Any, policy: Any) -> Any:
        return rows.where("k >= 0").map(ten, schema=PAIR, on_error=policy)

    letters = driver_of(filtered, "dead_letter").run().output("bad")
    assert [(letter.stream, letter.offset) for letter in letters] == [("rows", None), ("rows", None)]


def test_operators_share_a_dead_letter_stream_across_stages() -> None:
    def stages(rows: Any, policy: Any) -> Any:
        first = rows.map(ten, schema=PAIR, on_error=policy, id="first")
        return first.partition_by("v", id="by-v").map(
            lambda row: {"k": row.k, "v": 1 // (row.v - 10)}, on_error=policy, id="second"
        )

    driver = driver_of(stages, "dead_letter", config={"job.intermediate.stream.partitions": "2"}).run()
    assert (
        sorted(letter.operator for letter in driver.output("bad")) == ["bad-1-map-first"] * 2 + ["bad-1-map-second"] * 2
    )
    assert len(driver.output("out")) == 6


def test_epochs_give_each_dead_letter_once() -> None:
    driver = driver_of(STEPS["map"], "dead_letter").run(mode="pipelined", epoch_messages=2)
    assert [letter.offset for letter in driver.output("bad")] == [0, 5]


# -- joins, folds, tasks
# ---------------------------------------------------------------------------------------------------


def pair_up(left: Any, right: Any) -> dict[str, Any]:
    return {"k": left.k if left else right.k2, "v": 10 // (left.v if left else 1)}


@pytest.mark.parametrize("on_error", ["drop", "dead_letter"])
def test_a_join_of_streams_loses_only_the_pairs_that_fail(on_error: str) -> None:
    def joined(rows: Any, policy: Any) -> Any:
        others = rows.select("k AS k2", "at AS at2")
        return rows.filter(lambda row: True).join(
            others, pair_up, id="pairs", ttl=1, left_key="k", right_key="k2", schema=PAIR, on_error=policy
        )

    driver = driver_of(joined, on_error).run()
    assert sorted(row.k for row in driver.output("out")) == GOOD
    if on_error == "dead_letter":
        messages = [json.loads(letter.message) for letter in driver.output("bad")]
        assert sorted(message["left"]["k"] for message in messages) == [0, 5]
        assert [message["right"]["k2"] == message["left"]["k"] for message in messages] == [True, True]


def test_a_join_with_a_table_loses_only_the_messages_that_fail() -> None:
    @stream_application("lookup")
    def lookup(app: Any) -> None:
        table = app.pushed_table("table", key="k", schema="k bigint, name string")
        rows = app.input_stream("rows", schema="k bigint, v bigint", key="k")
        policy = dead_letter(app.output_stream("bad"))
        rows.join(
            table, lambda message, row: ten(message), id="named", how="left", schema=PAIR, on_error=policy
        ).send_to(app.output_stream("out"))

    driver = TestDriver(lookup).pipe("rows", [{"k": 1, "v": 0}, {"k": 2, "v": 2}]).run()
    assert [(row.k, row.v) for row in driver.output("out")] == [(2, 5)]
    assert [(letter.stream, json.loads(letter.message)["k"]) for letter in driver.output("bad")] == [("rows", 1)]


def test_a_fold_goes_on_without_the_message_that_fails() -> None:
    def folded(rows: Any, policy: Any) -> Any:
        return rows.window(
            tumbling("1 minute"),
            id="total",
            fold=lambda total, row: Row(n=total.n + 10 // row.v),
            initial=Row(n=0),
            schema="n bigint",
            on_error=policy,
        )

    driver = driver_of(folded, "dead_letter").run()
    assert [row.n for row in driver.output("out")] == [2 * (10 + 5 + 3 + 2)]
    assert [json.loads(letter.message)["k"] for letter in driver.output("bad")] == [0, 5]


class Tens(StreamTask):
    """Sends before it fails."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("out", {"k": envelope.message.k, "v": 0})
        collector.send("out", {"k": envelope.message.k, "v": 10 // envelope.message.v})


def test_what_a_task_sent_for_a_message_that_fails_is_taken_back() -> None:
    @task_application("tens")
    def tens(app: Any) -> None:
        app.input_stream("rows", schema="k bigint, v bigint")
        app.output_stream("out", schema=PAIR)
        app.task(Tens, on_error=dead_letter(app.output_stream("bad")))

    driver = TestDriver(tens).pipe("rows", [{"k": number, "v": number % 3} for number in range(7)]).run()
    assert [row.k for row in driver.output("out")] == [1, 1, 2, 2, 4, 4, 5, 5]
    assert [(letter.offset, json.loads(letter.message)["k"]) for letter in driver.output("bad")] == [
        (0, 0),
        (3, 3),
        (6, 6),
    ]


class SlowTens(AsyncStreamTask):
    """The same, with coroutines."""

    async def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("out", {"k": envelope.message.k, "v": 10 // envelope.message.v})


def test_a_coroutine_of_a_task_that_fails_loses_its_message_alone() -> None:
    @task_application("slow-tens")
    def tens(app: Any) -> None:
        app.input_stream("rows", schema="k bigint, v bigint")
        app.output_stream("out", schema=PAIR)
        app.task(SlowTens, on_error=dead_letter(app.output_stream("bad")))

    driver = TestDriver(tens).pipe("rows", [{"k": number, "v": number % 3} for number in range(7)]).run()
    assert sorted(row.k for row in driver.output("out")) == [1, 2, 4, 5]
    letters = [(letter.stream, letter.offset, json.loads(letter.message)["k"]) for letter in driver.output("bad")]
    assert sorted(letters) == [("rows", 0, 0), ("rows", 3, 3), ("rows", 6, 6)]


def test_a_coroutine_that_fails_loses_its_message_alone() -> None:
    async def slow(message: Any) -> dict[str, Any]:
        return ten(message)

    driver = driver_of(lambda rows, policy: rows.map_async(slow, schema=PAIR, on_error=policy), "dead_letter").run()
    assert [row.k for row in driver.output("out")] == GOOD
    assert [json.loads(letter.message)["k"] for letter in driver.output("bad")] == [0, 5]


def test_errors_of_a_coroutine_name_their_own_messages_where_these_share_a_result() -> None:
    async def shared(message: Any) -> Any:
        return ten(message) if message.v else None

    driver = driver_of(lambda rows, policy: rows.map_async(shared, schema=PAIR, on_error=policy), "dead_letter").run()
    assert [row.k for row in driver.output("out")] == GOOD
    letters = [(json.loads(letter.message)["k"], letter.error) for letter in driver.output("bad")]
    assert [number for number, error in letters if f"on the message Row(k={number}, " in error] == [0, 5]


STREAM_ID: Any = "bad"

# -- inputs
# ----------------------------------------------------------------------------------------------------------------

ARRIVING: list[Any] = [{"k": 1, "v": 1}, "no message", {"k": None, "v": 2}, {"k": 3, "v": "x"}, {"k": 4, "v": 4}]


def reading(on_error: Any, *, task: Any = None) -> TestDriver:
    def describe(app: Any) -> Any:
        policy: Any = dead_letter(app.output_stream("bad")) if on_error == "dead_letter" else on_error
        return app.input_stream("rows", schema="k bigint not null, v bigint", on_error=policy)

    @stream_application("reading")
    def high(app: Any) -> None:
        describe(app).send_to(app.output_stream("out"))

    @task_application("reading")
    def low(app: Any) -> None:
        describe(app)
        app.output_stream("out", schema="offset bigint, k bigint")
        app.task(task)

    return TestDriver(high if task is None else low)


class Offsets(StreamTask):
    """Tells where its messages were."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        collector.send("out", {"offset": envelope.offset, "k": envelope.message.k})


def test_messages_that_cannot_be_read_are_dropped_and_counted() -> None:
    driver = reading("drop").pipe("rows", ARRIVING).run()
    assert [row.k for row in driver.output("out")] == [1, 4]
    (report,) = driver.reports()
    assert report.metrics == {"dropped_messages.rows": 3}
    assert report.inputs["rows"].messages == 5
    assert report.bad_samples[0] == (
        "input 'rows' (rows, partition 0, offset 1): a message is a dataclass instance, a Row or a dict: no message"
    )


@pytest.mark.parametrize("mode", ["staged", "pipelined"])
def test_messages_that_cannot_be_read_go_to_the_dead_letter_stream(mode: str) -> None:
    driver = (
        reading("dead_letter").pipe("rows", ARRIVING).run(mode=mode, epoch_messages=1 if mode == "pipelined" else None)
    )
    assert [(letter.offset, letter.message) for letter in driver.output("bad")] == [
        (1, "no message"),
        (2, '{"k": null, "v": 2}'),
        (3, '{"k": 3, "v": "x"}'),
    ]


def test_the_others_keep_their_offsets() -> None:
    driver = reading("drop", task=Offsets).pipe("rows", ARRIVING).run()
    assert [(row.offset, row.k) for row in driver.output("out")] == [(0, 1), (4, 4)]


class Committing(Offsets):
    """Ends its epoch after every message."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        super().process(envelope, collector, coordinator)
        coordinator.commit()


def test_an_epoch_that_ends_between_bad_messages_tells_each_once() -> None:
    driver = reading("dead_letter", task=Committing).pipe("rows", ARRIVING * 3).run(mode="pipelined")
    assert [row.offset for row in driver.output("out")] == [0, 4, 5, 9, 10, 14]
    assert [letter.offset for letter in driver.output("bad")] == [1, 2, 3, 6, 7, 8, 11, 12, 13]


def test_messages_of_a_topic_that_do_not_fit_are_found_too() -> None:
    program_of = reading("dead_letter").pipe("rows", ARRIVING[:1]).run()
    program = compile_stage(program_of.spec, program_of.plan, program_of.plan.stages[0].stage_id)
    place = SystemStreamPartition("memory", "rows", 0)
    batch = pa.RecordBatch.from_pylist([{"k": 1, "v": 1}, {"k": None, "v": 2}, {"k": None, "v": 3}, {"k": 4, "v": 4}])
    written: dict[str, list[dict[str, Any]]] = {"out": [], "bad": []}

    class Collecting:
        def __init__(self, stream: str) -> None:
            self.stream = stream

        def write(self, partition: int, batch: pa.RecordBatch) -> None:
            written[self.stream] += batch.to_pylist()

    envelopes: list[Envelope] = [MessageRun(place, 10, batch), ControlEnvelope(place, 14, EndOfStreamMessage(None, 1))]
    run_task(program, 0, [TaskInput("rows", 0, envelopes)], {stream: Collecting(stream) for stream in written})
    assert [row["k"] for row in written["out"]] == [1, 4]
    assert [(row["offset"], row["message"]) for row in written["bad"]] == [
        (11, '{"k":null,"v":2}'),
        (12, '{"k":null,"v":3}'),
    ]
    wrong = [MessageRun(place, 10, pa.RecordBatch.from_pylist([{"k": "text", "v": 1}]))]
    with pytest.raises(SchemaError, match="Column 'k' of input 'rows' is string"):
        run_task(program, 0, [TaskInput("rows", 0, wrong)], {stream: Collecting(stream) for stream in written})


# -- wrong use
# -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("describe", "says"),
    [
        (lambda app, rows: rows.map(ten, on_error="ignore"), "map has on_error='ignore'"),
        (lambda app, rows: rows.map(ten, on_error=app.output_stream("bad")), "map has on_error=OutputStream"),
        (lambda app, rows: rows.map(ten, on_error=dead_letter(STREAM_ID)), "dead_letter got 'bad'"),
        (
            lambda app, rows: rows.map(ten, on_error=dead_letter(app.output_stream("bad", schema="k bigint"))),
            "is declared with other columns",
        ),
        (
            lambda app, rows: rows.map(ten, on_error=dead_letter(app.output_stream("bad", key="k"))),
            "names the column 'k'",
        ),
        (lambda app, rows: rows.window(tumbling(5), id="w", n=count(), on_error="drop"), "has on_error= and no fold"),
        (
            lambda app, rows: app.side_input("s", on_error=dead_letter(app.output_stream("bad"))),
            "Side input 's' has on_error=dead_letter",
        ),
        (lambda app, rows: app.input_stream("other", on_error="skip"), "input stream 'other' has on_error='skip'"),
    ],
)
def test_wrong_use_is_rejected_where_it_is_said(describe: Any, says: str) -> None:
    @stream_application("wrong")
    def wrong(app: Any) -> None:
        describe(app, app.input_stream("rows", schema=SCHEMA, timestamp="at"))

    with pytest.raises(InvalidApplication, match=says):
        wrong.spec()


def test_a_join_without_a_function_has_nothing_that_fails() -> None:
    @stream_application("wrong")
    def wrong(app: Any) -> None:
        rows = app.input_stream("rows", schema="k bigint, v bigint", key="k")
        rows.join(app.pushed_table("t", key="k", schema="k bigint, n string"), id="j", on_error="drop")

    with pytest.raises(InvalidApplication, match="has on_error= and no function"):
        wrong.spec()


def test_what_catalyst_runs_cannot_go_on() -> None:
    with pytest.raises(SamzaError, match="has on_error=drop, and Catalyst runs it"):
        driver_of(
            lambda rows, policy: rows.select("k", "percentile_approx(v, 0.5) OVER () AS p", on_error=policy), "drop"
        ).run()


def test_dead_letters_cannot_be_written_before_what_catalyst_runs() -> None:
    def transformed(rows: Any, policy: Any) -> Any:
        return rows.map(lambda message: message, on_error=policy).transform(lambda frame: frame, schema=SCHEMA)

    driver = driver_of(transformed, "dead_letter")
    with pytest.raises(UnsupportedShape, match="writes 'bad' beside its results, and what follows it in the stage"):
        check_application(driver.spec, driver.plan)


def test_the_plan_says_what_becomes_of_what_fails() -> None:
    plan = driver_of(STEPS["map"], "dead_letter").plan
    details = dict(next(operator for operator in plan.operators if operator.op == "map").details)
    assert details["on_error"] == "dead_letter(bad)"
    assert plan.stream("bad").writers == ("bad-1-map-step",)


def test_dead_letters_have_their_columns() -> None:
    driver = driver_of(STEPS["map"], "dead_letter").run()
    assert list(driver.output("bad")[0]) == list(DEAD_LETTERS.names)


def test_a_message_that_cannot_be_read_keeps_its_place_and_headers_as_columns() -> None:
    driver = driver_of(STEPS["map"], "dead_letter")
    (policy,) = [one.on_error for one in driver.spec.operators if one.on_error is not None]
    sent: list[pa.RecordBatch] = []
    reading = Reading()
    reading.begin("queue", 3, 40)
    bad = BadRecords(driver.spec.operators[0], policy, sent.append, reading, lambda: 0)
    run = UnreadableRun.of(
        SystemStreamPartition("kafka", "queue", 3), 40, ["{", "x"], ["no", "no"], ['[["a", "1"]]', None]
    )
    unused: Any = None
    assert list(readable(run.slice(0, 1), unused, bad)) == []
    assert list(readable(run.slice(1, 1), unused, bad)) == []
    found = [
        (row["stream"], row["partition"], row["offset"], row["message"], row["headers"])
        for batch in sent
        for row in batch.to_pylist()
    ]
    assert found == [("queue", 3, 40, "{", '[["a", "1"]]'), ("queue", 3, 41, "x", None)]

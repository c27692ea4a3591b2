"""The run loop: in-band ends, their order, what happens without them; sections; low-level tasks; reports."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import Row, StreamTask, count, stream_application, task_application
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import ControlError, MessageError, RuntimeMissing, StageError, UnknownName
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.records import from_plain, plain
from airflow_samza.schema import Schema
from airflow_samza.systems.system import ControlEnvelope, Envelope, MessageRun, SystemStreamPartition
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.program.stage_program import StageProgram, check_application, compile_stage
from airflow_samza.task.report import TaskReport
from airflow_samza.testing import TestDriver
from tests.support.run_task import run_task

VIEWS = Schema.of("id bigint, country string")


class Collected:
    """A producer that keeps what is written, and when."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, Any]]] = []

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        self.rows += [(partition, row) for row in batch.to_pylist()]


def program_of(describe: Callable[[Any], None], stage: str | None = None, **metadata: int) -> StageProgram:
    spec = stream_application("test")(describe).spec()
    plan = ExecutionPlanner({}, {name.replace("_", "-"): n for name, n in metadata.items()}).plan(spec)
    return compile_stage(spec, plan, stage or plan.stages[0].stage_id)


def source(
    stream: str, partition: int, *parts: Sequence[dict[str, Any]] | EndOfStreamMessage, start: int = 0
) -> TaskInput:
    ssp = SystemStreamPartition("memory", stream, partition)
    envelopes: list[Envelope] = []
    offset = start
    for part in parts:
        if isinstance(part, EndOfStreamMessage):
            envelopes.append(ControlEnvelope(ssp, offset, part))
            offset += 1
        else:
            batch = pa.RecordBatch.from_pylist(list(part), schema=VIEWS.to_arrow())
            envelopes.append(MessageRun(ssp, offset, batch))
            offset += batch.num_rows
    return TaskInput(stream, partition, envelopes, start)


def end(task: str | None = None, count: int = 1, *, final: bool = True) -> EndOfStreamMessage:
    return EndOfStreamMessage(task, count, stream_id="views", final=final)


def copy(app: Any) -> None:
    app.input_stream("views", schema=VIEWS).send_to(app.output_stream("out", schema=VIEWS))


def counted(app: Any) -> None:
    views = app.input_stream("views", schema=VIEWS, key="country")
    views.aggregate("country", n=count(), id="n").send_to(app.output_stream("out"))


ONE, TWO = {"id": 1, "country": "NL"}, {"id": 2, "country": "DE"}


@pytest.mark.parametrize(("limit", "reached"), [(None, 9), (2, 9), (1, 6)])
def test_an_epoch_that_has_read_all_there_is_stands_at_the_end_of_its_slice(limit: int | None, reached: int) -> None:
    """Messages at the last offsets may be superseded, or left out by a system: they are not read again and again."""
    given = dataclasses.replace(source("views", 0, [ONE, TWO], start=5), head=9)
    run = SectionRun(program_of(copy, views=1), 0, 0, {"out": Collected()}, whole=False, limit=limit)
    assert list(run.run([given])) == []
    assert run.report.checkpoint.offset("views", 0) == reached
    assert not run.report.ended


def test_messages_and_control_messages_are_counted_with_their_offsets() -> None:
    out = Collected()
    report = run_task(
        program_of(copy, views=1), 0, [source("views", 0, [ONE, TWO], [ONE], end(), start=5)], {"out": out}
    )
    assert [row["id"] for _, row in out.rows] == [1, 2, 1]
    views = report.inputs["views"]
    assert (views.messages, views.control_messages, views.next_offsets) == (3, 1, {0: 8})  # a source's end has no place
    assert report.outputs["out"].end_of_stream == EndOfStreamMessage("task-0", 1, stream_id="out")
    assert report.outputs["out"].messages == 3


def test_a_slice_without_end_of_stream_fails_and_says_what_to_clear() -> None:
    with pytest.raises(
        StageError, match=r"Input 'views', partition 0, of stage .* has no end-of-stream: no producer has ended it"
    ) as caught:
        run_task(program_of(copy, views=1), 0, [source("views", 0, [ONE])], {"out": Collected()})
    assert "clear it with its upstream" in caught.value.hint
    assert not caught.value.retryable


def test_all_producers_must_have_ended() -> None:
    program = program_of(copy, views=1)
    with pytest.raises(StageError, match="1 of 2 producers have ended it"):
        run_task(program, 0, [source("views", 0, end("task-0", 2), end("task-0", 2))], {"out": Collected()})
    run_task(program, 0, [source("views", 0, end("task-0", 2), end("task-1", 2))], {"out": Collected()})


def test_an_input_that_is_not_given_at_all_has_no_end() -> None:
    with pytest.raises(StageError, match="no end-of-stream"):
        run_task(program_of(copy, views=1), 0, [], {"out": Collected()})


def test_contradicting_task_counts_stop_the_task() -> None:
    with pytest.raises(ControlError, match="offset 1 has the task count 3; an earlier message said 2"):
        run_task(program_of(copy, views=1), 0, [source("views", 0, end("a", 2), end("b", 3))], {"out": Collected()})


def test_the_end_of_a_slice_flushes_nothing_and_is_passed_on_as_such() -> None:
    out = Collected()
    report = run_task(program_of(counted, views=1), 0, [source("views", 0, [ONE], end(final=False))], {"out": out})
    assert out.rows == []
    ended = report.outputs["out"].end_of_stream
    assert ended is not None
    assert (ended.final, report.final) == (False, False)


def test_an_aggregation_is_flushed_before_its_output_ends() -> None:
    out = Collected()
    report = run_task(program_of(counted, views=1), 0, [source("views", 0, [ONE, TWO, ONE], end())], {"out": out})
    assert [row for _, row in out.rows] == [{"country": "NL", "n": 2}, {"country": "DE", "n": 1}]
    counts = report.operators["test-1-aggregate-n"]
    assert counts.messages_in - counts.messages_out == 1


def test_a_task_that_owns_no_partition_of_what_reaches_an_output_does_not_end_it() -> None:
    def describe(app: Any) -> None:
        few = app.input_stream("few", schema=VIEWS).where("id > 0")
        many = app.input_stream("many", schema=VIEWS)
        few.send_to(app.output_stream("from-few"))
        few.merge(many).send_to(app.output_stream("from-both"))

    program = program_of(describe, few=1, many=3)
    outputs = {"from-few": Collected(), "from-both": Collected()}
    first = run_task(program, 0, [source("few", 0, [ONE], end()), source("many", 0, end())], outputs)
    last = run_task(program, 2, [source("many", 2, [TWO], end())], outputs)
    few, both = (first.outputs[name].end_of_stream for name in ("from-few", "from-both"))
    assert few is not None
    assert both is not None
    assert (few.task_count, both.task_count) == (1, 3)
    assert last.outputs["from-few"].end_of_stream is None
    assert last.outputs["from-both"].end_of_stream == EndOfStreamMessage("task-2", 3, stream_id="from-both")


def test_the_report_survives_json() -> None:
    report = run_task(program_of(counted, views=1), 0, [source("views", 0, [ONE], end("a", 1))], {"out": Collected()})
    assert from_plain(TaskReport, json.loads(json.dumps(plain(report)))) == report


@pytest.mark.extended
def test_a_chain_may_be_longer_than_the_recursion_limit() -> None:
    def describe(app: Any) -> None:
        stream = app.input_stream("views", schema=VIEWS)
        for _ in range(1500):
            stream = stream.where("id > 0")
        stream.send_to(app.output_stream("out"))

    out = Collected()
    run_task(program_of(describe, views=1), 0, [source("views", 0, [ONE], end())], {"out": out})
    assert len(out.rows) == 1


# -- sections ----------------------------------------------------------------------------------------------------------


def sectioned(app: Any) -> None:
    views = app.input_stream("views", schema=VIEWS).where("id > 1")
    views.where("country RLIKE 'D.'", id="like").select("id * 2 AS twice").send_to(app.output_stream("out"))


def test_catalyst_cuts_a_stage_into_sections_that_run_one_after_the_other() -> None:
    program = program_of(sectioned, views=1)
    assert [section.kind for section in program.sections] == ["task", "catalyst", "task"]
    assert program.section_schema(0).fields == VIEWS.fields
    assert program.engines["test-1-where-like"][0] == "catalyst"
    out = Collected()
    first = SectionRun(program, 0, 0, {})
    handed = list(first.run([source("views", 0, [ONE, TWO], end())]))
    assert [row for batch in handed for row in batch.to_pylist()] == [TWO]
    assert first.report.inputs["views"].messages == 2
    last = SectionRun(program, 2, 0, {"out": out})
    assert list(last.run_batches(handed)) == []
    assert [row for _, row in out.rows] == [{"twice": 4}]
    assert last.report.outputs["out"].end_of_stream == EndOfStreamMessage("task-0", 1, stream_id="out")


def test_a_stage_with_catalyst_is_not_run_without_spark() -> None:
    with pytest.raises(RuntimeMissing, match=r"RLIKE.*no Spark here"):
        run_task(program_of(sectioned, views=1), 0, [], {})


def test_schemas_behind_catalyst_come_from_whoever_knows_them() -> None:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=VIEWS)
        views.select("regexp_replace(country, 'x', 'y') AS land", id="up").partition_by("land", id="by-land").send_to(
            app.output_stream("out")
        )

    spec = stream_application("test")(describe).spec()
    plan = ExecutionPlanner({}, {"views": 1}).plan(spec)
    assert check_application(spec, plan)["test-1-input-by-land"].schema is None
    told = check_application(spec, plan, {"test-1-select-up": Schema.of("land string")})
    assert told["test-1-input-by-land"].schema == Schema.of("land string")
    with pytest.raises(UnknownName, match="'land'"):
        check_application(spec, plan, {"test-1-select-up": Schema.of("country string")})


# -- low-level tasks ---------------------------------------------------------------------------------------------------


class Tally(StreamTask):
    """Counts; tells its life."""

    def __init__(self) -> None:
        self.life: list[str] = []
        self.seen: list[tuple[str, int, int]] = []
        TALLIES.append(self)

    def init(self, context: Any) -> None:
        self.context = context
        self.life.append("init")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        self.seen.append((envelope.stream, envelope.partition, envelope.offset))
        self.context.metrics.count("seen")
        if envelope.message.country == "stop":
            coordinator.shutdown()
        if envelope.message.country == "boom":
            raise ValueError("boom")
        if envelope.message.country == "nowhere":
            collector.send("nowhere", {})

    def on_end_of_stream(self, collector: Any, coordinator: Any) -> None:
        self.life.append("end")
        collector.send("out", Row(id=len(self.seen), country=self.context.task_name))

    def close(self) -> None:
        self.life.append("close")


TALLIES: list[Tally] = []


def tally(app: Any) -> None:
    app.input_stream("a", schema=VIEWS)
    app.input_stream("b", schema=VIEWS)
    app.output_stream("out", schema=VIEWS)
    app.task(Tally)


def ran(countries: Iterable[str]) -> TestDriver:
    TALLIES.clear()
    driver = TestDriver(task_application("low")(tally))
    return driver.pipe("a", [{"id": 1, "country": country} for country in countries]).pipe("b", [ONE])


def test_a_low_level_task_is_told_its_life_in_order_and_may_send_at_its_end() -> None:
    driver = ran(["x", "y"]).run()
    assert TALLIES[0].life == ["init", "end", "close"]
    assert TALLIES[0].seen == [("a", 0, 0), ("b", 0, 0), ("a", 0, 1)]  # round the partitions, message by message
    assert driver.output("out") == [Row(id=3, country="task-0")]
    assert driver.reports()[0].metrics == {"seen": 3}


def test_a_low_level_task_may_leave_the_rest_unread() -> None:
    driver = ran(["x", "stop", "y"]).run()
    assert TALLIES[0].life == ["init", "close"]
    assert TALLIES[0].seen == [("a", 0, 0), ("b", 0, 0), ("a", 0, 1)]
    assert driver.reports()[0].shut_down


def test_a_low_level_task_that_raises_is_closed_and_named_with_its_message() -> None:
    with pytest.raises(
        MessageError, match=r"Tally.process in task 'task' failed with ValueError: boom, .*country='boom'"
    ):
        ran(["boom"]).run()
    assert TALLIES[0].life == ["init", "close"]


def test_a_low_level_task_cannot_send_where_it_said_nothing_of() -> None:
    with pytest.raises(UnknownName, match="sends to 'nowhere'") as caught:
        ran(["nowhere"]).run()
    assert caught.value.hint == "Its outputs are out."

"""Streams that wait while another passes Catalyst: a stage of several branches, with a stand-in for Catalyst."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza import stream_application
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import UnsupportedShape
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.schema import Schema
from airflow_samza.systems.system import ControlEnvelope, MessageRun, SystemStreamPartition
from airflow_samza.task.loop.reading import TaskInput
from airflow_samza.task.loop.run_loop import SectionRun
from airflow_samza.task.loop.set_aside import LAST, ORDER, SetAside, in_order, with_order
from airflow_samza.task.program.stage_program import StageProgram, check_application, compile_stage
from airflow_samza.task.report import Boundary

VIEWS = Schema.of("id bigint, country string")

LIKE = "country RLIKE 'D.'"


def views_of(app: Any) -> Any:
    return app.input_stream("views", schema=VIEWS)


def program_of(describe: Callable[[Any], None]) -> StageProgram:
    spec = stream_application("test")(describe).spec()
    plan = ExecutionPlanner({}, {"views": 1, "clicks": 1}).plan(spec)
    return compile_stage(spec, plan, plan.stages[0].stage_id)


class Collected:
    """A producer that keeps the ids that are written, in order."""

    def __init__(self) -> None:
        self.ids: list[int] = []

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        self.ids += batch.column("id").to_pylist()


def batch_of(*ids: int) -> pa.RecordBatch:
    rows = [{"id": number, "country": "DE" if number % 2 else "FR"} for number in ids]
    return pa.RecordBatch.from_pylist(rows, schema=VIEWS.to_arrow())


def source(*batches: pa.RecordBatch, stream: str = "views") -> TaskInput:
    ssp = SystemStreamPartition("memory", stream, 0)
    envelopes: list[Any] = []
    offset = 0
    for batch in batches:
        envelopes.append(MessageRun(ssp, offset, batch))
        offset += batch.num_rows
    return TaskInput(stream, 0, [*envelopes, ControlEnvelope(ssp, offset, EndOfStreamMessage(None, 0))], 0)


def odd_ids(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """The stand-in for Catalyst; as it does, it makes batches of a size of its own."""
    table = pa.Table.from_batches(batches)
    kept = table.filter(pa.array([number % 2 == 1 for number in table.column("id").to_pylist()]))
    passed: list[pa.RecordBatch] = kept.combine_chunks().to_batches()
    return passed


def run(program: StageProgram, folder: Path, *inputs: TaskInput) -> dict[str, list[int]]:
    """Run the sections of a stage one after the other; the ids in each output."""
    outputs = {stream: Collected() for stream in program.stage.outputs}
    handed: list[pa.RecordBatch] = []
    reached: dict[str, Boundary] = {}
    for number, section in enumerate(program.sections):
        if section.kind == "catalyst":
            handed = odd_ids(handed) if handed else []
            continue
        aside = SetAside(str(folder / "aside"))
        one = SectionRun(program, number, 0, outputs if number == len(program.sections) - 1 else {}, aside=aside)
        if number == 0:
            handed = list(one.run(inputs))
        else:
            handed = list(one.run_batches(handed, lambda op_id: reached.get(op_id, Boundary())))
        reached.update(one.set_aside)
        aside.close()
        assert one.report.ended
    return {stream: output.ids for stream, output in outputs.items()}


def test_an_input_goes_to_an_output_with_catalyst_and_to_one_without(tmp_path: Path) -> None:
    def describe(app: Any) -> None:
        views = views_of(app)
        views.where(LIKE, id="like").send_to(app.output_stream("out"))
        views.send_to(app.output_stream("all"), id="copy")

    program = program_of(describe)
    assert [section.kind for section in program.sections] == ["task", "catalyst", "task"]
    assert program.sections[0].sets_aside == program.sections[2].takes_up == ("test-1-input-views",)
    assert run(program, tmp_path, source(batch_of(1, 2), batch_of(3))) == {"out": [1, 3], "all": [1, 2, 3]}


def test_two_branches_pass_catalyst_one_after_the_other(tmp_path: Path) -> None:
    def describe(app: Any) -> None:
        views = views_of(app)
        views.where(LIKE, id="like").send_to(app.output_stream("out"), id="to-out")
        views.where("id > 1").where("country RLIKE 'F.'", id="other").send_to(app.output_stream("other"), id="to-other")

    program = program_of(describe)
    assert [section.kind for section in program.sections] == ["task", "catalyst", "task", "catalyst", "task"]
    assert run(program, tmp_path, source(batch_of(1, 2, 3), batch_of(5))) == {"out": [1, 3, 5], "other": [3, 5]}


def test_streams_that_meet_again_keep_their_order(tmp_path: Path) -> None:
    def describe(app: Any) -> None:
        views = views_of(app)
        rest = views.where("id % 2 = 0", id="even")
        views.where(LIKE, id="like").merge(rest).send_to(app.output_stream("out"))

    batches = [batch_of(1, 2), batch_of(4), batch_of(3), batch_of(6, 5)]
    assert run(program_of(describe), tmp_path, source(*batches)) == {"out": [1, 2, 4, 3, 5, 6]}


def test_what_two_branches_give_passes_catalyst_again(tmp_path: Path) -> None:
    def describe(app: Any) -> None:
        views = views_of(app)
        liked = views.where(LIKE, id="like")
        others = views.where("id > 2", id="late").where("country RLIKE 'F.'", id="other")
        liked.merge(others).where("country RLIKE '.E'", id="again").send_to(app.output_stream("out"), id="to-out")
        liked.send_to(app.output_stream("liked"), id="to-liked")

    program = program_of(describe)
    assert [section.kind for section in program.sections].count("catalyst") == 3
    found = run(program, tmp_path, source(batch_of(1, 2, 3), batch_of(5)))
    assert found == {"out": [3, 1, 3, 5, 5], "liked": [1, 3, 5]}


def test_another_input_waits_beside_catalyst(tmp_path: Path) -> None:
    def describe(app: Any) -> None:
        clicks = app.input_stream("clicks", schema=VIEWS)
        views_of(app).where(LIKE, id="like").merge(clicks).send_to(app.output_stream("out"))

    found = run(program_of(describe), tmp_path, source(batch_of(1, 2)), source(batch_of(8), stream="clicks"))
    assert sorted(found["out"]) == [1, 8]


def test_a_table_that_is_written_and_joined_beside_catalyst_is_rejected() -> None:
    def describe(app: Any) -> None:
        table = app.local_table("seen", schema="id bigint, seen string", key="id")
        views = app.input_stream("views", schema=VIEWS, key="id")
        views.select("id", "country AS seen").send_to(table, id="to-seen")
        clicks = app.input_stream("clicks", schema=VIEWS, key="id")
        clicks.where(LIKE, id="like").join(table, id="with-seen").send_to(app.output_stream("out"))

    with pytest.raises(UnsupportedShape, match=r"where 'like'.*written and joined in the same stage") as caught:
        program_of(describe)
    assert "partition_by of its own" in caught.value.hint


def test_the_plan_says_that_a_stream_waits() -> None:
    def describe(app: Any) -> None:
        views = views_of(app)
        views.where(LIKE, id="like").send_to(app.output_stream("out"))
        views.send_to(app.output_stream("all"), id="copy")

    spec = stream_application("test")(describe).spec()
    compiled = check_application(spec, ExecutionPlanner({}, {"views": 1}).plan(spec))
    assert compiled["test-1-where-like"].reason.endswith("regular expressions; another stream waits on disk")


def test_readers_of_a_file_that_grows_find_what_is_below_a_number(tmp_path: Path) -> None:
    aside = SetAside(str(tmp_path / "aside"))
    reader = aside.reader("a")
    assert list(reader.before(LAST)) == []
    aside.add("a", 1, batch_of(1))
    aside.add("a", 2, batch_of(2, 3))
    assert [(order, batch.num_rows) for _, order, batch in reader.before(2)] == [(1, 1)]
    aside.add("a", 2, batch_of(4))
    assert [(order, batch.num_rows) for _, order, batch in reader.before(3)] == [(2, 2), (2, 1)]
    assert list(reader.before(LAST)) == []
    reader.close()
    aside.close(delete=True)
    assert not (tmp_path / "aside").exists()


def test_rows_that_a_transform_gives_come_behind_the_other_streams(tmp_path: Path) -> None:
    aside = SetAside(str(tmp_path / "aside"))
    aside.add("a", 7, batch_of(7))
    aside.add("b", 3, batch_of(3))
    waiting = [aside.reader(op_id) for op_id in ("a", "b")]
    found = [(op_id, batch.column("id").to_pylist()) for op_id, _, batch in in_order("t", [batch_of(1)], waiting)]
    assert found == [("b", [3]), ("a", [7]), ("t", [1])]
    for reader in waiting:
        reader.close()
    aside.close()


def test_a_batch_of_catalyst_is_cut_where_the_number_changes() -> None:
    merged = pa.Table.from_batches([with_order(batch_of(1), 1), with_order(batch_of(2, 3), 2)]).combine_chunks()
    (batch,) = merged.to_batches()
    assert batch.schema.names[-1] == ORDER
    found = [(order, part.column("id").to_pylist()) for _, order, part in in_order("t", [batch], [])]
    assert found == [(1, [1]), (2, [2, 3])]

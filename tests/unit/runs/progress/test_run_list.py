"""The runs that are on record: which there are, which is meant, which are on, and how they have ended."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import UnknownName
from airflow_samza.runs.progress.run_list import (
    FAILED,
    RUNNING,
    SUCCEEDED,
    Origin,
    active_runs,
    facts_of,
    find_run,
    newest_runs,
    note_origin,
    origin_of,
    run_state,
)
from airflow_samza.runs.progress.sensed_runs import StreamEnd, StreamQuery, stream_end
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.epoch_records import Intent
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.newest_stages import is_over
from airflow_samza.runs.stages.stage_runners import Claim, RunnerFolder
from tests.support.looked_at import LookedAt
from tests.support.runs_here import Here

APPS = "tests.support.carrying_apps:"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])


class Root:
    """A root with runs of some applications, planned at the seconds that a test says."""

    def __init__(self, path: Path) -> None:
        self.here = Here(path)
        self.files = self.here.log.filesystem
        rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(6)]
        self.here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)

    def plan(self, run_id: str, at: float | None, application: str = "meeting", dag: str = "", **more: Any) -> RunPlan:
        run = self.here.plan(APPS + application, run_id, **more)
        origin = Origin(dag, f"of {run_id}" if dag else "", "plan" if dag else "", at)
        replace(self.files, f"{self.folder(run_id, application).path}/origin.json", origin)
        return run

    def folder(self, run_id: str, application: str = "meeting") -> RunFolder:
        return RunFolder(application, run_id)

    def listed(self, application: str | None = None) -> list[str]:
        return [run.run_id for run in newest_runs(self.files, application)]

    def end(self, run_id: str, stream_id: str = "met", **query: Any) -> StreamEnd:
        return stream_end(self.files, StreamQuery("meeting", stream_id, run_id, **query))


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_runs_are_listed_newest_first_and_by_application(root: Root) -> None:
    root.plan("old", 1.0)
    root.plan("new", 3.0)
    root.plan("theirs", 2.0, "counting")
    assert root.listed() == ["new", "theirs", "old"]
    assert root.listed("meeting") == ["new", "old"]
    assert root.listed("nobodys") == []


def test_of_each_run_one_record_is_read_and_more_only_of_those_that_are_asked_for(root: Root) -> None:
    for number in range(4):
        root.plan(f"run-{number}", 1.0 + number)
    files = LookedAt(root.files.root)
    assert [run.run_id for run in islice(newest_runs(files, "meeting"), 1)] == ["run-3"]
    origins = [f"run-{number}/origin.json" for number in range(4)]
    assert files.below("runs/meeting") == sorted([*origins, "run-3/plan", "run-3/closed.json"])


def test_a_run_is_looked_up_by_its_id_without_a_look_at_others(root: Root) -> None:
    root.plan("one", 1.0)
    root.plan("other", 2.0)
    root.plan("one", 3.0, "counting")
    files = LookedAt(root.files.root)
    assert find_run(files, "meeting", "one").run_id == "one"
    with pytest.raises(UnknownName, match="Several"):
        find_run(files, None, "one")
    assert not [path for path in files.paths if "other" in path]


def test_runs_of_one_second_are_listed_by_their_names(root: Root) -> None:
    for name in ("b", "a"):
        root.plan(name, 1.0)
    root.plan("z", 1.0, "counting")
    assert root.listed() == ["z", "a", "b"]


def test_a_run_is_as_old_as_its_plan_or_its_first_runner(root: Root) -> None:
    for run_id, planned, claims in (("planned", 5.0, [7.0]), ("begun", None, [6.0, 4.0]), ("unknown", None, [])):
        root.plan(run_id, planned)
        for number, at in enumerate(claims, 1):
            write_once(root.files, RunnerFolder(root.folder(run_id), "key", number).claim, Claim(claimed_at=at))
    assert {run.run_id: run.at for run in newest_runs(root.files)} == {"planned": 5.0, "begun": 4.0, "unknown": 0.0}


def test_a_folder_without_a_plan_is_no_run(root: Root) -> None:
    root.files.put(f"{root.folder('half').path}/origin.json", b"{}")
    assert root.listed() == []


def test_a_run_is_listed_by_its_newest_plan(root: Root) -> None:
    root.plan("one", 1.0)
    root.plan("one", 1.0, generation=2)
    (run,) = newest_runs(root.files)
    assert (run.generation, run.closed, run.folder) == (2, False, root.folder("one"))


def test_a_run_is_found_by_its_id_or_is_the_newest(root: Root) -> None:
    root.plan("old", 1.0)
    root.plan("new", 3.0)
    root.plan("theirs", 2.0, "counting")
    assert find_run(root.files).run_id == "new"
    assert find_run(root.files, "counting").run_id == "theirs"
    assert find_run(root.files, run_id="old").run_id == "old"
    assert find_run(root.files, "meeting", "old").run_id == "old"


def test_a_run_is_found_by_the_id_that_airflow_gives_it(root: Root) -> None:
    root.plan("scheduled__2026-01-01T00:00:00+00:00", 1.0)
    (listed,) = root.listed()
    assert find_run(root.files, run_id="scheduled__2026-01-01T00:00:00+00:00").run_id == listed


def test_an_unknown_run_is_told_with_the_newest_ones(root: Root) -> None:
    for number in range(5):
        root.plan(f"run-{number}", float(number + 1))
    with pytest.raises(UnknownName) as raised:
        find_run(root.files, "meeting", "run-9")
    assert raised.value.sentence.startswith("There is no record of a run 'run-9' of 'meeting' under ")
    assert raised.value.hint is not None
    assert "Did you mean" in raised.value.hint
    assert raised.value.hint.endswith("The newest are: run-4, run-3, run-2.")


@pytest.mark.parametrize(
    ("application", "said"),
    [(None, "no record of any run under"), ("nobodys", "no record of any run of 'nobodys' under")],
)
def test_a_root_without_runs_may_be_the_wrong_one(root: Root, application: str | None, said: str) -> None:
    with pytest.raises(UnknownName, match=said) as raised:
        find_run(root.files, application)
    assert raised.value.hint == "Is this the root (--root, --env) of the environment in which it ran?"


def test_of_runs_with_one_id_the_application_has_to_be_named(root: Root) -> None:
    root.plan("one", 1.0)
    root.plan("one", 2.0, "counting")
    with pytest.raises(UnknownName, match="Several applications have a run 'one'") as raised:
        find_run(root.files, run_id="one")
    assert raised.value.hint == "Name the application, too, one of counting, meeting."
    assert find_run(root.files, "counting", "one").application == "counting"
    assert find_run(root.files).application == "counting"  # without an id the newest is meant


def test_runs_that_are_on_are_those_whose_stages_run_at_the_same_time_until_they_are_over(root: Root) -> None:
    root.plan("staged", 1.0)
    first = root.plan("first", 2.0, dag="ours", mode="pipelined")
    root.plan("second", 3.0, dag="theirs", mode="pipelined")
    root.plan("third", 4.0, "parting", mode="pipelined")

    def active(**given: Any) -> list[str]:
        return [run.run_id for run in active_runs(root.files, "meeting", **given)]

    assert active() == ["second", "first"]
    assert active(dag_id="ours") == ["first"]
    assert [active(run_id=name) for name in ("first", "of first", "staged", "of second")] == [
        ["first"],
        ["first"],
        [],
        ["second"],
    ]
    assert active(run_id="of first", dag_id="theirs") == []
    root.here.runtime.close(first)
    assert active() == ["second"]


def test_a_run_is_over_when_it_is_closed_or_all_its_stages_have_succeeded(root: Root) -> None:
    run = root.plan("one", 1.0)
    assert not is_over(root.files, run)
    root.here.stages(run, run.plan.stages[0].stage_id)
    assert not is_over(root.files, run)
    root.here.stages(run, *(stage.stage_id for stage in run.plan.stages[1:]))
    assert is_over(root.files, run)
    other = root.plan("other", 1.0)
    root.here.runtime.close(other, succeeded=False)
    assert is_over(root.files, other)


@pytest.mark.parametrize(("succeeded", "state"), [(None, RUNNING), (True, SUCCEEDED), (False, FAILED)])
def test_a_run_goes_on_until_it_is_closed(root: Root, succeeded: bool | None, state: str) -> None:
    run = root.plan("one", 1.0)
    if succeeded is not None:
        root.here.runtime.close(run, succeeded=succeeded)
    assert run_state(root.files, root.folder("one")) == state


def test_a_run_whose_end_cannot_be_read_has_not_succeeded(root: Root) -> None:
    root.plan("one", 1.0)
    root.files.put(root.folder("one").closed, b"{")
    assert run_state(root.files, root.folder("one")) == FAILED


def test_the_first_note_of_where_a_run_comes_from_stands(root: Root) -> None:
    folder = root.folder("one")
    assert origin_of(root.files, "meeting", "one") == Origin()
    for dag_id in ("first", "second"):
        note_origin(root.files, folder, {"dag_id": dag_id, "run_id": "r", "task_id": "t"})
    assert origin_of(root.files, "meeting", "one").dag_id == "first"
    root.files.put(f"{folder.path}/origin.json", b"{")
    assert origin_of(root.files, "meeting", "one") == Origin()


def test_a_run_as_json_says_what_its_plan_does(root: Root) -> None:
    interval = DataInterval.from_iso("2026-01-01", "2026-01-02")
    root.plan("one", 86400.0, dag="ours", interval=interval)
    (run,) = newest_runs(root.files)
    assert facts_of(root.files, run) == {
        "application": "meeting",
        "run_id": "one",
        "state": "running",
        "mode": "staged",
        "compares": None,
        "interval": ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"),
        "partition_key": None,
        "at": "1970-01-02T00:00:00Z",
        "generation": 1,
        "dag_id": "ours",
        "dag_run": "of one",
        "bundle_version": None,
        "error": None,
    }


def test_a_run_as_json_leaves_out_what_is_not_known(root: Root) -> None:
    root.plan("one", None)
    (run,) = newest_runs(root.files)
    root.files.put(run.folder.plan(1), b"{")
    facts = facts_of(root.files, run)
    assert [facts[name] for name in ("mode", "interval", "at", "dag_id", "dag_run")] == [None] * 5


# -- the end of a stream -----------------------------------------------------------------------------------------------


def test_a_stream_ends_when_every_stage_that_writes_it_has_ended(root: Root) -> None:
    run = root.here.plan(APPS + "parting", "one")
    first, second = (stage.stage_id for stage in run.plan.stages)

    def end() -> StreamEnd:
        return stream_end(root.files, StreamQuery("parting", "parts", "one"))

    assert (end().is_reached, end().ended) == (False, {first: 0, second: 0})
    root.here.stages(run, first)
    assert not end().is_reached
    assert end().ended == {first: end().tasks[first], second: 0}
    root.here.stages(run, second)
    assert end().is_reached
    assert end().to_dict() == {
        "run_id": "one",
        "stream": "parts",
        "generations": {first: "1.1", second: "1.1"},
    }


def test_the_tasks_that_have_ended_are_counted_by_the_newest_commit(root: Root) -> None:
    run = root.plan("one", 1.0)
    last = run.plan.stages[-1].stage_id
    root.here.stages(run)
    folder = root.folder("one").stage(last, Generation(1, 1))
    root.files.delete(folder.result)
    end = root.end("one")
    assert (end.is_reached, end.ended) == (False, end.tasks)  # committed, and it is not known to be published
    assert str(end).endswith("have sent end-of-stream, and it is not published yet.")
    write_once(root.files, folder.intent(1), Intent(last, "1.1", 1, 3, {}, {}))
    assert root.end("one").ended == end.tasks  # by the epoch before the open one
    root.files.delete(folder.commit(0))
    assert root.end("one").ended == {last: 0}


def test_a_stream_of_no_run_is_waited_for(root: Root) -> None:
    end = root.end("none")
    assert (end.run_id, end.is_reached) == (None, False)
    assert str(end) == "The stream met is waited for; no such run is on record yet."


def test_what_is_waited_for_names_stages_and_counts(root: Root) -> None:
    run = root.plan("one", 1.0)
    last = run.plan.stages[-1]
    tasks = last.task_count
    expected = f"The stream met of the run 'one': 0 of {tasks} tasks of {last.stage_id} have sent end-of-stream."
    assert str(root.end("one")) == expected
    root.here.stages(run)
    assert str(root.end("one")) == expected.replace("0 of", f"{tasks} of")


def test_a_stream_is_that_of_a_run_of_a_dag(root: Root) -> None:
    root.plan("one", 1.0, dag="ours")
    assert [root.end(name).run_id for name in ("one", "of one", "two")] == ["one", "one", None]
    assert root.end("one", dag_id="theirs").run_id is None
    query = StreamQuery("meeting", "met")
    assert stream_end(root.files, query).run_id == "one"
    assert asdict(query) == {"application": "meeting", "stream_id": "met", "run_id": None, "dag_id": None}


def test_a_stream_that_no_stage_writes_is_told_with_those_that_they_write(root: Root) -> None:
    root.plan("one", 1.0)
    with pytest.raises(UnknownName, match="No stage of the run 'one' of 'meeting' writes a stream 'clicks'") as raised:
        root.end("one", "clicks")
    assert raised.value.hint is not None
    assert raised.value.hint.endswith("Its stages write by-member, by-n, few-by-page, met, more-by-page.")

"""Progress of a stage by records and heads: offsets, lag, watermarks, ends, rates; and the lines that people read."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.application.application import StreamApplication, stream_application
from airflow_samza.control.watermarks import END_OF_TIME
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.progress.progress import (
    NOT_STARTED,
    PartitionProgress,
    ProgressReport,
    Rate,
    describe_progress,
    idle_partitions,
    lowest_watermark,
)
from airflow_samza.runs.progress.stage_progress import _OfLate, _publishing, heads_that_answer, stage_progress
from airflow_samza.runs.records.epoch_records import Commit, InputIntent, Intent, Manifest, Staged, commit
from airflow_samza.runs.records.folders import RunFolder, replace, write_once
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.runs.records.spans import Span
from airflow_samza.runs.records.stage_result import InputResult, StageResult
from airflow_samza.runs.stages.stage_runners import StageRequest
from airflow_samza.runs.stages.stage_state import (
    CANCELLED,
    FAILED,
    RUNNING,
    SUCCEEDED,
    StageHandle,
    StageProgress,
    StageStatus,
    restored_bytes,
    stage_status,
)
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import StreamSpec

NOON = 1_357_041_600.0  # 2013-01-01 12:00 UTC
FIRST = Generation(1, 1)


@stream_application("views")
def views(app: Any) -> None:
    (
        app.input_stream("page-views", system="logs", schema="member bigint, country string", bounded=False)
        .partition_by("member", id="by-member")
        .filter(lambda view: True, id="all")
        .send_to(app.output_stream("out", system="warehouse"))
    )


class Records:
    """A run whose epochs are written as a stage runner and its tasks write them."""

    def __init__(self, root: Path, application: StreamApplication, partitions: int = 2) -> None:
        self.files = LocalFilesystem(root)
        plan = ExecutionPlanner({}, {"page-views": partitions, "out": 2}).plan(application.spec({}))
        streams = {s.stream_id: BoundStream(s.stream_id, s.role, "logs", StreamSpec(s.stream_id)) for s in plan.streams}
        self.run = RunPlan("views", "1", "tests:views", "run-1", 1, plan, streams)
        self.heads = [1000] * partitions
        self.standing: dict[str, dict[int, int]] = {}

    def epoch(
        self,
        number: int,
        tasks: dict[int, Manifest],
        *,
        stage: str = "page-views",
        whole: bool = False,
        seconds: float = 60.0,
    ) -> Commit:
        """One epoch of a stage, committed when attempts had run the stage for so long."""
        handle = StageHandle("views", "run-1", stage, FIRST, 1)
        stream = self.run.plan.stage(stage).inputs[0]
        ranges = [[0, 1000]] * self.run.plan.stream(stream).partitions
        inputs = {stream: InputIntent(stream, {"offsets": ranges}, "1.1" if self.run.is_own(stream) else None)}
        count = self.run.plan.stage(stage).task_count
        outputs = {name: name for name in self.run.plan.stage(stage).outputs}
        standing = self.standing.setdefault(stage, {})
        intent = Intent(stage, "1.1", number, count, inputs, outputs, NOON - 60, whole, tuple(tasks), dict(standing))
        write_once(self.files, handle.folder.intent(number), intent)
        for task, manifest in tasks.items():
            write_once(self.files, handle.folder.manifest(number, task), manifest)
        done = commit(self.files, handle.folder, intent, list(tasks.values()), seconds=seconds)
        standing.update(done.standing)
        return done

    def progress(
        self, stage: str = "page-views", *, state: str = RUNNING, now: float = NOON, ran: float = 60.0
    ) -> ProgressReport:
        handle = StageHandle("views", "run-1", stage, FIRST)
        status = stage_status(self.files, handle)
        spans = (Span(1, NOON - 60, ran),)
        told = StageStatus(state, 1, status.tasks, status.tasks_done, updated_at=NOON, ran=spans)
        return stage_progress(self.files, lambda _: self.heads, self.run, stage, status=told, now=now)


def of_task(
    task: int, epoch: int, offset: int, *, read: int = 0, sent: int = 0, stream: str = "page-views", **more: Any
) -> Manifest:
    """The manifest of a task that owns the partition of its number and has read it up to an offset."""
    marks, ends = more.pop("watermark", None), more.pop("ends", None)
    control: dict[str, Any] = {}
    if marks is not None:
        control["watermarks"] = [{"stream": stream, "partition": task, "timestamp_of_last_emission": marks}]
    if ends is not None:
        control["end_of_stream"] = [
            {"stream": stream, "partition": task, "tasks": ends, "ended": more.get("ended", False)}
        ]
    checkpoint = {"offsets": {stream: {str(task): offset}}, "control": control}
    output = "by-member" if stream == "page-views" else "out"
    more.setdefault("ended", False)
    counts = {stream: {"messages": read, "control": 0, "bytes": read}}
    return Manifest(
        task, epoch, f"{task}-{epoch}", 1.0, counts, {output: Staged({}, sent)}, checkpoint=checkpoint, **more
    )


@pytest.fixture
def records(tmp_path: Path) -> Records:
    return Records(tmp_path, views)


def test_a_stage_that_nobody_has_submitted_has_not_started(records: Records) -> None:
    report = stage_progress(records.files, heads_that_answer({}, {}), records.run, "page-views", now=NOON)
    assert (report.state, report.partitions, report.read) == (NOT_STARTED, (), 0)
    assert describe_progress(report) == ["Stage page-views: not started"]


def test_lag_is_what_lies_between_the_next_offset_and_the_head(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 900), 1: of_task(1, 0, 400)})
    report = records.progress()
    assert [(found.offset, found.head, found.lag, found.percent_behind) for found in report.partitions] == [
        (900, 1000, 100, 10.0),
        (400, 1000, 600, 60.0),
    ]
    assert (report.lag, report.percent_behind) == (700, 35.0)


def test_the_lag_grows_while_nothing_is_read(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 1000), 1: of_task(1, 0, 1000)})
    assert records.progress().lag == 0
    records.heads = [1500, 1000]
    assert records.progress().lag == 500


def test_a_task_that_did_not_run_in_the_last_epoch_stands_where_it_stood(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 300), 1: of_task(1, 0, 400)})
    records.epoch(1, {0: of_task(0, 1, 600)})
    assert [found.offset for found in records.progress().partitions] == [600, 400]


def test_an_epoch_that_is_not_committed_does_not_count(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 300), 1: of_task(1, 0, 400)})
    folder = StageHandle("views", "run-1", "page-views", FIRST).folder
    open_ = Intent("page-views", "1.1", 1, 2, {"page-views": InputIntent("page-views", {})}, {}, whole=False)
    write_once(records.files, folder.intent(1), open_)
    write_once(records.files, folder.manifest(1, 0), of_task(0, 1, 999))
    assert [found.offset for found in records.progress().partitions] == [300, 400]


def test_the_watermark_is_the_least_of_the_partitions_and_known_once_all_have_one(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 1, watermark=5_000), 1: of_task(1, 0, 1)})
    assert records.progress().watermark is None
    records.epoch(1, {1: of_task(1, 1, 2, watermark=3_000)})
    assert records.progress().watermark == 3_000


def test_a_partition_that_has_ended_holds_no_watermark_back(records: Records) -> None:
    ended = of_task(1, 0, 1, watermark=END_OF_TIME, ends=[], ended=True)
    records.epoch(0, {0: of_task(0, 0, 1, watermark=5_000), 1: ended})
    report = records.progress()
    assert (report.watermark, report.partitions[1].ended) == (5_000, True)


def test_ends_are_counted_of_the_tasks_that_write_the_topic(records: Records) -> None:
    by: dict[str, Any] = {"stream": "by-member", "read": 1}
    records.epoch(
        0,
        {0: of_task(0, 0, 5, ends=["task-0"], **by), 1: of_task(1, 0, 9, ends=[], ended=True, **by)},
        stage="by-member",
    )
    found = records.progress("by-member").partitions
    assert [(part.ends, part.ends_expected, part.ended) for part in found] == [(1, 2, False), (2, 2, True)]
    assert found[1].lag == 0


def test_rates_are_over_the_last_half_minute_and_over_all_time(records: Records) -> None:
    for number in range(9):
        tasks = {task: of_task(task, number, number, read=50, sent=25) for task in (0, 1)}
        records.epoch(number, tasks, seconds=10 * number - 20)
    report = records.progress(now=NOON)
    assert (report.read, report.sent, report.epochs) == (900, 450, 9)
    assert report.overall is not None
    assert (report.overall.read, report.overall.seconds) == (15.0, 60.0)
    assert report.now is not None
    # Commits 1, 2 and 4 before the newest are looked at, and the third is old enough.
    assert (report.now.read, report.now.seconds) == (10.0, 40.0)


def test_work_of_late_and_the_time_that_is_left_are_those_of_the_present_rate(records: Records) -> None:
    for number in range(9):
        tasks = {task: of_task(task, number, number, read=50, sent=25) for task in (0, 1)}
        records.epoch(number, tasks, seconds=10 * number - 20)
    report = records.progress(now=NOON)
    assert report.at_work == 0.2  # four epochs of two tasks, each with a second of work, in 40 seconds
    assert (report.lag, report.seconds_left) == (1984, 198.4)
    records.heads = [8, 8]
    assert records.progress(now=NOON).seconds_left is None


@pytest.mark.parametrize(
    ("next_epoch", "seconds", "expected"),
    [(True, 40.0, 0.5), (False, 40.0, 0.75), (True, 4.0, 1.0), (True, 0.0, None)],
    ids=["published", "it still publishes", "a slower one than the others", "no time has passed"],
)
def test_a_commit_is_published_until_the_next_epoch_is_decided(
    records: Records, next_epoch: bool, seconds: float, expected: float | None
) -> None:
    committed = dataclasses.replace(records.epoch(0, {0: of_task(0, 0, 1)}), committed_at=NOON - 30)
    intent = Intent("page-views", "1.1", int(next_epoch), 2, {}, {}, NOON - 10)
    late = _OfLate(0, 0, 0.0, seconds, 1)
    assert _publishing(intent, committed, late, NOON) == expected


def test_what_passed_between_two_attempts_is_in_no_rate(records: Records) -> None:
    for number in range(2):
        records.epoch(number, {task: of_task(task, number, 1, read=50) for task in (0, 1)}, seconds=5.0 * number + 5)
    handle = StageHandle("views", "run-1", "page-views", FIRST, 2)
    told = StageStatus(RUNNING, 2, updated_at=NOON, ran=(Span(1, NOON - 3600, 8.0), Span(2, NOON - 2, 2.0)))
    report = stage_progress(
        records.files, heads_that_answer({}, {}), records.run, "page-views", FIRST, status=told, now=NOON
    )
    assert handle.attempt == report.attempt
    assert report.overall == Rate(20.0, 0.0, 10.0)
    assert report.now == Rate(20.0, 0.0, 5.0)


def test_late_dropped_and_dead_messages_are_summed_whichever_operator_counted_them(records: Records) -> None:
    facts = {
        "late_messages.hourly": 2,
        "late_messages.daily": 1,
        "dropped_messages": 4,
        "late_messages_of_mine": 100,
        "dead_letters.parse": 3,
    }
    records.epoch(0, {0: of_task(0, 0, 1, facts=facts), 1: of_task(1, 0, 1, facts={"late_messages.hourly": 5})})
    report = records.progress()
    assert (report.late, report.dropped, report.dead_letters) == (8, 4, 3)
    assert describe_progress(report)[-1] == "  messages: 8 late, 4 dropped, 3 in dead letters"


def test_of_a_single_epoch_the_tasks_that_are_done_tell(records: Records) -> None:
    folder = StageHandle("views", "run-1", "page-views", FIRST).folder
    intent = Intent(
        "page-views", "1.1", 0, 2, {"page-views": InputIntent("page-views", {})}, {"by-member": "by-member"}, NOON - 4
    )
    write_once(records.files, folder.intent(0), intent)
    whole = Manifest(0, 0, "a", 1.0, {"page-views": {"messages": 80}}, {"by-member": Staged({}, 40)})
    write_once(records.files, folder.manifest(0, 0), whole)
    report = records.progress(ran=4.0)
    assert (report.tasks_done, report.tasks_ended, report.tasks, report.read, report.sent) == (1, 1, 2, 80, 40)
    assert describe_progress(report) == [
        "Stage page-views: running, 1 of 2 tasks done; read 80 messages (20/s), sent 40 (10/s)"
    ]


def test_lines_name_the_partitions_that_are_furthest_behind_and_fit_a_terminal(tmp_path: Path) -> None:
    records = Records(tmp_path, views, partitions=40)
    at = int(NOON * 1000) - 720_000
    records.epoch(
        0, {task: of_task(task, 0, 1000 - task, read=1_000_000, sent=900_000, watermark=at) for task in range(40)}
    )
    lines = describe_progress(records.progress())
    assert lines == [
        "Stage page-views: running, 1 epoch; read 40,000,000 messages (666,667/s), sent 36,000,000 (600,000/s)",
        "  page-views  40 partitions, 780 offsets behind (98.0 % read), watermark 2013-01-01 11:48:00Z (12 min 0 s old), "
        "end-of-stream 0 of 40",
        "                partition 39: offset 961 of 1,000, 39 behind (96.1 % read), watermark 2013-01-01 11:48:00Z "
        "(12 min 0 s old)",
        "                partition 38: offset 962 of 1,000, 38 behind (96.2 % read), watermark 2013-01-01 11:48:00Z "
        "(12 min 0 s old)",
        "                partition 37: offset 963 of 1,000, 37 behind (96.3 % read), watermark 2013-01-01 11:48:00Z "
        "(12 min 0 s old)",
        "                36 further partitions are less behind",
    ]
    assert max(map(len, lines)) <= 140


def test_a_report_can_be_stored_and_says_what_it_computed(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 900), 1: of_task(1, 0, 1000)})
    body = records.progress().to_dict()
    assert (body["lag"], body["partitions"][0]["lag"], body["percent_behind"]) == (100, 100, 5.0)


@pytest.mark.parametrize(("state", "shown"), [(SUCCEEDED, "succeeded"), (CANCELLED, "cancelled")])
def test_a_stage_that_is_over_has_no_present_rate(records: Records, state: str, shown: str) -> None:
    for number in (0, 1):
        records.epoch(number, {task: of_task(task, number, number, read=10) for task in (0, 1)})
    report = records.progress(state=state, now=NOON + 500, ran=31.0)
    assert report.now is None
    assert report.overall is not None
    assert report.overall.seconds == 31.0
    assert describe_progress(report)[0].startswith(f"Stage page-views: {shown} after 31.0 s, 2 epochs")


class Asked(LocalFilesystem):
    """A root that notes what is read of it."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.paths: list[str] = []

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        return super().read(path)


def write_result(records: Records, messages: int) -> StageResult:
    """Write the result of the first generation of a stage, by its third attempt."""
    folder = StageHandle("views", "run-1", "page-views", FIRST).folder
    replace(records.files, folder.attempt(3, "request"), StageRequest("page-views", "1.1", 3))
    read = InputResult("page-views", "logs", "page-views", 2, messages, 0, 10)
    result = StageResult("views", "run-1", "page-views", "1.1", 2, 60.0, 2.0, (read,), ())
    write_once(records.files, folder.result, result)
    return result


def test_a_generation_that_keeps_a_former_result_shows_the_figures_of_that_one(records: Records) -> None:
    records.epoch(0, {0: of_task(0, 0, 300), 1: of_task(1, 0, 400)})
    result = write_result(records, 700)
    kept = RunFolder("views", "run-1").stage("page-views", Generation(2, 1)).result
    write_once(records.files, kept, dataclasses.replace(result, kept=True))
    report = stage_progress(
        records.files, heads_that_answer({}, {}), records.run, "page-views", Generation(2, 1), now=NOON
    )
    assert (report.state, report.generation, report.attempt, report.read) == (SUCCEEDED, "1.1", 3, 700)
    assert [found.stream_id for found in report.partitions] == ["page-views"] * 2


def test_a_result_is_read_once_and_only_of_a_stage_that_has_succeeded(records: Records) -> None:
    files, folder = Asked(Path(records.files.location(""))), StageHandle("views", "run-1", "page-views", FIRST).folder
    stage_progress(files, heads_that_answer({}, {}), records.run, "page-views", now=NOON)
    records.epoch(0, {0: of_task(0, 0, 300), 1: of_task(1, 0, 400)})
    stage_progress(files, heads_that_answer({}, {}), records.run, "page-views", now=NOON)
    assert folder.result not in files.paths
    write_result(records, 700)
    assert stage_progress(files, heads_that_answer({}, {}), records.run, "page-views", now=NOON).read == 700
    assert files.paths.count(folder.result) == 1


def test_what_a_stage_waits_for_is_told(records: Records) -> None:
    handle = StageHandle("views", "run-1", "by-member", FIRST)
    replace(records.files, handle.folder.attempt(1, "request"), StageRequest("by-member", "1.1", 1))
    waiting = StageStatus(RUNNING, 1, progress=StageProgress(waiting_for="page-views"))
    report = stage_progress(
        records.files, heads_that_answer({}, {}), records.run, "by-member", status=waiting, now=NOON
    )
    assert describe_progress(report) == ["Stage by-member: waiting for page-views"]


def test_what_has_failed_waits_for_nobody(records: Records) -> None:
    failed = StageStatus(FAILED, 1, progress=StageProgress(waiting_for="page-views"))
    report = stage_progress(records.files, heads_that_answer({}, {}), records.run, "by-member", status=failed, now=NOON)
    assert describe_progress(report) == ["Stage by-member: failed"]


@pytest.mark.parametrize("place", ["memory", "host", "root"])
def test_state_may_come_from_one_place_alone(place: str) -> None:
    assert restored_bytes({f"restored_from_{place}_bytes": 5}) == {"memory": 0, "host": 0, "root": 0, place: 5}
    assert restored_bytes({"restored_from_memory_bytes": 0}) == {}


def test_says_where_tasks_found_their_state() -> None:
    facts = {
        "restored_from_memory_bytes": 2_000_000,
        "restored_from_host_bytes": 500_000,
        "restored_from_root_bytes": 40_000,
    }
    report = ProgressReport("views", "1.1", RUNNING, 0.0, several_epochs=True, epochs=1, restored=restored_bytes(facts))
    assert (
        describe_progress(report)[-1]
        == "  state: 1.9 MiB found in memory, 488.3 KiB on the host, 39.1 KiB read from the root"
    )
    assert restored_bytes({"bad_records": 3}) == {}


def test_all_but_everything_is_never_called_all() -> None:
    found = PartitionProgress("views", 0, 9_999_999, 10_000_000)
    report = ProgressReport("views", "1.1", RUNNING, 0.0, several_epochs=True, epochs=1, partitions=(found,))
    assert "1 offset behind (99.9 % read)" in describe_progress(report)[1]


def test_the_share_that_is_read_is_known_only_where_every_end_is() -> None:
    known = PartitionProgress("views", 0, 50, 100)
    files = PartitionProgress("lake", 0)
    report = ProgressReport("views", "1.1", RUNNING, 0.0, partitions=(known, files))
    assert (report.lag, report.percent_behind) == (50, None)


def test_units_other_than_messages_are_named() -> None:
    units = ("messages", "partial results")
    report = ProgressReport("views", "1.1", RUNNING, 0.0, read=90, sent=12, units=units)
    assert describe_progress(report) == ["Stage views: running; read 90 messages, sent 12 partial results"]


def read_to(watermark: int | None, *, lag: int = 0, ended: bool = False) -> PartitionProgress:
    return PartitionProgress("views", 0, 5, 5 + lag, watermark=watermark, ended=ended)


@pytest.mark.parametrize(
    ("partitions", "lowest", "idle"),
    [
        ([read_to(7), read_to(5)], 5, 0),
        ([read_to(7), read_to(None)], None, 1),
        ([read_to(7), read_to(None, lag=2)], None, 0),
        ([read_to(7), read_to(None, ended=True)], 7, 0),
        ([read_to(None), read_to(None)], None, 0),
        ([], None, 0),
    ],
)
def test_time_waits_for_a_partition_that_is_read_to_its_end_and_has_no_watermark(
    partitions: list[PartitionProgress], lowest: int | None, idle: int
) -> None:
    assert (lowest_watermark(partitions), len(idle_partitions(partitions))) == (lowest, idle)

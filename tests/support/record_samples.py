"""One value of each kind of durable record, and the golden files of today's version that are made of them.

``python -m tests.support.record_samples`` writes the golden files of the version that is worked on. Those of a version
that was released are never written again.
"""

from __future__ import annotations

import importlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pyarrow as pa

import airflow_samza
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.engine.task_section import TaskNote
from airflow_samza.planner.plan import (
    ExecutionPlan,
    JoinGroup,
    Partitioning,
    PlannedOperator,
    PlannedStream,
    PlannedTable,
    Stage,
)
from airflow_samza.records import FORMS, encode, plain
from airflow_samza.runs.held_outputs import Decision, HeldPublication
from airflow_samza.runs.progress.run_list import NotPlanned, Origin
from airflow_samza.runs.records.comparison import Comparison, OutputComparison
from airflow_samza.runs.records.epoch_records import (
    Commit,
    InputIntent,
    Intent,
    Manifest,
    NeedsRunner,
    Staged,
    StageStart,
    StageTopics,
    TaskLeft,
    control_entries,
)
from airflow_samza.runs.records.expectations import (
    FAILED,
    Checked,
    Declared,
    ExpectationResult,
    PublishedRows,
    Rejection,
)
from airflow_samza.runs.records.first_events import FirstEvent
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.records.run_code import RunCode
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan, RunState, TopicContent
from airflow_samza.runs.records.spans import Span
from airflow_samza.runs.records.stage_result import InputResult, OutputResult, StageResult
from airflow_samza.runs.records.state_meaning import StateMeaning
from airflow_samza.runs.records.totals import Totals
from airflow_samza.runs.stages.run_ends import Abort, EndRequest, RunEnd
from airflow_samza.runs.stages.spark_page import SparkPage
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerEnd, RunnerPlace, StageRequest
from airflow_samza.runs.stages.stage_state import Cancellation, EpochTasks, StageProgress, StatusRecord
from airflow_samza.runs.state_history import lease
from airflow_samza.runs.state_history.arrivals import Intake, Look
from airflow_samza.runs.state_history.lease import FINISHED, Begun, Ended, Lease
from airflow_samza.runs.state_history.versions import Version, VersionPin
from airflow_samza.runs.tables.compacting import CompactionPart
from airflow_samza.runs.tables.marks import Mark, MarkProposal, Verdict
from airflow_samza.runs.tables.push_request import (
    PushIntent,
    PushManifest,
    PushPublication,
    PushRequest,
    PushResult,
    request_path,
)
from airflow_samza.runs.tables.table_version import FULL, INCREMENTAL, Compaction, PushBegun, TablePin, TableVersion
from airflow_samza.runs.upkeep.run_removal import Removal
from airflow_samza.runs.upkeep.topic_expiry import Slimmed
from airflow_samza.spark.dataframe_inputs import SparkReading
from airflow_samza.systems.made_tables import MadeTable
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import StreamSpec
from airflow_samza.task.checkpoint import TaskCheckpoint
from airflow_samza.task.program.stage_program import ProgramSource
from airflow_samza.task.report import Boundary, InputReport, OperatorReport, OutputReport, TableReport, TaskReport
from tests.support.pushes import Pushes, Rows
from tests.support.runs_here import Here

FOLDER = Path(__file__).parents[1] / "records"
SHAPES = "shapes.json"
ROOT = "root.zip"
COUNTING = "tests.support.carrying_apps:counting"
CLICKS = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
_IDENTITY = {"host": "worker-1", "place": "worker-1", "pid": 1, "started": 0.0}
AT, TEXT = 1767225600.5, "2026-01-01T00:00:00+00:00"

_PLAN = ExecutionPlan(
    application="page-views",
    app_id="1",
    operators=(
        PlannedOperator("page-views-1-input-views", "views", "input", (), stream="views", schema="member bigint"),
        PlannedOperator("page-views-1-map-one", "one", "map", ("page-views-1-input-views",), details=(("sql", "a"),)),
    ),
    streams=(
        PlannedStream(
            "views",
            "input",
            "log",
            2,
            "the system has 2 partitions",
            Partitioning("keyed", ("member",), ("bigint",), "murmur3"),
            True,
            schema="member bigint",
            readers=("page-views-1-input-views",),
        ),
    ),
    tables=(PlannedTable("profiles", "pushed", ("member",), "member bigint", ("profiles-push",)),),
    join_groups=(JoinGroup("page-views-1-join-both", ("clicks", "views")),),
    stages=(Stage("views", ("page-views-1-input-views", "page-views-1-map-one"), ("views",), ("out",), task_count=2),),
    warnings=("The stream 'views' has no watermarks.",),
)
_SLICE = {"kind": "log", "offsets": [[0, 5], [2, 7]], "commit": 3, "final": False}
_MEANING = StateMeaning("the aggregation 'sum'", "sum", {"functions": "total=sum(v bigint)"}, {"left": {"v": "bigint"}})
_CHECKPOINT = TaskCheckpoint(
    offsets={"views": {0: 5}},
    heads={"views": {0: 7, 1: None}},
    control={"end_of_stream": [], "watermarks": [{"stream": "views", "partition": 0, "timestamps": {"task-0": 7}}]},
    sources={"views": {0: {"watermark": 7}}},
    operators={"sum": {"watermark": {"upstreams": {"views": 7}, "output": 7}}},
    sent={"out": 7},
)
_STATE = {"sum": {"rows": {"path": "runs/a/b.arrow", "rows": 1, "bytes": 2, "checksum": 3, "sha256": "ab" * 32}}}
_TOTALS = Totals(
    AT,
    2,
    {"views": {"messages": 5, "control": 1, "bytes": 100}},
    {"out": {"messages": 4, "control": 2, "bytes": 50}},
    {"late_messages": 1, "gauges": {"size": {"0": 1.5}}, "bad_records": ["{"]},
    1.25,
    3.25,
)
_CHECKED = Checked("age >= 0", "condition", "drop", ("age",), {"change": 0.5}, 10, 2, 7, samples=("{}",))
_EXPECTED = ExpectationResult(
    "unique(id)", "unique", FAILED, ("id",), 5, 1, "1 row whose key comes before, of 5", ("id=3",)
)
_RAN = (Span(1, AT, 2.5), Span(2, AT + 600, 1.0))
_ERROR = {
    "type": "StageLost",
    "rule": "stage-lost",
    "sentence": "It is lost.",
    "hint": "",
    "retryable": True,
    "facts": {},
}
_PROGRESS = StageProgress(2, 5, 4, 1, None, {"memory": 10, "host": 0, "root": 0})
_ARRIVED = {
    "order": "time",
    "names": {"in/a.json": [5, 7, None]},
    "horizon": [3, "in/b.json"],
    "passed": 1,
    "late": 0,
    "files": 2,
    "bytes": 9,
}
_VERSION = Version(
    number=2,
    parent=1,
    run="run-2",
    plan_generation=1,
    plan=_PLAN,
    offsets={"views": (5, 7)},
    stages={"views": {0: {"checkpoint": plain(_CHECKPOINT), "state": _STATE}}},
    interval=(TEXT, TEXT),
    sections={"shared": ("run-1@1.1",)},
    files="state/page-views-1/files/00000000000000000002",
    at=AT,
    copy_of=0,
    meanings={"sum": _MEANING},
    read={"views": {"commit": 3, "first": [0, 0], "topic": "ab"}},
    arrived={"views": _ARRIVED},
)
_END = EndOfStreamMessage("task-0", 2, None, "out")
_DESCRIBED = {"segment": "s0", "bytes": 50, "partitions": [0], "rows": [4], "ends": [40, 50], "checksums": [1, 2]}

SAMPLES: tuple[Any, ...] = (
    MadeTable("iceberg", "web.out", "s3://lake/web/out"),
    Look(1, {"kind": "files", "files": [], "chunks": []}, "runs/page-views/run-1/arrivals/1/views/known/1-ab.json"),
    Intake(_ARRIVED),
    RunPlan(
        application="page-views",
        app_id="1",
        reference="views:app",
        run_id="run-1",
        generation=1,
        plan=_PLAN,
        streams={
            "views": BoundStream(
                "views",
                "input",
                "log",
                StreamSpec(
                    "views",
                    2,
                    "member bigint",
                    ("member",),
                    interval=(1, 2),
                    options=(("a", "b"),),
                    owner=("page-views",),
                ),
                _SLICE,
            )
        },
        config={"job.default.system": "log"},
        systems={"log": {"kind": "log", "options": {}}},
        interval=(TEXT, TEXT),
        engines={"views": {"page-views-1-map-one": ("arrow", "works on whole batches")}},
        schemas={"views": "member bigint"},
        contents={"out": TopicContent(("member",), "sum", "member bigint")},
        notes={"views": {"views": "reads 1 of 2 columns"}},
        state=RunState("lineage", 1, None, 2, {"views": "runs/page-views/run-1/start/1/views.json"}, 5),
        mode="pipelined",
        tables={"profiles": {"stream_id": "profiles-push", "number": 1, "push_id": "monday", "asked": "current"}},
        meanings={"sum": _MEANING},
        names=2,
        slot=OutputSlot("page-views", "1", (TEXT, TEXT), "nl", "0123456789ab"),
    ),
    Intent(
        "views",
        "1.1",
        3,
        2,
        {"views": InputIntent("views", _SLICE, None, False)},
        {"out": "out"},
        AT,
        False,
        (0, 1),
        {0: 2, 1: 1},
        1000,
        "runs/page-views/run-1/start/1/views.json",
        True,
        False,
        {"profiles-push": InputIntent("profiles-push", {"offsets": [[0, 1]]}, "1.1", None)},
    ),
    EpochTasks(3, 2, None, True),
    Manifest(
        0,
        3,
        "3-0-7",
        1.5,
        {"views": {"messages": 5, "control": 1, "bytes": 100}},
        {"out": Staged(_DESCRIBED, 4, control_entries([WatermarkMessage("task-0", 2, None, 7), _END]))},
        {"late_messages": 1},
        plain(_CHECKPOINT),
        _STATE,
        False,
        True,
        False,
        {"inputs": {"views": {"messages": 5, "next_offsets": {"0": 5}}}},
    ),
    Commit(
        "views",
        "1.1",
        3,
        2,
        ("3-0-7",),
        {"out": control_entries([_END])},
        {0: 3, 1: 1},
        frozenset({1}),
        _TOTALS,
        AT,
        {"out": (_EXPECTED,)},
    ),
    Decision(approved=True, who="ann", at=0.0),
    HeldPublication({"out": {"path": "/out"}}, 0.0),
    Comparison(
        "page-views",
        "compare-1",
        "page-views",
        "run-1",
        (
            OutputComparison(
                "out",
                ("id",),
                10,
                10,
                7,
                1,
                1,
                2,
                {"cents": 2},
                ("new",),
                ("old",),
                {"at": ("date", "string")},
                {"added": ({"id": "***"},)},
            ),
        ),
        ("The input 'views' is not read any more.",),
        1_767_225_600.0,
    ),
    PublishedRows((("run-1", 10), ("run-0", 9))),
    Rejection(("3-0-7",), {"type": "ExpectationFailed", "sentence": "No."}, {"out": (_EXPECTED,)}),
    StageResult(
        "page-views",
        "run-1",
        "views",
        "1.1",
        2,
        3.5,
        6.0,
        (InputResult("views", "log", "views", 2, 5, 1, 100),),
        (OutputResult("out", "log", "out", 2, 4, 2, 50, "partial results", (_EXPECTED,), {"commit": 3}, own=False),),
        {"late_messages": 1},
        2,
        ran=_RAN,
    ),
    StageStart("views", 1, {0: TaskLeft(plain(_CHECKPOINT), _STATE)}),
    StageTopics({"out": "ab", "old": None}),
    NeedsRunner(("out",)),
    Lease(2, "run-2", 1, 1, 1, AT, {"host": "worker-1", "pid": 7, "place": "p", "started": AT}, False),
    Begun(True, "run-2", AT),
    Ended(FINISHED, AT, json.loads(json.dumps(plain(_VERSION)))),
    _VERSION,
    VersionPin("run-9", AT),
    TableVersion(
        2,
        "tuesday",
        "incremental",
        (("pushes/profiles/monday", "1.1"), ("pushes/profiles/tuesday", "1.1")),
        ((0, 5), (0, 6)),
        2,
        3,
        100,
        "member bigint",
        ("member",),
        TEXT,
        TEXT,
        (TEXT, TEXT),
        1,
        1,
        8,
        False,
        "profiles",
        4,
        1,
        {"iceberg": "ml.profiles", "system": "lake", "snapshot": "8271638172635514"},
        expectations=(_EXPECTED,),
    ),
    Compaction(
        2, ("compactions/profiles/2", "1.1"), ((5, 6), (6, 7)), 3, 10, 90, (("a", "1.1"),), ((0, 5), (0, 6)), TEXT, 1
    ),
    CompactionPart(5, _DESCRIBED),
    PushRequest(
        "page-views",
        "views:app",
        "profiles",
        "monday",
        "log",
        "profiles-push",
        2,
        ("member",),
        {"path": "/in", "format": "csv", "options": {"header": "true"}},
        "member bigint",
        columns={"member": "id"},
        latest_by="at",
        on_duplicate="last",
        max_change_ratio=float("inf"),
        interval=(TEXT, TEXT),
        after=1,
        config={"a": "b"},
        expect=(Declared("age >= 0", "condition", "drop", ("age",), {"change": 0.5}, "age >= 0"),),
    ),
    PushIntent(0, 2, digest="0123456789abcdef", schema="member bigint"),
    PushManifest(5, 1, 50, 1, 1, (7,), {"name": 1}, (_CHECKED,), _DESCRIBED),
    PushPublication(
        5,
        1,
        50,
        1,
        1,
        checked=(_CHECKED,),
        digest="0123456789abcdef",
        generation="1.1",
        staged={0: _DESCRIBED},
        schema="member bigint",
    ),
    PushResult(2, "tuesday"),
    PushBegun(1),
    TablePin("page-views/run-1", TEXT),
    Mark(TEXT),
    MarkProposal(TEXT, "tables/log/profiles/expired/1.json"),
    Verdict(True),
    Claim("worker-1", "worker-1/boot/pid:[1]", 7, AT, AT),
    Heartbeat(AT, AT),
    RunnerEnd("Spark is gone", AT, _ERROR),
    StageRequest(
        "views",
        "1.1",
        1,
        AT,
        {"spark.sql.shuffle.partitions": "4"},
        RunnerPlace("0123456789ab", 1),
        reference="moved:app",
        code="0123456789abcdef",
    ),
    RunCode(1, "runs/page-views/run-1/code/0123456789abcdef.zip", "dags", "views:app", {"views": "0123456789abcdef"}),
    StatusRecord("failed", _ERROR, _PROGRESS, AT, _RAN),
    Cancellation("views", 1),
    EndRequest("airflow", AT, AT + 1),
    Abort("it failed", "airflow", AT),
    RunEnd(True, AT),
    Origin("views", "scheduled__2026-01-01", "views.plan", AT),
    NotPlanned("views", "nightly-1", "views:app", 2, {"type": "PlanError", "sentence": "It has no file."}, AT),
    Slimmed(AT, ("file:///lake/views",), True),
    Removal(AT),
    ProgramSource(
        "views:app",
        _PLAN.to_json(),
        "views",
        {"views": "member bigint"},
        {"a": "b"},
        {"out": TopicContent(("member",))},
    ),
    TaskNote(
        TaskReport(
            "views",
            "task-0",
            {"views": InputReport(5, 100, 1, {0: 5})},
            {},
            {"out": OutputReport(4, 50, _END, WatermarkMessage("task-0", 2, None, 7))},
            {"page-views-1-map-one": OperatorReport(5, 4)},
            {"profiles": TableReport(8, 90, 1)},
            {"late_messages": 1},
            {"size": 1.5},
            ["{"],
            _CHECKPOINT,
            Boundary(False, True, 7),
            False,
        ),
        _STATE,
        {"page-views-1-map-one": Boundary(False, True, 7)},
    ),
    FirstEvent("s3://lake/delays", "run-1", AT),
    SparkPage("app-1", "http://10.0.0.7:4040", "http://history:18080/history/app-1"),
    SparkReading("member bigint", {0: _DESCRIBED}, 4, ("by member",)),
)
"""One value of each kind, with something in every field that may be empty."""


def file_of(kind: type) -> str:
    """Return the name of a kind's golden file: ``run-plan.json``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", kind.__name__).lower() + ".json"


def kinds() -> Iterator[type]:
    """Yield all kinds of durable records of the package, whichever module declares them."""
    package = Path(airflow_samza.__file__).parent
    for path in sorted(package.rglob("*.py")):
        if "@durable(" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(path.relative_to(package.parent).with_suffix("").parts))
    yield from (kind for kind in FORMS if kind.__module__.startswith("airflow_samza."))


def shape(kind: type) -> Any:
    """Return a kind's format version and the types of all its keys, at any depth, without words for people."""
    (reference,), parts = msgspec.json.schema_components([kind])
    found = {name: _bare(part) for name, part in parts.items()}
    return {"format": FORMS[kind].version, "later": sorted(FORMS[kind].later), "is": _bare(reference), "parts": found}


def _bare(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {name: _bare(part) for name, part in schema.items() if name not in ("title", "description", "default")}
    return [_bare(part) for part in schema] if isinstance(schema, list | tuple) else schema


def version() -> str:
    """Return the name of the folder of golden files of the version that is worked on: ``0.1``."""
    return ".".join(airflow_samza.__version__.split(".")[:2])


def write_root(archive: Path) -> None:
    """Write a root with a state that a run has left, a run that is planned and not finished, and a pushed table."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(lease, "identity", return_value=_IDENTITY):
        here = Here(Path(folder))
        for run in range(2):
            append_clicks(here, run * 5)
            if run == 0:
                here.whole(COUNTING, "run-0")
        here.plan(COUNTING, "run-1")
        pushes = Pushes(Path(folder))
        asked: tuple[tuple[str, str, Rows], ...] = (
            ("monday", FULL, {1: "gold", 2: "silver"}),
            ("tuesday", INCREMENTAL, {2: "gold"}),
        )
        for push_id, mode, rows in asked:
            request = pushes.request(push_id, mode=mode)
            write_once(pushes.files, request_path(request.handle), request)
            pushes.finish(pushes.stage(request, rows))
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as target:
            for path in sorted(Path(folder).rglob("*")):
                target.write(path, path.relative_to(folder))


def append_clicks(here: Here, first: int) -> None:
    """Append five clicks of three members."""
    rows = [{"member": n % 3, "page": f"p{n}", "n": n} for n in range(first, first + 5)]
    here.log.append("clicks", pa.Table.from_pylist(rows, CLICKS), key=["member"], partitions=2)


def write() -> None:
    """Write the golden files and shapes of the version that is worked on, and its root where there is none yet."""
    folder = FOLDER / version()
    folder.mkdir(parents=True, exist_ok=True)
    for sample in SAMPLES:
        data = json.loads(encode(sample))
        (folder / file_of(type(sample))).write_text(json.dumps(data, indent=1, sort_keys=True) + "\n")
    shapes = {file_of(kind): shape(kind) for kind in kinds()}
    (folder / SHAPES).write_text(json.dumps(shapes, indent=1, sort_keys=True) + "\n")
    if not (folder / ROOT).exists():
        write_root(folder / ROOT)


if __name__ == "__main__":
    write()

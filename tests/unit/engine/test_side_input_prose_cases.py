"""The expectations of side inputs in words, by their names, in runs without Spark.

What is elsewhere: damage of offsets files and where reading starts in ``tests/unit/storage/test_side_inputs.py``, the
configuration's readers in ``tests/unit/test_config.py``, priorities and tables of a task in
``tests/unit/task/loop/test_side_tables.py``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import InitableTask, StreamTask, WindowableTask, stream_application, task_application
from airflow_samza.engine.tables import warm_tables
from airflow_samza.errors import BadId, MessageError, SideInputsWithChangelog
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.storage.local_store import default_folder
from airflow_samza.storage.offsets_file import OffsetsFile
from airflow_samza.systems.system import StreamSpec
from airflow_samza.testing import TestDriver
from tests.support.runs_here import Here
from tests.support.side_input_apps import PROFILES, VIEWS
from tests.unit.engine.tables.test_followed_tables import FOLLOWING, running, view
from tests.unit.prepare.test_side_inputs import SCORED, many, profiles, read_of, scored, send, stored, views

PRICKLY = "tests.unit.engine.test_side_input_prose_cases:prickly"


class Prickly:
    """Fails on one tier."""

    def __init__(self, config: Any, metrics: Any) -> None:
        pass

    def process(self, message: Any, store: Any) -> Any:
        if message.message.tier == "thorn":
            raise ValueError("an accident")
        yield message.key, message.message


@stream_application("prickly", default_system="log")
def prickly(app: Any) -> None:
    views = app.input_stream("views", schema=VIEWS, key="member_id", bounded=False)
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id", bounded=False)
    table = app.table("profiles", key="member_id", side_inputs=[changes], schema=PROFILES, processor=Prickly)
    views.join(table, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


@pytest.fixture(autouse=True)
def _cold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_tables, "_WARM", warm_tables.WarmTables())


def files(here: Here) -> list[Path]:
    return stored(here, "OFFSETS-*")


def offsets(path: Path) -> dict[str, str]:
    found: dict[str, str] = json.loads(path.read_text())["offsets"]
    return found


# -- processing --------------------------------------------------------------------------------------------------------


def test_processor_fails_before_the_catch_up_and_fails_the_start(here: Here) -> None:
    profiles(here, m1="gold", m2="thorn")
    views(here, 1, 2)
    plan = here.plan(PRICKLY, "run-1")
    with pytest.raises(
        MessageError, match="the processor of the table 'profiles', failed with ValueError: an accident"
    ):
        here.stages(plan)
    assert scored(here) == []


def test_processor_fails_later_and_fails_the_container(here: Here) -> None:
    here.log.create([StreamSpec("views", 2, VIEWS)])
    profiles(here, m1="gold")
    with pytest.raises(AssertionError, match="MessageError"):  # of what runs the stages in a thread
        _fails_later(here)
    assert scored(here) == [(1, "gold")]  # what was committed stays, and nothing came after the failure


def _fails_later(here: Here) -> None:
    with running(here, PRICKLY):
        assert view(here, 1) == "gold"
        profiles(here, m1="thorn")
        views(here, 1)


def test_strict_order() -> None:
    at_work, calls = threading.Lock(), []

    class Recording:
        def __init__(self, config: Any, metrics: Any) -> None:
            pass

        def process(self, message: Any, store: Any) -> Any:
            assert at_work.acquire(blocking=False), "two messages at a time"
            calls.append(("message", message.offset))
            yield message.key, message.message
            at_work.release()

    class Task(InitableTask, StreamTask, WindowableTask):
        def init(self, context: Any) -> None:
            calls.append(("init", 0))

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            calls.append(("view", envelope.offset))

        def window(self, collector: Any, coordinator: Any) -> None:
            calls.append(("window", 0))

    @task_application("ordered", config={"task.max.concurrency": "8", "task.window.ms": "1"})
    def application(app: Any) -> None:
        app.input_stream("views", schema=VIEWS, key="member_id")
        changes = app.side_input("changes", schema=PROFILES, key="member_id")
        app.table("profiles", key="member_id", side_inputs=[changes], schema=PROFILES, processor=Recording)
        app.task(Task)

    driver = TestDriver(application)
    driver.pipe("changes", [{"member_id": n % 3, "tier": "x"} for n in range(50)]).pipe(
        "views", [{"member_id": 1, "page": "p"}]
    ).run()
    assert calls[:50] == [
        ("message", offset) for offset in range(50)
    ]  # no window between them, and nothing of the task before


# -- the offsets file --------------------------------------------------------------------------------------------------


def test_init_makes_directory(here: Here) -> None:
    profiles(here, m1="gold", m2="gold", m3="gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    assert all(path.parent.is_dir() for path in files(here))
    assert files(here)


def test_flush_writes_file_after_the_contents(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    many(here, "gold")
    views(here, 1)
    seen: list[bool] = []
    write = OffsetsFile.write

    def looking(self: OffsetsFile, local: Any) -> None:
        folder = Path(self._path).parent
        seen.append((folder / str(local.store["version"]) / "store.json").exists())
        write(self, local)

    monkeypatch.setattr(OffsetsFile, "write", looking)
    here.whole(SCORED, "run-1")
    assert seen == [True, True]


def test_in_memory_no_file(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole("tests.support.side_input_apps:unkept_views", "run-1")  # a processor that nobody can compare
    assert not files(here)


def test_one_file_per_store(here: Here) -> None:
    many(here, "gold")
    send(here, "scores", "member_id bigint, score bigint", [{"member_id": n, "score": n} for n in range(50)])
    views(here, 1)
    here.whole("tests.unit.engine.test_side_input_prose_cases:two_tables", "run-1")
    stores = {
        path.parent.parent.name.partition("-")[0]: {name.partition("/")[0] for name in offsets(path)}
        for path in all_files(here)
    }
    assert stores == {"profiles": {"profile-changes"}, "sums": {"scores"}}
    assert len(all_files(here)) == 4  # of two tasks


def all_files(here: Here) -> list[Path]:
    return sorted(Path(default_folder(str(here.root))).glob("*/*/OFFSETS-*"))


@stream_application("two-tables", default_system="log")
def two_tables(app: Any) -> None:
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    profiles = app.table(
        "profiles", key="member_id", side_inputs=[app.side_input("profile-changes", schema=PROFILES, key="member_id")]
    )
    scores = app.side_input("scores", schema="member_id bigint, score bigint", key="member_id")
    sums = app.table("sums", key="member_id", side_inputs=[scores])
    joined = views.join(profiles, how="left", id="with-profile").join(sums, how="left", id="with-sum")
    joined.send_to(app.output_stream("scored", key="member_id"))


def test_many_partitions_one_file(here: Here) -> None:
    topics = [f"changes-{number}" for number in range(5)]
    for number, topic in enumerate(topics):
        send(here, topic, PROFILES, [{"member_id": 100 * number + n, "tier": "gold"} for n in range(100)])
    views(here, 1)
    here.whole(
        SCORED.replace("scored", "configured"), "run-1", config={"stores.profiles.side.inputs": ",".join(topics)}
    )
    assert [set(offsets(path)) for path in files(here)] == [
        {f"{topic}/{partition}" for topic in topics} for partition in (0, 1)
    ]


def test_only_own_partitions(here: Here) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    assert [set(offsets(path)) for path in files(here)] == [{"profile-changes/0"}, {"profile-changes/1"}]


@pytest.mark.parametrize("text", ["{}", ""], ids=["empty_file_is_invalid", "bad_checksum"])
def test_a_file_that_says_nothing(here: Here, text: str) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    for path in files(here):
        path.write_text(text)
    many(here, "silver")
    assert read_of(here, here.whole(SCORED, "run-2")) == 200


def test_not_in_checkpoint_topic(here: Here) -> None:
    here.log.create([StreamSpec("views", 2, VIEWS)])
    many(here, "gold")
    with running(here, FOLLOWING) as (plan, _):
        assert view(here, 1) == "gold"
    records = [path.read_text() for path in checkpoints(here, plan)]
    assert records
    assert not any("profile-changes" in json.dumps(json.loads(text)["checkpoint"]) for text in records)


def checkpoints(here: Here, plan: RunPlan) -> list[Path]:
    folder = StageHandle(plan.application, plan.run_id, "views", Generation(plan.generation, 1)).folder
    return sorted((here.root / folder.path).glob("epochs/*/manifests/*.json")) or sorted(
        (here.root / folder.path).glob("manifests/*/*.json")
    )


# -- configuration -----------------------------------------------------------------------------------------------------


def described(declare: Callable[[Any], Any], config: dict[str, str]) -> Any:
    return stream_application("app", config=config)(declare).spec().tables["s"]


def test_descriptor_drops_changelog() -> None:
    fed = {"stores.s.side.inputs": "log.a"}
    table = described(lambda app: app.local_table("s", key="id", schema="id bigint"), fed)
    assert table.side_inputs == ("a",)
    assert "changelog" not in dict(table.options)
    with pytest.raises(SideInputsWithChangelog):
        described(lambda app: app.local_table("s", key="id", schema="id bigint", changelog="changes"), fed)


def test_bad_stream_name() -> None:
    with pytest.raises(BadId):
        described(lambda app: app.table("s", key="id"), {"stores.s.side.inputs": "not a name"})


# -- end to end --------------------------------------------------------------------------------------------------------


class Enrich(InitableTask, StreamTask):
    def init(self, context: Any) -> None:
        self.table = context.get_table("profiles")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        found = self.table.get(envelope.key)
        if found is not None:
            collector.send("out", {**envelope.message, "tier": found.tier})


def low_level(app: Any) -> None:
    app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("changes", schema=PROFILES, key="member_id")
    app.table("profiles", key="member_id", side_inputs=[changes])
    app.output_stream("out", schema=f"{VIEWS}, tier string", key="member_id")
    app.task(Enrich)


def high_level(app: Any) -> None:
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("changes", schema=PROFILES, key="member_id")
    views.join(app.table("profiles", key="member_id", side_inputs=[changes]), id="join").send_to(
        app.output_stream("out")
    )


@pytest.mark.parametrize("form", ["low_level_join", "high_level_join"])
def test_each_page_view_whose_member_has_a_profile_comes_out_once(form: str) -> None:
    application: Any = (
        task_application("app")(low_level) if form == "low_level_join" else stream_application("app")(high_level)
    )
    rows = [{"member_id": n, "tier": f"t{n}"} for n in range(10)]
    driver = TestDriver(application, partitions=4).pipe("changes", rows)
    driver.pipe("views", [{"member_id": n, "page": "p"} for n in range(20)]).run()
    assert sorted((row.member_id, row.tier) for row in driver.output("out")) == [(n, f"t{n}") for n in range(10)]


def test_nothing_processed_before_head() -> None:
    driver = TestDriver(stream_application("app")(high_level))
    driver.pipe("views", [{"member_id": 4, "page": "p"}]).pipe(
        "changes", [{"member_id": n, "tier": "x"} for n in range(5)]
    ).run()
    assert [row.member_id for row in driver.output("out")] == [4]


def test_background_update_holds_nothing_back(here: Here) -> None:
    here.log.create([StreamSpec("views", 2, VIEWS)])
    profiles(here, m1="gold")
    with running(here, FOLLOWING):
        assert view(here, 1) == "gold"
        profiles(here, m1="silver")
        assert view(here, 1) == "silver"


def test_restart_same_host_reads_behind_what_it_has_read_and_restart_other_host_from_the_oldest(
    here: Here, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = {"job.store.local.dir": "$THIS_HOST"}
    many(here, "gold")
    views(here, 1)
    found = []
    for number, host in enumerate(["a", "a", "b"]):
        monkeypatch.setenv("THIS_HOST", str(tmp_path / host))
        found.append(read_of(here, here.whole(SCORED, f"run-{number}", config=config)))
    assert found == [100, 0, 100]


def test_unchanged_after_crash_before_flush(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    many(here, "gold")
    views(here, 1)
    here.whole(SCORED, "run-1")
    many(here, "silver")

    def crash(self: OffsetsFile, local: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as crashing:
        crashing.setattr(OffsetsFile, "write", crash)
        with pytest.raises(KeyboardInterrupt):
            here.whole(SCORED, "run-2")
    many(here, "bronze")
    assert read_of(here, here.whole(SCORED, "run-3")) == 200  # what came after the flush comes again
    assert scored(here) == [(1, "bronze"), (1, "gold")]


def test_end_of_stream_leaves_side_inputs_out(here: Here) -> None:
    profiles(here, m1="gold")
    views(here, 1)
    plan = here.plan(
        "tests.unit.engine.test_side_input_prose_cases:bounded_views", "run-1"
    )  # its side input goes on for ever
    here.stages(plan)
    assert scored(here) == [(1, "gold")]


@stream_application("bounded-views", default_system="log")
def bounded_views(app: Any) -> None:
    views = app.input_stream("views", schema=VIEWS, key="member_id")
    changes = app.side_input("profile-changes", schema=PROFILES, key="member_id", bounded=False)
    table = app.table("profiles", key="member_id", side_inputs=[changes])
    views.join(table, how="left", id="with-profile").send_to(app.output_stream("scored", key="member_id"))

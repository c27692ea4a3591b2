"""The plan step: what is fixed, and what is rejected before anything runs. No Spark."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, PlanChanged, SamzaError, TopicError, UnknownName
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.records import decode, encode
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.changing_modules import ChangingModules

HEAD = """
from airflow_samza import count, stream_application, tumbling

@stream_application("prepared")
def app(app):
"""

TWO_STAGES = """
    words = app.input_stream("words", schema="word string, n bigint", partitions=2)
    words.where("n > 0").partition_by("word", id="by-word").aggregate("word", lines=count(), id="per-word").send_to(
        app.output_stream("counts", partitions=2))
"""

Prepare = Callable[..., RunPlan]
HOUR = DataInterval.from_iso("2026-01-01T05:00", "2026-01-01T06:00")


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    import pyarrow as pa

    system = LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    system.append("words", pa.table({"word": ["a", "b"], "n": [1, 2]}), key=["word"], partitions=2)
    return system


@pytest.fixture
def prepare(tmp_path: Path, log: LogSystem, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    modules = ChangingModules(tmp_path, monkeypatch)

    def made(
        body: str, *, systems: dict[str, SystemBinding] | None = None, run_id: str = "run-1", **more: object
    ) -> RunPlan:
        modules.write("prepared_app", HEAD + body)
        return SparkRuntime(str(tmp_path / "root"), systems).prepare(RunRequest("prepared_app:app", run_id, **more))  # type: ignore[arg-type]

    return made


def test_fixes_counts_slices_and_topics(prepare: Prepare, log: LogSystem) -> None:
    run = prepare(TWO_STAGES)
    assert [stage.stage_id for stage in run.plan.stages] == ["words", "by-word"]
    assert run.streams["words"].slice is not None
    assert sum(end - start for start, end in run.streams["words"].slice["offsets"]) == 2
    assert {"counts", "prepared-1-by-word/run-1/1.1"} <= set(log.topics())
    assert run.engines["words"]["prepared-1-where-0"][0] == "arrow"
    assert run.stream("by-word").spec.schema == "word string, lines bigint not null"  # partial results
    assert "sends partial results" in run.notes["words"]["by-word"]


def test_the_plan_of_a_generation_stands(prepare: Prepare, log: LogSystem) -> None:
    import pyarrow as pa

    first = prepare(TWO_STAGES)
    log.append("words", pa.table({"word": ["c"], "n": [3]}), key=["word"])
    assert prepare(TWO_STAGES) == first  # a retry reads what the first attempt would have read
    slice_ = prepare(TWO_STAGES, generation=2).streams["words"].slice
    assert slice_ is not None
    assert sum(end - start for start, end in slice_["offsets"]) == 3


def test_a_plan_keeps_the_options_with_which_it_was_made(prepare: Prepare) -> None:
    options = prepare(TWO_STAGES, config={"a": "1"}, interval=HOUR, state_from="lineage").options
    hour = "2026-01-01T05:00:00+00:00/2026-01-01T06:00:00+00:00"
    assert options == {
        "config": {"a": "1"},
        "interval": hour,
        "partition_key": None,
        "mode": "staged",
        "state_from": "previous",
        "sections": {},
        "input_versions": {},
        "tables": {},
        "compares": None,
    }


def test_rejects_to_go_on_by_the_plan_of_another_declaration(prepare: Prepare) -> None:
    prepare(TWO_STAGES)
    with pytest.raises(PlanChanged, match=r"stage words: condition of operator .* was n > 0 and is n > 1") as caught:
        prepare(TWO_STAGES.replace("n > 0", "n > 1"))
    assert "clear its plan task with the downstream tasks" in caught.value.hint


def test_plans_anew_where_that_is_asked_for_and_keeps_the_generation_of_an_unchanged_plan(prepare: Prepare) -> None:
    first = prepare(TWO_STAGES)
    assert prepare(TWO_STAGES, plans_anew=True) == first
    changed = TWO_STAGES.replace("n > 0", "n > 1")
    assert prepare(changed, plans_anew=True).generation == 2
    assert prepare(changed, plans_anew=True).generation == 2
    assert prepare(changed, plans_anew=True, config={"x": "1"}).generation == 3


def test_a_stored_plan_is_found_again(prepare: Prepare, tmp_path: Path) -> None:
    run = prepare(TWO_STAGES)
    runtime = SparkRuntime(str(tmp_path / "root"))
    assert runtime.load_plan("prepared", "run-1") == run
    with pytest.raises(UnknownName, match="has no plan"):
        runtime.load_plan("prepared", "run-2")


STREAM = 'app.input_stream("words", schema="word string, n bigint", '
SENT = '.send_to(app.output_stream("out", partitions=2))'


@pytest.mark.parametrize(
    ("body", "error", "sentence"),
    [
        (
            f'    app.input_stream("nothing"){SENT}',
            TopicError,
            "(The input 'nothing' does not exist: the system|There is no topic 'nothing' in system) 'log'",
        ),
        (
            f'    {STREAM}system="elsewhere", partitions=2){SENT}',
            UnknownName,
            "names the system 'elsewhere', which is not bound",
        ),
        (f'    {STREAM}).where("speed > 1"){SENT}', UnknownName, "There is no column 'speed'"),
    ],
)
def test_says_what_is_wrong(prepare: Prepare, body: str, error: type[SamzaError], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        prepare(body)


def test_memory_cannot_be_shared_with_a_runner(prepare: Prepare) -> None:
    with pytest.raises(ConfigError, match="of kind memory, which exists in one process only"):
        prepare(f'    {STREAM}system="here", partitions=2){SENT}', systems={"here": SystemBinding("memory")})


FILES = '    app.input_stream("views", system="lake", schema="n bigint", partitions=2, path="{ds}")'


def lake(tmp_path: Path) -> dict[str, SystemBinding]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "lake" / "2026-01-01").mkdir(parents=True)
    pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / "lake" / "2026-01-01" / "a.parquet")
    return {"lake": SystemBinding("files", {"root": str(tmp_path / "lake")})}


def test_a_path_is_rendered_over_the_data_interval(prepare: Prepare, tmp_path: Path) -> None:
    run = prepare(FILES + SENT, systems=lake(tmp_path), interval=HOUR)
    assert run.streams["views"].spec.path == "2026-01-01"
    assert run.interval == ("2026-01-01T05:00:00+00:00", "2026-01-01T06:00:00+00:00")


@pytest.mark.parametrize(
    ("start", "end"),
    [("2026-01-01T00:00", "2026-01-01T01:00"), ("2025-12-31T19:00-05:00", "2025-12-31T20:00-05:00")],
)
def test_a_path_follows_utc_whatever_offset_was_written(prepare: Prepare, tmp_path: Path, start: str, end: str) -> None:
    run = prepare(FILES + SENT, systems=lake(tmp_path), interval=DataInterval.from_iso(start, end))
    assert run.streams["views"].spec.path == "2026-01-01"
    assert run.interval == ("2026-01-01T00:00:00+00:00", "2026-01-01T01:00:00+00:00")


def test_an_empty_interval_is_rejected_with_the_timetable(prepare: Prepare, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is empty") as caught:
        prepare(FILES + SENT, systems=lake(tmp_path), interval=DataInterval(HOUR.start, HOUR.start))
    assert "CronDataIntervalTimetable" in caught.value.hint


def test_an_output_that_cannot_be_written_is_rejected(prepare: Prepare, tmp_path: Path) -> None:
    systems = lake(tmp_path)
    (tmp_path / "lake" / "out").write_text("a file in the way")
    with pytest.raises(TopicError, match="out"):
        prepare(
            FILES + '.send_to(app.output_stream("out", system="lake", path="out", format="parquet"))',
            systems=systems,
            interval=HOUR,
        )


def test_what_lies_in_an_output_already_does_not_change_the_plan(prepare: Prepare, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    systems = lake(tmp_path)
    body = FILES + '.send_to(app.output_stream("out", system="lake"))'
    first = prepare(body, systems=systems, interval=HOUR)
    pq.write_table(pa.table({"other": ["x"]}), tmp_path / "lake" / "out" / "a.parquet")
    assert prepare(body, systems=systems, interval=HOUR, run_id="run-2").plan == first.plan


def test_no_secret_goes_into_the_run_plan(prepare: Prepare, tmp_path: Path) -> None:
    root = tmp_path / "root"
    binding = SystemBinding("log", {"root": str(root), "password": "hush-hush"}, frozenset({"password"}))
    run = prepare(f'    {STREAM}system="safe", partitions=2){SENT}', systems={"safe": binding})
    assert run.systems["safe"] == {"kind": "log", "options": {}}
    written = [path.read_bytes() for path in (root / "runs").rglob("*") if path.is_file()]
    assert written
    assert not any(b"hush-hush" in data for data in written)


def test_a_topic_keeps_its_name_in_its_system(prepare: Prepare, log: LogSystem) -> None:
    run = prepare(TWO_STAGES, config={"streams.counts.samza.physical.name": "word-counts"})
    assert run.streams["counts"].spec.name == "word-counts"
    assert "word-counts" in log.metadata([StreamSpec("word-counts")])


COPIES = """
from airflow_samza import stream_application

def describe(app):
    words = app.input_stream("words", schema="word string, n bigint", partitions=2)
    words.partition_by("word", id="s").send_to(app.output_stream("out", partitions=2))

one = stream_application("a", app_id="b-1-c")(describe)
other = stream_application("a-1-b", app_id="c")(describe)
copy = stream_application("a", app_id="us")(describe)
"""


@pytest.fixture
def copies(tmp_path: Path, log: LogSystem, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], RunPlan]:
    ChangingModules(tmp_path, monkeypatch).write("copies_app", COPIES)
    return lambda name: SparkRuntime(str(tmp_path / "root")).prepare(RunRequest(f"copies_app:{name}", "run-1"))


def test_two_applications_whose_names_run_into_each_other_have_topics_of_their_own(
    copies: Callable[[str], RunPlan], log: LogSystem
) -> None:
    first = Generation(1, 1)
    one, other = (copies(name).intermediate("s", first).spec for name in ("one", "other"))
    assert one.name != other.name
    assert {one.name, other.name} <= set(log.topics())
    assert log.topic(one.name).owner == one.owner == ("a", "b-1-c", "s", "run-1")
    with pytest.raises(TopicError, match="belongs to application 'a' with the id 'b-1-c'"):
        log.consumer(dataclasses.replace(other, name=one.name))


def test_rejects_a_run_of_another_copy_of_the_application(copies: Callable[[str], RunPlan]) -> None:
    copies("one")
    with pytest.raises(
        ConfigError, match="The run 'run-1' of 'a' belongs to its copy with the id 'b-1-c', not to the one with 'us'"
    ):
        copies("copy")


def test_a_plan_that_was_made_before_names_changed_keeps_its_topics(copies: Callable[[str], RunPlan]) -> None:
    run = copies("one")
    assert decode(RunPlan, encode(run), "r") == run
    former = {name: value for name, value in json.loads(encode(run)).items() if name != "names"}
    assert (
        decode(RunPlan, json.dumps(former).encode(), "r").intermediate("s", Generation(1, 1)).spec.name
        == "a-b-1-c-s/run-1/1.1"
    )


@pytest.mark.parametrize(
    ("declared", "systems"),
    [
        ('app.input_stream("pages", system="log", schema="n bigint")', {"logs": "files"}),
        ('app.input_stream("pages", system="log", schema="n bigint", partitions=2)', {"logs": "files"}),
        ('app.shared_stream("pages", system="log", schema="n bigint")', {"logs": "log"}),
        (
            'app.input_stream("pages", system="lak", schema="n bigint", partitions=1, format="json")',
            {"lak": "files", "lake": "files"},
        ),
    ],
    ids=["input", "counted", "shared", "files"],
)
def test_a_stream_that_is_not_there_asks_for_the_system_of_a_near_name(
    prepare: Prepare, tmp_path: Path, declared: str, systems: dict[str, str]
) -> None:
    bound = {name: SystemBinding(kind, {"root": str(tmp_path / name)}) for name, kind in systems.items()}
    for name in bound:
        (tmp_path / name).mkdir()
    with pytest.raises(TopicError) as caught:
        prepare(f'    {declared}.send_to(app.output_stream("out", system="log", partitions=1))', systems=bound)
    assert caught.value.hint.startswith(f"Did you mean the system {max(systems, key=len)!r}? ")


def test_systems_that_the_application_uses_are_no_slip(prepare: Prepare, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    with pytest.raises(TopicError) as caught:
        prepare(
            '    app.input_stream("pages", system="log", schema="n bigint").send_to('
            'app.output_stream("out", system="logs", partitions=1))',
            systems={"logs": SystemBinding("files", {"root": str(tmp_path / "logs")})},
        )
    assert "Did you mean" not in caught.value.hint


def test_a_plan_knows_the_version_of_the_code_and_the_one_by_which_it_was_planned_before(prepare: Prepare) -> None:
    def bundle(version: str) -> dict[str, str]:
        return {"name": "dags", "version": version}

    assert prepare(TWO_STAGES, bundle=bundle("abc")).bundle == bundle("abc")
    assert prepare(TWO_STAGES, bundle=bundle("def")).bundle == bundle("abc")  # a retry goes by the plan
    cleared = prepare(TWO_STAGES, bundle=bundle("def"), generation=2)
    assert cleared.bundle == {**bundle("def"), "before": "abc"}
    assert prepare(TWO_STAGES, bundle=bundle("def"), generation=3).bundle == bundle("def")
    assert prepare(TWO_STAGES, generation=4).bundle == {}

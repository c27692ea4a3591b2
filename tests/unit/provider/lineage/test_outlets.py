"""Events of assets: every output has one by where its data lies, with what was written and of which slice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAlias
from airflow.sdk.exceptions import AirflowRuntimeError
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_samza.errors import ConfigError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.airflow_versions import AirflowException
from airflow_samza.provider.assets import shared_stream
from airflow_samza.provider.lineage import outlets
from airflow_samza.provider.lineage.dataset_names import DatasetName, path_dataset
from airflow_samza.provider.lineage.outlets import DATA_INTERVAL, Slice, alias_of_all, announce, output_alias, slice_of
from airflow_samza.provider.lineage.task_lineage import names_in
from airflow_samza.provider.operators.stream import SamzaStreamOperator
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import OutputResult, StageResult
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.system import SystemBinding

DAY = ("2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00")
needs_partitions = pytest.mark.skipif(
    not airflow_versions.events_take_partitions(), reason="events have partitions since Airflow 3.3"
)


@pytest.fixture(autouse=True)
def _no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = SimpleNamespace(add_input_asset=lambda *_, **__: None, add_output_asset=lambda *_, **__: None)
    monkeypatch.setattr(outlets, "hook_lineage", lambda: nobody)


def place(name: str) -> DatasetName:
    return DatasetName("s3://lake", name, f"s3://lake/{name}")


def output(stream: str, rows: int = 5, files: Sequence[str] = ("a", "b")) -> OutputResult:
    return OutputResult(stream, "warehouse", stream, 2, rows, 0, rows * 10, own=False, facts={"files": list(files)})


def events_of(
    written: Sequence[OutputResult],
    declared: Sequence[Any],
    slice_: Slice | None = None,
    generation: str = "1.1",
    hook: Any = None,
) -> Any:
    run: Any = SimpleNamespace(application="app", run_id="run-1", is_own=lambda _: False)
    names = {
        found.stream_id: place("same" if found.stream_id in ("one", "two") else found.stream_id) for found in written
    }
    result = StageResult("app", "run-1", "s", generation, 2, 1.0, 1.0, (), tuple(written))
    events = OutletEventAccessors()
    announce(events, declared, run, [result], hook or bound_by({}), names, slice_ or Slice())
    return events


def bound_by(systems: Mapping[str, str], files: LocalFilesystem | None = None) -> Any:
    """Return a hook with the connections of systems."""
    return SimpleNamespace(files=files, conn_id="samza_default", systems=systems)


def test_an_output_is_announced_by_where_it_lies_with_rows_files_and_bytes() -> None:
    alias = output_alias("warehouse", "out")
    (event,) = events_of([output("out")], [alias], Slice(None, "2026-01-02T00:00:00", DAY))[alias].asset_alias_events
    assert event.dest_asset_key.uri == "s3://lake/out"
    assert event.extra == {
        "stream": "out",
        "application": "app",
        "run_id": "run-1",
        "stage": "s",
        "generation": "1.1",
        "rows": 5,
        "bytes": 50,
        "files": 2,
        "partition_key": "2026-01-02T00:00:00",
        "interval": list(DAY),
    }


def test_the_event_of_an_output_says_how_its_expectations_came_out() -> None:
    alias = output_alias("warehouse", "out")
    written = replace(
        output("out"), expectations=(ExpectationResult("not_null(city)", "not_null", "warned", ("city",), 5, 1),)
    )
    (event,) = events_of([written], [alias])[alias].asset_alias_events
    assert event.extra["expectations"] == {"not_null(city)": "warned"}


@pytest.mark.parametrize("systems", [{}, {"warehouse": "samza_eu"}])
def test_a_stream_of_the_same_id_under_another_connection_is_none_of_this_run(systems: dict[str, str]) -> None:
    own, users = shared_stream("out", systems.get("warehouse")), shared_stream("out", "samza_us")
    events = events_of([output("out")], [own, users], hook=bound_by(systems))
    assert (events[own].extra["stream"], events[users].extra) == ("out", {})


def test_an_asset_that_airflow_does_not_know_is_announced_in_turn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(airflow_versions, "knows_asset", lambda uri: False)
    alias, hook = output_alias("warehouse", "out"), bound_by({}, LocalFilesystem(tmp_path))
    assert len(events_of([output("out")], [alias], hook=hook)[alias].asset_alias_events) == 1
    (turn,) = tmp_path.glob("assets/*/*.json")
    assert json.loads(turn.read_text())["by"] == "run-1"


def test_an_output_is_announced_where_turns_cannot_be_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(airflow_versions, "knows_asset", lambda uri: False)
    (tmp_path / "assets").write_text("a file in the place of the folder")
    alias, hook = output_alias("warehouse", "out"), bound_by({}, LocalFilesystem(tmp_path))
    assert len(events_of([output("out")], [alias], hook=hook)[alias].asset_alias_events) == 1


@pytest.mark.parametrize(("events", "known"), [([], False), ([object()], True)])
def test_airflow_knows_an_asset_that_has_had_an_event(
    monkeypatch: pytest.MonkeyPatch, events: list[object], known: bool
) -> None:
    asked: list[Any] = []

    def send(message: Any) -> Any:
        asked.append(message)
        return SimpleNamespace(asset_events=events)

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)
    assert airflow_versions.knows_asset("s3://lake/out") is known
    assert (asked[0].name, asked[0].uri) == ("s3://lake/out", "s3://lake/out")


def test_nobody_waits_for_an_airflow_that_gives_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(message: Any) -> Any:
        raise AirflowRuntimeError(ErrorResponse())

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", SimpleNamespace(send=send), raising=False)
    assert airflow_versions.knows_asset("s3://lake/out")


def test_nobody_waits_for_an_airflow_that_gives_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    comms = SimpleNamespace(send=lambda message: ErrorResponse())
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", comms, raising=False)
    assert airflow_versions.knows_asset("s3://lake/out")


def test_a_process_without_a_supervisor_asks_for_no_asset() -> None:
    assert airflow_versions.knows_asset("s3://lake/out")


def test_a_task_that_is_executed_by_hand_announces_nothing() -> None:
    run: Any = SimpleNamespace(application="app", run_id="run-1", is_own=lambda _: False)
    result = StageResult("app", "run-1", "s", "1.1", 2, 1.0, 1.0, (), (output("out"),))
    hook = bound_by({})
    announce(None, [alias_of_all("warehouse", "app")], run, [result], hook, {"out": place("out")})


def test_an_alias_of_the_users_gets_no_event_of_an_output_that_it_does_not_name() -> None:
    declared = [
        AssetAlias("mine"),
        output_alias("warehouse", "other"),
        Asset(name="samza-outputs:mine", uri="s3://mine"),
    ]
    events = events_of([output("out")], declared)
    assert [events[alias].asset_alias_events for alias in declared[:2]] == [[], []]
    assert events[declared[2]].extra == {}


def test_the_alias_of_a_whole_application_gets_the_events_of_outputs_without_one_of_their_own() -> None:
    own, whole = output_alias("warehouse", "out"), alias_of_all("warehouse", "app")
    events = events_of([output("out"), output("other")], [AssetAlias("mine"), own, whole])
    for alias, uri in ((own, "s3://lake/out"), (whole, "s3://lake/other")):
        assert [event.dest_asset_key.uri for event in events[alias].asset_alias_events] == [uri]


def test_an_empty_output_is_announced_with_no_rows() -> None:
    alias = output_alias("warehouse", "out")
    (event,) = events_of([output("out", 0, ())], [alias])[alias].asset_alias_events
    assert (event.extra["rows"], event.extra["files"]) == (0, 0)


def test_outputs_at_one_place_are_one_event_with_their_sums() -> None:
    aliases = [output_alias("warehouse", "one"), output_alias("warehouse", "two")]
    events = events_of([output("one", 2), output("two", 3)], aliases)
    found = [event for alias in aliases for event in events[alias].asset_alias_events]
    assert [(e.dest_asset_key.uri, e.extra["rows"], e.extra["files"], e.extra["streams"]) for e in found] == [
        ("s3://lake/same", 5, 4, ["one", "two"])
    ]


@needs_partitions
def test_an_asset_that_the_dag_names_gets_event_and_partition_key_and_the_alias_none() -> None:
    asset, alias = Asset("s3://lake/out"), output_alias("warehouse", "out")
    events = events_of([output("out")], [asset, alias, Asset("something-else")], Slice("k", "k"))
    assert events[asset].partition_keys == {"k"}
    assert events[asset].extra["rows"] == 5
    assert events[alias].asset_alias_events == []


def test_without_a_key_of_its_own_an_event_has_that_of_the_dag_run() -> None:
    asset = Asset("s3://lake/out")
    event = events_of([output("out")], [asset], Slice(None, "of-the-run"))[asset]
    assert getattr(event, "partition_keys", set()) == set()  # Airflow adds the run's; another would hide the event
    assert event.extra["partition_key"] == "of-the-run"


def test_a_task_that_runs_a_whole_application_announces_all_outputs_by_one_alias() -> None:
    alias = alias_of_all("samza_default", "module:app")
    events = events_of([output("out"), output("other")], [alias])
    assert {event.dest_asset_key.uri for event in events[alias].asset_alias_events} == {
        "s3://lake/out",
        "s3://lake/other",
    }


def test_an_output_whose_place_makes_no_asset_fails_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    alias = output_alias("warehouse", "out")
    monkeypatch.setattr(outlets, "Asset", _Reject)
    assert events_of([output("out")], [alias])[alias].asset_alias_events == []


def test_letters_beyond_ascii_are_quoted_in_the_assets_uri() -> None:
    named = path_dataset("données/{ds} x", "s3://lake")
    assert named == DatasetName("s3://lake", "données/{ds} x", "s3://lake/donn%C3%A9es/{ds}%20x")
    assert Asset(name=named.uri, uri=named.uri).uri == named.uri


class _Reject(Asset):
    def __init__(self, *_: Any, **__: Any) -> None:
        raise ValueError("no such scheme")


def test_a_cleared_stage_announces_its_new_generation() -> None:
    alias = output_alias("warehouse", "out")
    (event,) = events_of([output("out")], [alias], generation="1.2")[alias].asset_alias_events
    assert event.extra["generation"] == "1.2"


@pytest.mark.parametrize(
    ("given", "of_run", "interval", "key", "named"),
    [
        (None, None, None, None, None),
        (None, None, DAY, None, "2026-01-02T00:00:00"),
        (None, "eu", DAY, None, "eu"),
        (DATA_INTERVAL, None, DAY, "2026-01-02T00:00:00", "2026-01-02T00:00:00"),
        (DATA_INTERVAL, "eu", None, None, "eu"),
        ("region-3", "eu", DAY, "region-3", "region-3"),
        ("  ", None, None, None, None),
    ],
)
def test_the_partition_key_is_the_tasks_else_the_runs_else_the_data_intervals(
    given: Any, of_run: str | None, interval: Any, key: str | None, named: str | None
) -> None:
    found = slice_of({"partition_key": of_run}, given, "t", interval)
    assert (found.key, found.named) == (key, named)


def test_rejects_a_partition_key_that_airflow_cannot_keep() -> None:
    with pytest.raises(ConfigError, match="has 251 characters, and Airflow keeps 250"):
        slice_of({}, "k" * 251, "t", None)


def test_rejects_a_partition_key_where_events_have_no_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_versions, "events_take_partitions", lambda: False)
    with pytest.raises(ConfigError, match="gives asset events no partitions"):
        SamzaStreamOperator(task_id="t", application="provider_applications:views", partition_key="k")


def test_a_run_that_failed_announces_nothing(runtime: Any, make_context: Any, stage_failed: Any) -> None:
    operator = SamzaStreamOperator(
        task_id="t", application="provider_applications:views", poll_interval=0.001, deferrable=False
    )
    runtime.ends["by-member"] = stage_failed
    events = OutletEventAccessors()
    with pytest.raises(AirflowException):
        operator.execute({**make_context(operator), "outlet_events": events})
    assert list(events) == []


def test_an_operator_by_itself_has_an_alias_unless_its_place_is_known_later() -> None:
    application = "provider_applications:views"
    alone = SamzaStreamOperator(task_id="t", application=application, outlets=[Asset("mine")])
    assert alone.outlets == [AssetAlias(f"samza-outputs:samza_default/{application}"), Asset("mine")]
    assert SamzaStreamOperator(task_id="t", application=application, conn_id="{{ params.c }}").outlets == []
    assert SamzaStreamOperator(task_id="t", application=application, stage="by-member").outlets == []


@pytest.mark.parametrize(
    ("root", "lake", "names"),
    [
        ("/srv/root", "/data", ("/data/trips", "/srv/root/topics/trips-1-by-city", "/data/per-city")),
        ("file:///srv/root", "file:///data", ("/data/trips", "/srv/root/topics/trips-1-by-city", "/data/per-city")),
    ],
)
def test_datasets_on_a_disk_are_named_by_their_paths(tmp_path: Path, root: str, lake: str, names: Any) -> None:
    run = planned(tmp_path)
    hook: Any = SimpleNamespace(bindings=lambda: bound(lake), root=root)
    found = names_in(hook, run)
    assert tuple(found[stream].name for stream in ("trips", "by-city", "per-city")) == names
    assert {name.namespace for name in found.values()} == {"file"}


def test_datasets_keep_their_names_whichever_connection_run_or_host_reads_them(tmp_path: Path) -> None:
    run = planned(tmp_path)
    hooks: list[Any] = [
        SimpleNamespace(bindings=lambda url=url: bound(url), root=url) for url in ("s3a://lake/x/", "s3://lake/x")
    ]
    one, other = (names_in(hook, run) for hook in hooks)
    assert one == other
    assert one["trips"] == DatasetName("s3://lake", "x/trips", "s3://lake/x/trips")
    assert one["by-city"].name == "x/topics/trips-1-by-city"


def planned(place: Path) -> RunPlan:
    (place / "trips").mkdir()
    (place / "trips" / "a.csv").write_text("city,km,paid\nRome,3,true\n")
    return SparkRuntime(str(place / "root"), bound(str(place))).prepare(
        RunRequest("provider_applications:trips", "run-1")
    )


def bound(root: str) -> dict[str, SystemBinding]:
    return {name: SystemBinding("files", {"root": root}) for name in ("lake", "warehouse")}

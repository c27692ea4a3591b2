"""Tasks of pushed tables: requests to the hook, records that they leave, and waiting."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_samza.errors import ConcurrentPush, ConfigError, PushError, SamzaError, StorageUnavailable, TopicError
from airflow_samza.launch import stage_watch
from airflow_samza.provider import airflow_versions
from airflow_samza.provider.airflow_versions import (
    AirflowException,
    AirflowFailException,
    AirflowTaskTimeout,
    TaskDeferralError,
    TaskDeferred,
)
from airflow_samza.provider.assets import pushed_table
from airflow_samza.provider.connections.spark import source_options
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.lineage.outlets import output_alias
from airflow_samza.provider.operators import table_push
from airflow_samza.provider.operators.table_push import SamzaTablePushOperator, SamzaTableRollbackOperator
from airflow_samza.provider.stats import part_of_name
from airflow_samza.provider.triggers.tables import TablePushTrigger
from airflow_samza.runs.records.expectations import ExpectationResult
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.stages.stage_state import SUCCEEDED, StageHandle, StageStatus
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.push_request import PushResult, push_handle
from airflow_samza.runs.tables.table_version import TableVersion, now
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.pace import FREE
from airflow_samza.systems.filesystems.root_access import NO_ACCESS
from tests.support.airflow_names import OutletEvents, metrics_sent_to

APPLICATION = "provider_applications:with_table"
VERSION = TableVersion(
    1,
    "x",
    "full",
    (("pushes/t/x", "1.1"),),
    ((0, 2), (0, 3)),
    1,
    5,
    99,
    "id bigint",
    ("id",),
    now(),
    table="t",
)


class Pushing:
    """Plays the runtime's part in pushes."""

    pace = FREE

    def __init__(self, files: LocalFilesystem) -> None:
        self.files = files
        self.pushed: list[tuple[str, str, Any, str, dict[str, Any]]] = []
        self.cancelled: list[StageHandle] = []
        self.error: SamzaError | None = None
        self.states = ["running", SUCCEEDED]

    def push(self, application: str, table: str, source: Any, push_id: str, **given: Any) -> StageHandle:
        self.pushed.append((application, table, source, push_id, given))
        return push_handle("with-table", table, push_id)

    def status(self, handle: StageHandle) -> StageStatus:
        return StageStatus(self.states.pop(0) if len(self.states) > 1 else self.states[0], 1)

    def finish_push(self, handle: StageHandle) -> TableVersion:
        if self.error is not None:
            raise self.error
        return versions.add(self.files, "log", "t-push", VERSION)

    def cancel(self, handle: StageHandle) -> None:
        self.cancelled.append(handle)

    def pushed_table(self, application: str, table: str, config: Any = None) -> TableFolder:
        return TableFolder("log", f"{table}-push")


@pytest.fixture
def pushing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Pushing:
    found = Pushing(LocalFilesystem(tmp_path))
    monkeypatch.setattr(SamzaHook, "get_conn", lambda self: found)
    monkeypatch.setattr(SamzaHook, "root", str(tmp_path))
    monkeypatch.setattr(SamzaHook, "access", NO_ACCESS)
    monkeypatch.setattr(SamzaHook, "reject_short_lived", lambda *_: None)
    return found


class Event:
    """An asset's event as a task sees it."""

    def __init__(self) -> None:
        self.extra: dict[str, Any] = {}
        self.keys: list[str] = []
        self.added: list[Asset] = []

    def add_partitions(self, key: str) -> None:
        self.keys.append(key)

    def add(self, asset: Asset, extra: dict[str, Any]) -> None:
        self.added.append(asset)


def push(**given: Any) -> SamzaTablePushOperator:
    return SamzaTablePushOperator(
        **{"task_id": "push", "application": APPLICATION, "table": "t", "source": "/in", "deferrable": False, **given}
    )


def test_a_push_is_named_after_the_dag_run_and_task(pushing: Pushing, make_context: Any) -> None:
    operator = push(mode="incremental", deletes="gone", min_rows="5", max_change_ratio="inf", compact_after=3)
    found = operator.execute(make_context(operator))
    ((application, table, source, push_id, given),) = pushing.pushed
    assert (application, table, source) == (APPLICATION, "t", "/in")
    assert push_id.startswith("flights-push-manual__2026-01-01")
    assert (given["mode"], given["deletes"], given["min_rows"], given["max_change_ratio"]) == (
        "incremental",
        "gone",
        5,
        float("inf"),
    )
    assert given["compact_after"] == 3
    assert (found["version"], found["rows"], found["bytes"], found["offsets"]) == (1, 5, 99, [[0, 2], [0, 3]])


class Gauges:
    """The receiver of Airflow's metrics."""

    def __init__(self) -> None:
        self.sent: dict[str, tuple[float, Any]] = {}

    def gauge(self, name: str, value: float, *, tags: Any = None) -> None:
        self.sent[name] = (value, tags)


def test_rows_that_do_not_meet_what_a_table_expects_are_a_metric_as_of_a_stage(
    pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = (ExpectationResult("n > 0", "condition", "warned", rows=5, failed=2),)
    monkeypatch.setattr(sys.modules[__name__], "VERSION", replace(VERSION, expectations=results))
    gauges, operator = Gauges(), push()
    with metrics_sent_to(gauges):
        operator.execute(make_context(operator))
    named = part_of_name("t: n > 0")
    tags = {"application": "with-table", "stage": "push", "expectation": named}
    assert gauges.sent["samza.stage.expectation_failures"] == (2.0, tags)
    assert gauges.sent[f"samza.with-table.push.expectations.{named}.failures"][0] == 2.0


def test_a_push_that_is_rejected_sends_the_rows_of_the_expectation_that_it_does_not_meet(
    pushing: Pushing, make_context: Any
) -> None:
    pushing.error = PushError("It does not meet n > 0.", hint="Correct it.", table="t", expectation="n > 0", failed=7)
    gauges, operator = Gauges(), push()
    with metrics_sent_to(gauges), pytest.raises(AirflowFailException):
        operator.execute(make_context(operator))
    assert gauges.sent["samza.stage.expectation_failures"][0] == 7.0


def test_each_version_is_an_event_of_the_tables_asset(
    pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_versions, "events_take_partitions", lambda: True)
    operator = push(partition_key="2026-01-01")
    events = OutletEvents(Event)
    operator.execute({**make_context(operator), "outlet_events": events})
    event = events[pushed_table("t")]
    assert operator.outlets == [pushed_table("t"), output_alias("samza_default", "t-push")]
    assert (event.extra["version"], event.extra["rows"], event.extra["partition_key"]) == (1, 5, "2026-01-01")
    assert event.keys == ["2026-01-01"]


@pytest.mark.parametrize("is_named", [False, True])
def test_each_version_is_an_event_of_the_asset_by_where_the_table_lies(
    pushing: Pushing, make_context: Any, tmp_path: Path, is_named: bool
) -> None:
    place = f"file://{tmp_path}/topics/t-push"
    operator = push(outlets=[Asset(place)] if is_named else [])
    events = OutletEventAccessors()
    operator.execute({**make_context(operator), "outlet_events": events})
    by_alias = events[output_alias("samza_default", "t-push")].asset_alias_events
    assert [event.dest_asset_key.uri for event in by_alias] == ([] if is_named else [place])
    told = events[Asset(place)].extra if is_named else by_alias[0].extra
    assert told == events[pushed_table("t")].extra
    assert (told["version"], told["rows"]) == (1, 5)


def test_a_runner_that_cannot_be_ended_does_not_hide_why_its_push_has_failed(
    pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise StorageUnavailable("The root is away.")

    monkeypatch.setattr(SamzaHook, "close_push", away)
    pushing.error = ConfigError("The push is odd.", hint="Change it.", key="odd")
    with pytest.raises(AirflowFailException, match=r"The push is odd\."):
        push().execute(make_context(push()))


def test_a_push_whose_trigger_failed_tells_its_table_to_openlineage(
    pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(table_push, "openlineage_is_active", lambda: True)
    operator = push(deferrable=True)
    context = make_context(operator)
    with pytest.raises(TaskDeferralError):
        operator.resume_execution("__fail__", {"error": "Trigger failure"}, context)
    told = operator.get_openlineage_facets_on_failure(context["ti"])
    assert [dataset.name for dataset in told.inputs] == ["/in"]
    assert [dataset.name for dataset in told.outputs] == [f"{tmp_path}/topics/t-push"]
    assert "Trigger failure" in told.run_facets["errorMessage"].message


def test_rejects_a_partition_key_where_airflow_gives_events_no_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(airflow_versions, "events_take_partitions", lambda: False)
    with pytest.raises(ConfigError, match=r"'push' has partition_key='2026-01-01', and Airflow .* no partitions"):
        push(partition_key="2026-01-01")


def test_an_event_without_partitions_names_the_key_of_its_run(
    pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow_versions, "events_take_partitions", lambda: False)
    operator = push()
    events = OutletEvents(Event)
    operator.execute({**make_context(operator), "outlet_events": events, "partition_key": "2026-01-01"})
    event = events[pushed_table("t")]
    assert (event.extra["partition_key"], event.keys) == ("2026-01-01", [])


def test_events_take_partitions_where_airflow_has_them() -> None:
    has_them = tuple(int(part) for part in airflow_versions.airflow_version().split(".")[:2]) >= (3, 3)
    assert airflow_versions.events_take_partitions() == has_them


def test_a_rejected_push_fails_for_good_and_a_lost_race_may_be_tried_again(pushing: Pushing, make_context: Any) -> None:
    operator = push()
    pushing.error = PushError("too few rows")
    with pytest.raises(AirflowFailException, match="too few rows"):
        operator.execute(make_context(operator))
    pushing.error = ConcurrentPush("lost version 2")
    with pytest.raises(AirflowException, match="lost version 2") as lost:
        operator.execute(make_context(operator))
    assert not isinstance(lost.value, AirflowFailException)


def test_a_deferred_push_waits_in_the_trigger_and_is_finished_afterwards(pushing: Pushing, make_context: Any) -> None:
    operator = push(deferrable=True)
    pushing.states = ["queued"]
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(make_context(operator))
    assert isinstance(deferred.value.trigger, TablePushTrigger)
    pushing.states = [SUCCEEDED]
    found = operator.execute_complete(make_context(operator), {"state": SUCCEEDED}, **(deferred.value.kwargs or {}))
    assert found["version"] == 1


def test_a_kill_cancels_the_push(pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    operator = push()
    pushing.states = ["running"]
    monkeypatch.setattr(
        stage_watch, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: operator.on_kill())
    )
    with pytest.raises(AirflowException, match=r"The task was killed; push of run .* was cancelled"):
        operator.execute(make_context(operator))
    assert {handle.stage_id for handle in pushing.cancelled} == {"push"}


def test_a_storage_that_does_not_answer_for_a_moment_costs_no_try_of_a_push(
    pushing: Pushing, make_context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [TopicError("The storage cannot read status.json: Stale file handle.", errno=116)]

    def status(handle: StageHandle) -> StageStatus:
        if answers:
            raise answers.pop()
        return StageStatus(SUCCEEDED, 1)

    monkeypatch.setattr(pushing, "status", status)
    monkeypatch.setattr(stage_watch, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    operator = push()
    assert operator.execute(make_context(operator))["version"] == 1
    assert not pushing.cancelled


def test_a_push_that_outlives_its_time_is_cancelled(pushing: Pushing, make_context: Any) -> None:
    operator = push()
    handle = push_handle("with-table", "t", "x")
    with pytest.raises(AirflowTaskTimeout):
        operator.execute_complete(make_context(operator), {"timed_out": True}, push=handle.to_dict(), deadline=1.0)
    assert pushing.cancelled == [handle]


def test_the_trigger_fires_when_the_push_has_ended(tmp_path: Path) -> None:
    files = LocalFilesystem(tmp_path)
    handle = push_handle("with-table", "t", "x")
    trigger = TablePushTrigger(root=str(tmp_path), poll_interval=0.01, push=handle.to_dict())
    again = TablePushTrigger(**trigger.serialize()[1])
    write_once(files, handle.folder.result, PushResult())

    async def first() -> Any:
        return await anext(again.run())

    assert asyncio.run(first()).payload["state"] == SUCCEEDED


def test_a_rollback_needs_no_spark_and_is_an_event_too(pushing: Pushing, make_context: Any) -> None:
    versions.add(pushing.files, "log", "t-push", VERSION)
    operator = SamzaTableRollbackOperator(task_id="back", application=APPLICATION, table="t", to="1")
    events = OutletEvents(Event)
    context = {**make_context(operator), "outlet_events": events}
    found = operator.execute(context)
    assert (found["version"], found["reads"], found["kind"]) == (2, 1, "rollback")
    assert operator.execute(context)["version"] == 2
    assert events[pushed_table("t")].extra["version"] == 2


def test_a_connection_brings_url_user_and_password() -> None:
    jdbc = SimpleNamespace(
        conn_type="jdbc", host="jdbc:h2:mem:x", login="u", password="p", port=None, schema=None, extra='{"driver": "D"}'
    )
    assert source_options("c", jdbc) == {"url": "jdbc:h2:mem:x", "user": "u", "password": "p", "driver": "D"}
    pg = SimpleNamespace(conn_type="postgres", host="db", login="u", password="p", port=None, schema="s", extra="")
    assert source_options("c", pg)["url"] == "jdbc:postgresql://db:5432/s"

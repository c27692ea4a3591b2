"""Slots of outputs as a plan knows them: what is a run's, and what systems that replace nothing say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import stream_application
from airflow_samza.errors import InvalidApplication
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.notes import joined
from airflow_samza.prepare.output_slots import run_slot, slot_notes
from airflow_samza.prepare.publication import output_claim
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.capabilities import OutputClaim
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.memory.system import MemorySystem
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.slot_apps import catching_up, daily
from tests.support.slot_runs import notes

DAY = DataInterval.from_iso("2013-01-01", "2013-01-02")


def request(**more: object) -> RunRequest:
    return RunRequest("tests.support.slot_apps:daily", "run-1", **more)  # type: ignore[arg-type]


def test_a_slot_is_the_interval_the_partition_key_and_the_configuration_of_the_applications_own() -> None:
    spec = daily.spec({})
    assert run_slot(spec, request()) is None
    first = run_slot(spec, request(interval=DAY))
    assert first == OutputSlot("daily", "1", DAY.iso())
    assert run_slot(spec, request(interval=DAY, config={"job.epoch.max.ms": "5", "app.mode": "BATCH"})) == first
    assert run_slot(spec, request(partition_key="nl")) == OutputSlot("daily", "1", None, "nl")
    slots = [
        run_slot(spec, request(interval=DAY, **more))
        for more in ({}, {"partition_key": "nl"}, {"config": {"region": "nl"}}, {"config": {"region": "be"}})
    ]
    assert len({slot.code for slot in slots if slot is not None}) == 4


def test_intervals_of_one_time_are_one_slot_whatever_zone_they_are_told_in() -> None:
    spec = daily.spec({})
    there = DataInterval.from_iso("2012-12-31T19:00:00-05:00", "2013-01-01T19:00:00-05:00")
    found = [run_slot(spec, request(interval=interval)) for interval in (DAY, there)]
    assert found[0] == found[1] is not None


def test_a_run_that_goes_on_from_a_state_has_no_slot() -> None:
    assert run_slot(catching_up.spec({}), request(interval=DAY, partition_key="nl")) is None


@stream_application("to-spark")
def to_spark(app):  # type: ignore[no-untyped-def]
    """Write a day to a table by each of the modes of Spark."""
    rows = app.input_stream("rows", system="lake", schema="n bigint", path="in/{ds}.jsonl", partitions=1)
    rows.send_to(app.output_stream("added", system="spark", options={"table": "added"}))
    rows.send_to(app.output_stream("said", system="spark", mode="append", options={"table": "said"}))
    rows.send_to(app.output_stream("whole", system="spark", mode="overwrite", options={"table": "whole"}))


def test_a_plan_says_that_what_spark_appends_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/2013-01-01.jsonl").write_text('{"n": 1}\n')
    bindings = {"lake": SystemBinding("files", {"root": str(tmp_path)}), "spark": SystemBinding("spark", {})}
    runtime = SparkRuntime(str(tmp_path / "root"), bindings)
    asked = RunRequest("tests.unit.prepare.test_output_slots:to_spark", "run-1", interval=DAY)
    plan = runtime.preview(asked)
    said = "rows that are appended cannot be replaced: another run of the interval adds its rows"
    assert [said in notes(plan, stream) for stream in ("added", "said", "whole")] == [True, True, False]


class Brokers(MemorySystem):
    """A system whose messages cannot be taken back, as a stand-in of brokers."""

    slot_writers = None  # type: ignore[assignment]
    outside_slots = None  # type: ignore[assignment]
    successor = None  # type: ignore[assignment]

    def describe_output(self, stream: StreamSpec, claim: OutputClaim) -> str:
        return "published for good"

    def claim(self, stream: StreamSpec, claim: OutputClaim) -> None:
        """Begin."""

    def waiting(self, stream: StreamSpec, staged: Iterable[Mapping[str, Any]]) -> int:
        return 0

    def has_begun(self, stream: StreamSpec) -> bool:
        return True


@pytest.mark.parametrize(
    ("options", "said"),
    [((), 'is rejected, unless on_rerun="append"'), ((("on_rerun", "append"),), "adds its messages")],
)
def test_a_plan_says_that_messages_at_brokers_are_not_replaced(
    tmp_path: Path, options: tuple[tuple[str, str], ...], said: str
) -> None:
    run = planned(tmp_path, options)
    found = joined([slot_notes(run, {"lake": Brokers()}, open_filesystem(str(tmp_path / "root")))])
    assert found == {
        "rows": {"out": f"messages that are published cannot be replaced: another run of the interval {said}"}
    }


def planned(folder: Path, options: tuple[tuple[str, str], ...]) -> RunPlan:
    """Return the plan of a day, whose output has other options."""
    import dataclasses

    (folder / "in").mkdir()
    (folder / "in/2013-01-01.jsonl").write_text('{"n": 1}\n')
    runtime = SparkRuntime(str(folder / "root"), {"lake": SystemBinding("files", {"root": str(folder)})})
    run = runtime.preview(request(interval=DAY))
    out = run.streams["out"]
    return dataclasses.replace(
        run,
        streams={**run.streams, "out": dataclasses.replace(out, spec=dataclasses.replace(out.spec, options=options))},
    )


def test_the_mode_of_an_output_is_an_option_and_a_parameter() -> None:
    @stream_application("modes")
    def modes(app):  # type: ignore[no-untyped-def]
        rows = app.input_stream("rows", schema="n bigint", partitions=1)
        rows.send_to(app.output_stream("one", mode="append"))
        rows.send_to(app.output_stream("other", options={"mode": "append"}))
        rows.send_to(app.output_stream("same", mode="append", options={"mode": "append", "header": False}))

    outputs = modes.spec({}).outputs
    assert outputs["one"].options == outputs["other"].options == (("mode", "append"),)
    assert outputs["same"].options == (("header", "false"), ("mode", "append"))

    @stream_application("wrong")
    def wrong(app):  # type: ignore[no-untyped-def]
        app.output_stream("one", mode=7)

    with pytest.raises(InvalidApplication, match=r"output stream 'one' has mode=7"):
        wrong.spec({})


def test_a_date_key_and_its_interval_in_any_zone_are_one_slot() -> None:
    spec = daily.spec({})

    def code(**more: object) -> object:
        slot = run_slot(spec, request(**more))
        assert slot is not None
        return slot.code

    assert code(partition_key="2013-01-01") == code(interval=DAY) == code(interval=DAY, partition_key="20130101")
    there = DataInterval.from_iso("2012-12-31T16:00", "2013-01-01T16:00")
    assert code(interval=there, partition_key="2013-01-01") == code(interval=there)
    week = DataInterval.from_iso("2012-12-26", "2013-01-02")
    assert code(interval=week, partition_key="2013-01-01") != code(interval=week)
    assert code(interval=DAY, partition_key="2013-01-01T00:00:00") == code(interval=DAY)
    assert code(partition_key="2013-01-01T00:00:00") != code(interval=DAY)


def test_what_is_published_for_good_is_of_a_key_too(tmp_path: Path) -> None:
    claims = []
    for more in ({"interval": DAY}, {"partition_key": "2013-01-01"}, {"interval": DAY, "partition_key": "nl"}):
        runtime = SparkRuntime(str(tmp_path), systems={"lake": SystemBinding("files", {"root": str(tmp_path)})})
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in/2013-01-01.jsonl").write_text('{"n": 1}\n')
        run = runtime.preview(request(**more))
        stage = run.plan.stages[0].stage_id
        claims.append(output_claim(run, stage, Generation(1, 1), carries_state=False).interval)
        assert output_claim(run, stage, Generation(1, 1), carries_state=True).interval is None
    assert claims == [DAY.iso(), DAY.iso(), (*DAY.iso(), "nl")]

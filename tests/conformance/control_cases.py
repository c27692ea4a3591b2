"""Runs the control cases: bookkeeping of a consuming task, and its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from airflow_samza.control.end_of_stream import EndOfStreamBookkeeping, PartitionEnded
from airflow_samza.control.messages import EndOfStreamMessage, WatermarkMessage
from airflow_samza.control.watermarks import EMITTED, NONE_YET, WatermarkAdvanced, WatermarkBookkeeping
from tests.conformance.shape import fields


def run_end_of_stream_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["task_ssps", "steps"], ["producer_counts"])
    ends = EndOfStreamBookkeeping(_partitions(case["task_ssps"]), case.get("producer_counts", {}))
    for number, step in enumerate(case["steps"]):
        where = f"step {number}"
        fields(step, where, ["message", "expect"])
        expect = fields(step["expect"], where, [], ["emit", "stream_eos", "all_eos"])
        if not expect:
            pytest.fail(f"unknown shape: {where} expects nothing")
        emitted = _deliver(ends, step["message"])
        if "emit" in expect:
            assert emitted == expect["emit"], where
        for stream, ended in expect.get("stream_eos", {}).items():
            assert ends.stream_ended(stream) is ended, f"{where}: {stream}"
        if "all_eos" in expect:
            assert ends.all_ended() is expect["all_eos"], where


def run_watermark_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["task_ssps", "steps"], ["producer_counts", "idle_timeout_ms"])
    now = [0]
    marks = WatermarkBookkeeping(
        _partitions(case["task_ssps"]),
        case.get("producer_counts", {}),
        idle_timeout_ms=case.get("idle_timeout_ms"),
        clock=lambda: now[0],
    )
    for number, step in enumerate(case["steps"]):
        where = f"step {number}"
        fields(step, where, [], ["message", "expect", "advance_ms"])
        expect = fields(step.get("expect", {}), where, [], ["emit", "ssp", "stream"])
        if "advance_ms" not in step and not ("message" in step and expect):
            pytest.fail(f"unknown shape: {where} does or expects nothing")
        now[0] += step.get("advance_ms", 0)
        emitted = (
            _deliver_watermark(marks, step["message"])
            if "message" in step
            else [_moved(event) for event in marks.leave_out_idle()]
        )
        if "emit" in expect:
            assert emitted == expect["emit"], where
        for place, timestamp in expect.get("ssp", {}).items():
            stream, _, partition = place.rpartition("/")
            assert _watermark(marks, stream, int(partition)) == timestamp, f"{where}: {place}"
        for stream, timestamp in expect.get("stream", {}).items():
            assert marks.stream_watermark(stream) == timestamp, f"{where}: {stream}"


def _watermark(marks: WatermarkBookkeeping, stream: str, partition: int) -> int:
    told = {(entry["stream"], entry["partition"]): int(entry[EMITTED]) for entry in marks.checkpoint()}
    return told.get((stream, partition), NONE_YET)


def _deliver_watermark(marks: WatermarkBookkeeping, message: Mapping[str, Any]) -> list[dict[str, object]]:
    fields(message, "message", ["stream", "partition", "task", "timestamp"], ["task_count"])
    sent = WatermarkMessage(message["task"], message.get("task_count", 0), timestamp=message["timestamp"])
    event = marks.update(message["stream"], message["partition"], sent)
    return [] if event is None else [_moved(event)]


def _moved(event: WatermarkAdvanced) -> dict[str, object]:
    return {"type": "watermark", "stream": event.stream, "partition": event.partition, "timestamp": event.timestamp}


def run_checkpoint_case(case: Mapping[str, Any]) -> None:
    fields(case, "case", ["type", "ssps", "before", "checkpoint", "after_restore"], ["expect_emit", "expect_state"])
    if "expect_emit" not in case and "expect_state" not in case:
        pytest.fail("unknown shape: the case expects nothing")
    if case["type"] == "watermark":
        _run_watermark_checkpoint(case)
        return
    if case["type"] != "end_of_stream":
        pytest.fail(f"unknown shape: a checkpoint of type {case['type']!r}")
    partitions = _partitions(case["ssps"])
    before = EndOfStreamBookkeeping(partitions)
    for message in case["before"]:
        _deliver(before, message)
    expected = case["checkpoint"]
    after = EndOfStreamBookkeeping(partitions)
    emitted: list[dict[str, object]] = []
    if expected is not None:
        fields(expected, "checkpoint", ["stream", "partition", "total_tasks", "tasks"])
        written = before.checkpoint()
        assert [{name: entry[name] for name in expected} for entry in written] == [expected]
        after.restore(written)
    for message in case["after_restore"]:
        emitted += _deliver(after, message)
    if "expect_emit" in case:
        assert emitted == case["expect_emit"]
    for place, ended in case.get("expect_state", {}).items():
        stream, _, partition = place.rpartition("/")
        assert after.is_ended(stream, int(partition)) is ended
    if "expect_state" in case and "expect_emit" not in case:
        assert emitted == []


def _run_watermark_checkpoint(case: Mapping[str, Any]) -> None:
    partitions = _partitions(case["ssps"])
    before, after = WatermarkBookkeeping(partitions), WatermarkBookkeeping(partitions)
    for message in case["before"]:
        _deliver_watermark(before, message)
    expected = case["checkpoint"]
    if expected is not None:
        fields(
            expected,
            "checkpoint",
            ["stream", "partition", "total_tasks", "tasks_to_event_time"],
            ["timestamp_of_last_emission"],
        )
        written = before.checkpoint()
        assert [{name: entry[name] for name in expected} for entry in written] == [expected]
        after.restore(written)
    emitted = [event for message in case["after_restore"] for event in _deliver_watermark(after, message)]
    assert emitted == case.get("expect_emit", emitted)
    for place, timestamp in case.get("expect_state", {}).items():
        stream, _, partition = place.rpartition("/")
        assert _watermark(after, stream, int(partition)) == timestamp


def _partitions(ssps: Sequence[Sequence[Any]]) -> list[tuple[str, int]]:
    return [(str(stream), int(partition)) for stream, partition in ssps]


def _deliver(ends: EndOfStreamBookkeeping, message: Mapping[str, Any]) -> list[dict[str, object]]:
    fields(message, "message", ["stream", "partition", "task"], ["task_count"])
    stream, partition = message["stream"], message["partition"]
    sent = EndOfStreamMessage(message["task"], message.get("task_count", 0), stream_id=stream)
    event = ends.update(stream, partition, sent)
    return [] if event is None else [_event(event)]


def _event(event: PartitionEnded) -> dict[str, object]:
    return {"type": "end_of_stream", "stream": event.stream, "partition": event.partition}

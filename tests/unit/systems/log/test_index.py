"""A topic as its readers see it, however many commits and snapshots it has."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage, WatermarkMessage
from airflow_samza.systems.log import commits
from airflow_samza.systems.log.consumer import LogConsumer
from airflow_samza.systems.log.index import LogIndex
from airflow_samza.systems.log.maintenance import expire
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import ControlEnvelope, OffsetRange, SystemBinding, SystemStreamPartition

SIZES = (3, 1, 4, 1, 5, 2, 6, 1)
"""Messages of each commit."""


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    return LogSystem("log", SystemBinding("log"), str(tmp_path))


def filled(log: LogSystem, monkeypatch: pytest.MonkeyPatch, every: int) -> LogIndex:
    """A topic of many commits, with a snapshot of each so many."""
    monkeypatch.setattr(commits, "SNAPSHOT_EVERY", every)
    number = 0
    for size in SIZES:
        rows = [{"n": number + place, "key": place % 3} for place in range(size)]
        log.append("numbers", pa.Table.from_pylist(rows), key=["key"], partitions=2)
        number += size
    return LogIndex(log.topic("numbers"))


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_a_slice_holds_the_entries_of_its_offsets_wherever_the_snapshots_lie(
    log: LogSystem, monkeypatch: pytest.MonkeyPatch, every: int
) -> None:
    index = filled(log, monkeypatch, every)
    snapshots = log.filesystem.list(f"{log.topic('numbers').directory}/snapshots")
    assert len(snapshots) == len(SIZES) // every
    assert sum(index.head) == sum(SIZES)
    for partition in (0, 1):
        whole = [entry for entry in index.entries(partition) if entry.end > entry.offset]
        assert [entry.offset for entry in whole] == [0, *(entry.end for entry in whole[:-1])]
        for start in range(index.head[partition] + 1):
            for end in range(index.head[partition] + 2):
                expected = [entry for entry in whole if start < end and entry.end > start and entry.offset < end]
                assert [entry for entry in index.slice(partition, start, end) if entry.end > entry.offset] == expected


@pytest.mark.parametrize("every", [1, 2, 100])
def test_commits_are_read_in_order_and_once(log: LogSystem, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    index = filled(log, monkeypatch, every)
    assert [commit.number for commit in index.commits()] == list(range(len(SIZES)))
    assert [commit.number for commit in index.live_commits()] == list(range(len(SIZES)))
    earlier = LogIndex(log.topic("numbers"), 3)
    assert [commit.number for commit in earlier.commits()] == list(range(earlier.number))
    assert sum(earlier.head) == sum(SIZES[: earlier.number])


@pytest.mark.parametrize("every", [1, 2, 100])
def test_what_is_expired_is_seen_by_nobody(log: LogSystem, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    times = [commit.at for commit in filled(log, monkeypatch, every).commits()]
    expire(log.topic("numbers"), times[4])
    index = LogIndex(log.topic("numbers"))
    left = [number for number, at in enumerate(times) if at >= times[4]]
    assert [commit.number for commit in index.live_commits()] == left
    for partition in (0, 1):
        assert index.oldest(partition) == min(entry.offset for entry in index.entries(partition))
    expire(log.topic("numbers"), times[-1] + 1)
    index = LogIndex(log.topic("numbers"))
    assert [index.oldest(partition) for partition in (0, 1)] == list(index.head)


def with_ends(log: LogSystem, *messages: ControlMessage) -> LogConsumer:
    """A topic to which a run of the stage ``by`` has added three rows, and these control messages."""
    log.append("numbers", pa.Table.from_pylist([{"n": number} for number in range(3)]), key=["n"], partitions=1)
    commits.append_commit(log.topic("numbers"), "app/run/by", "1.1", 0, (), messages)
    return LogConsumer(log.topic("numbers"), None)


def offsets_of(consumer: LogConsumer, offsets: OffsetRange, *, dictionaries: bool) -> list[tuple[str, int, int]]:
    place = SystemStreamPartition("log", "numbers", 0)
    envelopes = consumer.read(place, offsets, dictionaries=dictionaries)
    return [(type(one).__name__, one.offset, one.messages) for one in envelopes]


ENDS = tuple(EndOfStreamMessage(f"task-{number}", 3, stream_id="numbers") for number in range(3))
SINGLE = [("ControlEnvelope", offset, 1) for offset in (3, 4, 5)]


def test_ends_of_many_tasks_come_in_one_envelope_for_who_asks(log: LogSystem) -> None:
    consumer, rows = with_ends(log, *ENDS), ("MessageRun", 0, 3)
    assert offsets_of(consumer, OffsetRange(0, 6), dictionaries=True) == [rows, ("ControlEnvelope", 3, 3)]
    assert offsets_of(consumer, OffsetRange(0, 6), dictionaries=False) == [rows, *SINGLE]


@pytest.mark.parametrize(("start", "end"), [(4, 6), (3, 5), (4, 5)])
def test_a_range_that_begins_or_stops_among_the_ends_has_them_one_by_one(log: LogSystem, start: int, end: int) -> None:
    consumer = with_ends(log, *ENDS)
    assert offsets_of(consumer, OffsetRange(start, end), dictionaries=True) == SINGLE[start - 3 : end - 3]


def test_control_messages_of_other_kinds_among_the_ends_come_one_by_one(log: LogSystem) -> None:
    consumer = with_ends(log, ENDS[0], WatermarkMessage("task-1", 3, timestamp=5), ENDS[2])
    assert offsets_of(consumer, OffsetRange(3, 6), dictionaries=True) == SINGLE


def test_an_envelope_of_ends_can_be_cut(log: LogSystem) -> None:
    place = SystemStreamPartition("log", "numbers", 0)
    (envelope,) = with_ends(log, *ENDS).read(place, OffsetRange(3, 6), dictionaries=True)
    assert isinstance(envelope, ControlEnvelope)
    part = envelope.slice(1, 2)
    assert (part.offset, part.messages, part.message) == (4, 2, ENDS[1])
    assert part.ends is not None
    assert part.ends.messages == ENDS[1:]

"""A topic as its readers see it, however many commits and snapshots it has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.control.messages import ControlMessage, EndOfStreamMessage, WatermarkMessage
from airflow_samza.systems.log import commits
from airflow_samza.systems.log.consumer import LogConsumer
from airflow_samza.systems.log.index import LogIndex, index_of
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
                found = [entry for owned in index.owned_slice(partition, start, end) for entry in owned.entries]
                assert [entry for entry in found if entry.end > entry.offset] == expected


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


def of_a_run(log: LogSystem, name: str, owner: tuple[str, ...]) -> None:
    log.make(name, 1, "n bigint", owner)
    log.append(name, pa.table({"n": [1, 2]}))


def test_tasks_of_a_process_share_the_view_of_a_runs_own_topic(log: LogSystem) -> None:
    of_a_run(log, "app-by-key/run/1.1", owner=("app", "run"))
    first = index_of(log.topic("app-by-key/run/1.1"), 0)
    assert index_of(log.topic("app-by-key/run/1.1"), 0) is first
    assert [entry.rows for entry in first.entries(0)] == [2]  # type: ignore[union-attr]  # no control messages
    log.append("app-by-key/run/1.1", pa.table({"n": [3]}))
    later = index_of(log.topic("app-by-key/run/1.1"), 1)
    assert later is not first
    assert (later.head, index_of(log.topic("app-by-key/run/1.1"), 0).head) == ((3,), (2,))


def test_a_view_up_to_a_commit_that_is_not_there_is_not_kept(log: LogSystem) -> None:
    of_a_run(log, "app-by-key/run/1.1", owner=("app", "run"))
    assert index_of(log.topic("app-by-key/run/1.1"), 1).number == 1
    log.append("app-by-key/run/1.1", pa.table({"n": [3]}))
    assert index_of(log.topic("app-by-key/run/1.1"), 1).number == 2


def test_a_topic_that_was_made_anew_is_viewed_anew(log: LogSystem) -> None:
    of_a_run(log, "app-by-key/run/1.1", owner=("app", "run"))
    first = index_of(log.topic("app-by-key/run/1.1"), 0)
    log.filesystem.delete_tree("topics/app-by-key/run/1.1")
    of_a_run(log, "app-by-key/run/1.1", owner=("app", "run"))
    assert index_of(log.topic("app-by-key/run/1.1"), 0) is not first


def test_topics_of_others_are_viewed_by_each_task(log: LogSystem) -> None:
    of_a_run(log, "numbers", owner=())
    assert index_of(log.topic("numbers"), 0) is not index_of(log.topic("numbers"), 0)


def test_threads_share_a_view_of_many_commits(log: LogSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    index = filled(log, monkeypatch, 100)
    with ThreadPoolExecutor(8) as threads:
        read = list(threads.map(lambda _: [commit.number for commit in index.commits()], range(64)))
    assert read == [list(range(len(SIZES)))] * 64

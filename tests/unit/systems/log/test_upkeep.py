"""Expiring, sweeping and checking a topic; what is damaged is named."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.control.messages import WatermarkMessage
from airflow_samza.errors import SamzaError, StorageFull, TopicError
from airflow_samza.systems.log import commits as log_commits, maintenance
from airflow_samza.systems.log.fsck import Published, fsck, is_sound
from airflow_samza.systems.log.index import LogIndex, read_floor
from airflow_samza.systems.log.maintenance import expire, mark_expired, sweep
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.tails import TAIL_CACHE
from airflow_samza.systems.producers_seen import MOST_RANGES, Standing
from airflow_samza.systems.system import (
    ControlEnvelope,
    MessageRun,
    OffsetRange,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.looked_at import LookedAt

STREAM = StreamSpec("views", partitions=2)
YEAR_MS = 365 * 24 * 3_600_000


def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def system(tmp_path: Path) -> LogSystem:
    made = LogSystem("log", SystemBinding("log", {"root": str(tmp_path)}))
    made.create([STREAM])
    return made


def publish(
    system: LogSystem, epoch: int, first: int, rows: int = 4, generation: str = "1", producer: str = "stage"
) -> None:
    writer = system.producer(STREAM, f"{producer}-{generation}-{epoch}")
    writer.write_keyed(pa.record_batch({"id": list(range(first, first + rows))}), ["id"])
    system.publish(
        STREAM,
        Publication(producer, generation, epoch, {0: writer.finish()}, (WatermarkMessage("t", 1, timestamp=epoch),)),
    )


def everything(system: LogSystem) -> list[tuple[int, int, object]]:
    """(partition, offset, id or control message) of all that a reader sees."""
    found: list[tuple[int, int, object]] = []
    consumer = system.consumer(STREAM)
    for partition in range(2):
        for envelope in consumer.read(SystemStreamPartition("log", "views", partition), None):
            if isinstance(envelope, MessageRun):
                values = envelope.batch.column("id").to_pylist()
                found += [(partition, envelope.offset + row, value) for row, value in enumerate(values)]
            else:
                found.append((partition, envelope.offset, envelope.message))
    return found


def test_expired_commits_are_gone_for_readers_and_head_and_oldest_only_grow(system: LogSystem) -> None:
    publish(system, 0, 0)
    publish(system, 1, 10)
    young = now() + 1
    while now() <= young:
        pass
    publish(system, 2, 20)
    before = everything(system)
    assert expire(system.topic("views"), young) == 2
    left = everything(system)
    assert left == [entry for entry in before if entry in left]
    assert [value for _, _, value in left if isinstance(value, int)] == [
        value for _, _, value in before if isinstance(value, int) and value >= 20
    ]
    metadata = system.metadata([STREAM])["views"]
    assert metadata.oldest == tuple(min(offset for p, offset, _ in left if p == partition) for partition in range(2))
    with pytest.raises(TopicError, match="are expired; the oldest left is"):
        list(system.consumer(STREAM).read(SystemStreamPartition("log", "views", 0), OffsetRange(0, metadata.head[0])))
    assert sweep(system.filesystem, "log", now() + YEAR_MS).files == 2
    assert everything(system) == left


def test_a_sweep_spares_what_is_young(system: LogSystem) -> None:
    publish(system, 0, 0)
    publish(system, 0, 50, generation="2")
    writer = system.producer(STREAM, "waits for the slowest task")
    writer.write(0, pa.record_batch({"id": [1]}))
    staged = writer.finish()
    assert sweep(system.filesystem, "log").files == 0
    assert sweep(system.filesystem, "log", now() + 2 * 3_600_000).files == 1  # superseded, but not staged
    system.publish(STREAM, Publication("stage", "2", 1, {0: staged}))
    assert 1 in [value for _, _, value in everything(system)]


def test_a_sweep_reads_each_commit_but_the_last_once(system: LogSystem, tmp_path: Path) -> None:
    for epoch in range(5):
        publish(system, epoch, 4 * epoch)
    looks = LookedAt(tmp_path)
    TAIL_CACHE.forget(system.topic("views"))
    sweep(looks, "log", now())
    assert [looks.below("topics").count(f"views/commits/{number:020}.json") for number in range(4)] == [1] * 4


def test_a_sweep_takes_what_dead_writers_left_half_written(system: LogSystem, tmp_path: Path) -> None:
    publish(system, 0, 0)
    left = tmp_path / "topics/views/commits/.tmp-dead"
    left.write_bytes(b"half")
    sweep(system.filesystem, "log")
    assert left.exists()
    sweep(system.filesystem, "log", now() + YEAR_MS)
    assert not left.exists()


def test_a_topic_marked_expired_is_deleted_by_the_first_sweep_after_its_time(system: LogSystem) -> None:
    publish(system, 0, 0)
    system.create([StreamSpec("views/below", partitions=1)])
    mark_expired(system.topic("views"), 1_000)
    assert sweep(system.filesystem, "log", 999).topics == []
    assert sweep(system.filesystem, "log", 1_000).topics == ["views"]
    assert system.topics() == ["views/below"]


def test_opening_a_long_topic_reads_snapshots_and_few_commits(
    system: LogSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    for epoch in range(230):
        system.publish(STREAM, Publication("stage", "1", epoch, {}))
    read: list[str] = []
    plain = system.filesystem.read

    def counting(path: str) -> bytes:
        read.append(path)
        return plain(path)

    monkeypatch.setattr(system.filesystem, "read", counting)
    assert log_commits.load_tail(system.topic("views")).number == 230
    assert (
        len([path for path in read if "/commits/" in path]) <= 2
    )  # who has just written looks only whether there is more
    read.clear()
    TAIL_CACHE.forget(system.topic("views"))  # as another process sees it
    assert log_commits.load_tail(system.topic("views")).number == 230
    assert len([path for path in read if "/commits/" in path]) == 31  # the last one is asked for and not there
    assert len([path for path in read if "/snapshots/" in path]) == 1
    assert [commit.number for commit in log_commits.read_commits(system.topic("views"), 0)] == list(range(230))
    assert system.publish(STREAM, Publication("stage", "1", 17, {}))["commit"] == 17  # still known as published


def test_a_snapshot_that_could_not_be_written_is_written_with_the_next_commit(
    system: LogSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_commits, "SNAPSHOT_EVERY", 10)
    plain, snapshots = system.filesystem.put_if_absent, system.topic("views").snapshot_path(0).rpartition("/")[0]

    def full(path: str, data: bytes) -> bool:
        if path.startswith(snapshots):
            raise StorageFull("No space left on device.")
        return plain(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(system.filesystem, "put_if_absent", full)
        for epoch in range(10):
            publish(system, epoch, 4 * epoch)
    assert not list(system.filesystem.list(snapshots))
    for epoch in range(10, 25):
        publish(system, epoch, 4 * epoch)
    assert log_commits.record_numbers(system.topic("views"), "snapshots") == [10, 20]
    assert [commit.number for commit in log_commits.read_commits(system.topic("views"), 0)] == list(range(25))
    assert fsck(system.topic("views")) == []


def test_readers_of_a_long_topic_read_each_commit_behind_its_last_snapshot_once(
    system: LogSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_commits, "SNAPSHOT_EVERY", 4)
    for epoch in range(10):
        publish(system, epoch, 4 * epoch)
    looks = LookedAt(tmp_path)
    topic = replace(system.topic("views"), filesystem=looks)
    TAIL_CACHE.forget(topic)
    index = LogIndex(topic)
    assert [commit.number for commit in index.commits()] == list(range(10))
    for partition in (0, 1):
        assert list(index.owned_slice(partition, index.head[partition] - 1, index.head[partition]))
    numbers = [looks.below("topics").count(f"views/commits/{number:020}.json") for number in range(11)]
    assert numbers == [0] * 8 + [1] * 3  # the last is asked for and not there


def change(path: Path, how: Callable[[bytes], bytes]) -> None:
    path.write_bytes(how(path.read_bytes()))


SEGMENT, COMMIT = "segments/stage-1-0-*.arrow", "commits/00000000000000000000.json"
DAMAGES: list[tuple[str, str, Callable[[Path], object], str]] = [
    ("a cut segment", SEGMENT, lambda path: change(path, lambda data: data[:-10]), "bytes, and the commit says"),
    ("an empty segment", SEGMENT, lambda path: change(path, lambda data: b""), "has 0 bytes"),
    (
        "a bit of rot",
        SEGMENT,
        lambda path: change(path, lambda data: data[:600] + bytes([data[600] ^ 1]) + data[601:]),
        "checksum of batch",
    ),
    (
        "a footer overwritten",
        SEGMENT,
        lambda path: change(path, lambda data: data[:-20] + b"x" * 20),
        "checksum of its footer",
    ),
    ("a missing segment", SEGMENT, lambda path: path.unlink(), "is missing"),
    ("an empty commit", COMMIT, lambda path: change(path, lambda data: b""), "is empty"),
    ("a commit that is not JSON", COMMIT, lambda path: change(path, lambda data: data[:-9]), "is not JSON"),
    (
        "a commit of a later version",
        COMMIT,
        lambda path: change(path, lambda data: data.replace(b'"version":1', b'"version":9')),
        "version 9",
    ),
    (
        "a commit without its rows",
        COMMIT,
        lambda path: change(path, lambda data: data.replace(b'"rows"', b'"rosw"')),
        "has no 'rows'",
    ),
    (
        "a commit in another's place",
        COMMIT,
        lambda path: change(path, lambda data: data.replace(b'"number":0', b'"number":3')),
        "commit 3",
    ),
    ("a missing commit", COMMIT, lambda path: path.unlink(), "is missing, and later commits are there"),
    ("a topic that is not JSON", "topic.json", lambda path: change(path, lambda data: b"{"), "is not JSON"),
    (
        "a topic of a billion partitions",
        "topic.json",
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "partitions": 10**9})),
        "has 1000000000 as its partition count",
    ),
    (
        "a topic whose owner is a text",
        "topic.json",
        lambda path: path.write_text(json.dumps({**json.loads(path.read_text()), "owner": "me"})),
        "has 'me' as its owner",
    ),
]


@pytest.mark.parametrize(
    ("pattern", "damage", "said"), [case[1:] for case in DAMAGES], ids=[case[0] for case in DAMAGES]
)
def test_a_damaged_file_is_named_with_what_is_wrong_and_the_remedy(
    system: LogSystem, tmp_path: Path, pattern: str, damage: Callable[[Path], object], said: str
) -> None:
    publish(system, 0, 0, rows=200)
    publish(system, 1, 200)
    (path,) = (tmp_path / "topics/views").glob(pattern)
    topic = system.topic("views")
    TAIL_CACHE.forget(topic)  # as another process sees it
    damage(path)
    with pytest.raises(TopicError, match=said) as rejected:
        everything(system)
    assert str(path) in rejected.value.sentence
    assert "'views'" in rejected.value.sentence
    assert "topics fsck views" in rejected.value.hint
    assert "clear the stage" in rejected.value.hint
    if pattern != "topic.json":
        assert any(finding.path == str(path) and finding.serious for finding in fsck(topic))


def test_fsck_tells_orphans_and_bad_snapshots_from_damage(
    system: LogSystem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_commits, "SNAPSHOT_EVERY", 2)
    publish(system, 0, 0)
    publish(system, 1, 10)
    system.producer(STREAM, "dead").write(0, pa.record_batch({"id": [1]}))
    orphan = tmp_path / "topics/views/segments/dead.arrow"
    orphan.write_bytes(b"half")
    findings = fsck(system.topic("views"))
    assert [finding.path for finding in findings] == [str(orphan)]
    assert is_sound(findings)
    snapshot = tmp_path / "topics/views/snapshots/00000000000000000001.json"
    record = json.loads(snapshot.read_bytes())
    record["commits"][1]["epoch"] = 5
    snapshot.write_text(json.dumps(record))
    assert [finding.what for finding in fsck(system.topic("views")) if finding.serious] == [
        "differs from the commits that it was made from"
    ]


def test_fsck_says_that_a_topic_whose_only_commit_was_deleted_is_not_sound(system: LogSystem, tmp_path: Path) -> None:
    publish(system, 0, 0)
    (tmp_path / "topics/views" / COMMIT).unlink()
    (finding,) = [finding for finding in fsck(system.topic("views")) if finding.serious]
    assert "holds no commit, and 1 segments are there: the commits were deleted" in finding.what


def test_fsck_misses_commits_that_somebody_knows_to_be_there(system: LogSystem, tmp_path: Path) -> None:
    publish(system, 0, 0)
    publish(system, 1, 10)
    said = [Published("stage", "1", epoch, "its result") for epoch in (0, 1)]
    assert is_sound(fsck(system.topic("views"), said))
    (tmp_path / "topics/views/commits/00000000000000000001.json").unlink()
    assert is_sound(fsck(system.topic("views")))  # nothing in the topic tells
    (finding,) = [finding for finding in fsck(system.topic("views"), said) if finding.serious]
    assert finding.what == "lacks epoch 1 of stage (generation 1), which its result says was published"
    publish(system, 0, 20, generation="2")
    assert is_sound(
        fsck(system.topic("views"), said)
    )  # what was published in its place says that this is as it should be


WATERMARK: dict[str, object] = {"version": 1, "taskName": "t", "taskCount": 1, "timestamp": 0}
END: dict[str, object] = {"version": 1, "taskName": "t", "taskCount": 1, "streamId": "s"}
WRONG_IN_WATERMARKS: list[dict[str, object]] = [
    {"version": 2}, {"version": None}, {"taskName": 7}, {"taskCount": "1"}, {"taskCount": True}, {"timestamp": None}, {"timestamp": 0.5},
    {"timestamp": "0"}, {"run": 1}, {"run": []},
]  # fmt: skip
WRONG_IN_ENDS: list[dict[str, object]] = [
    {"version": 0}, {"taskName": []}, {"taskCount": {}}, {"streamId": None}, {"streamId": 1}, {"final": 1}, {"final": "no"},
]  # fmt: skip
DAMAGED_CONTROL: list[object] = [
    *([], [1], [3, {}], [2, None], [2, []]),
    *([1, {**WATERMARK, **wrong}] for wrong in WRONG_IN_WATERMARKS),
    *([1, {name: value for name, value in WATERMARK.items() if name != missing}] for missing in WATERMARK),
    *([2, {**END, **wrong}] for wrong in WRONG_IN_ENDS),
]


def test_fsck_finds_every_damaged_control_message_that_a_reader_rejects(system: LogSystem, tmp_path: Path) -> None:
    publish(system, 0, 0)
    path = tmp_path / "topics/views" / COMMIT
    whole = json.loads(path.read_bytes())
    assert len(DAMAGED_CONTROL) > 25
    for entry in DAMAGED_CONTROL:
        path.write_text(json.dumps({**whole, "control": [entry]}))
        TAIL_CACHE.forget(system.topic("views"))
        with pytest.raises(SamzaError):
            everything(system)
        found = [finding for finding in fsck(system.topic("views")) if finding.serious]
        assert [finding.path for finding in found] == [str(path)], entry


def test_fsck_leaves_what_is_staged_for_another_system_to_the_records_of_runs(system: LogSystem) -> None:
    writer = system.producer(STREAM, "a")
    writer.write(0, pa.record_batch({"id": [1]}))
    writer.finish()
    topic = system.topic("views")
    assert fsck(topic) != []  # no commit names the segment
    topic.filesystem.put(topic.staging_note, b"{}")
    assert fsck(topic) == []


def test_staged_output_that_vanished_is_rejected_before_it_is_published(system: LogSystem, tmp_path: Path) -> None:
    writer = system.producer(STREAM, "a")
    writer.write(0, pa.record_batch({"id": [1]}))
    staged = writer.finish()
    next((tmp_path / "topics/views/segments").iterdir()).unlink()
    with pytest.raises(TopicError, match=r"staged segment .* is missing"):
        system.publish(STREAM, Publication("stage", "1", 0, {0: staged}))
    assert everything(system) == []


def test_staged_output_that_was_cut_is_rejected_before_it_is_published(system: LogSystem, tmp_path: Path) -> None:
    writer = system.producer(STREAM, "a")
    writer.write(0, pa.record_batch({"id": [1]}))
    staged = writer.finish()
    change(next((tmp_path / "topics/views/segments").iterdir()), lambda data: data[:-10])
    said = f"has {staged['bytes'] - 10} bytes, not the {staged['bytes']} that were written"
    with pytest.raises(TopicError, match=said):
        system.publish(STREAM, Publication("stage", "1", 0, {0: staged}))
    assert everything(system) == []


def test_many_partitions_do_not_hold_more_than_the_bound_in_memory(
    system: LogSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_samza.systems.log import segments as log_segments

    monkeypatch.setattr(log_segments, "BUFFER_BYTES", 1 << 20)
    monkeypatch.setattr(log_segments, "PARTITION_BYTES", 1 << 14)
    stream = StreamSpec("many", partitions=2048)
    system.create([stream])
    writer = system.producer(stream, "a")
    rows = pa.record_batch({"id": list(range(50_000))})
    for _ in range(10):
        writer.write_keyed(rows, ["id"])
        assert writer._buffered < (1 << 20) + rows.nbytes
    facts = system.publish(stream, Publication("stage", "1", 0, {0: writer.finish()}))
    assert facts["rows"] == 500_000
    consumer = system.consumer(stream)
    total = sum(
        envelope.batch.num_rows
        for partition in range(0, 2048, 64)
        for envelope in consumer.read(SystemStreamPartition("log", "many", partition), None)
        if not isinstance(envelope, ControlEnvelope)
    )
    assert total == sum(consumer.head[partition] for partition in range(0, 2048, 64))


def test_a_topic_that_was_made_again_under_its_name_is_seen_as_it_is_now(system: LogSystem, tmp_path: Path) -> None:
    publish(system, 0, 0, rows=5)
    publish(system, 1, 5, rows=5)
    assert system.slice(STREAM)["commit"] == 2
    shutil.rmtree(tmp_path / "topics/views")
    system.create([STREAM])
    assert system.slice(STREAM)["commit"] == 0
    publish(system, 0, 0, rows=3)
    assert system.slice(STREAM)["commit"] == 1
    assert [head for _, head in system.slice(STREAM)["offsets"]] == list(system.consumer(STREAM).head)


def test_says_whether_anything_was_committed_behind_a_slice(system: LogSystem) -> None:
    publish(system, 0, 0)
    known = system.slice(STREAM)
    assert not system.has_news(STREAM, known)
    publish(system, 1, 10)
    assert system.has_news(STREAM, known)


def test_what_is_known_of_a_producer_does_not_grow_with_the_epochs_that_it_left_out() -> None:
    standing = Standing("1")
    for epoch in range(0, 1000, 2):
        standing.add(epoch)
    assert len(standing.epochs) == MOST_RANGES
    assert all(standing.has(epoch) for epoch in range(0, 1000, 2))
    assert not standing.has(1000)
    assert not standing.has(997)


def test_a_deletion_that_was_interrupted_is_finished_and_no_topic_takes_over_what_is_left(system: LogSystem) -> None:
    publish(system, 0, 0)
    system.create([StreamSpec("views/below", partitions=1)])
    system.filesystem.delete("topics/views/topic.json")  # where a sweep dies that has taken the record away
    with pytest.raises(
        TopicError, match=r"The topic 'views' cannot be made: the deletion of a former one was interrupted"
    ):
        system.create([STREAM])
    sweep(system.filesystem, "log")
    system.create([STREAM])
    assert system.consumer(STREAM).head == (0, 0)
    assert system.topics() == ["views", "views/below"]


def test_a_topic_that_is_held_is_given_back_whole(system: LogSystem) -> None:
    publish(system, 0, 0)
    before = everything(system)
    asked: list[str] = []

    def opened_meanwhile(name: str) -> bool:
        asked.append(name)
        return len(asked) > 1

    mark_expired(system.topic("views"), 0)
    assert sweep(system.filesystem, "log", is_held=opened_meanwhile).topics == []
    assert asked == ["views", "views"]
    assert everything(system) == before


def test_a_sweep_goes_on_behind_a_topic_that_another_has_deleted(
    system: LogSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.create([StreamSpec("clicks", partitions=1)])
    mark_expired(system.topic("views"), 1_000)
    shutil.rmtree(system.filesystem.local_path("topics/clicks") or "")
    monkeypatch.setattr(maintenance, "list_topics", lambda filesystem: ["clicks", "views"])
    assert sweep(system.filesystem, "log", 1_000).topics == ["views"]


def test_a_record_of_what_expired_has_an_offset_for_each_partition(system: LogSystem, tmp_path: Path) -> None:
    for epoch in range(2):
        publish(system, epoch, 10 * epoch)
    expire(system.topic("views"), now() + YEAR_MS)
    path = tmp_path / system.topic("views").expired_path
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "offsets": [*record["offsets"], 7]}))
    with pytest.raises(TopicError, match="3 partitions"):
        read_floor(system.topic("views"))

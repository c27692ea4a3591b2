"""Writers of a log in processes of their own: they race, they die, and nothing is lost or doubled."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import StorageFull, TopicError
from airflow_samza.systems.log import commits as log_commits
from airflow_samza.systems.log.fsck import fsck, is_sound
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import (
    ControlEnvelope,
    MessageRun,
    Publication,
    StreamSpec,
    SystemBinding,
    SystemStreamPartition,
)
from tests.support.faulty_filesystem import FaultyFilesystem, failing_with

SCRIPT = Path(__file__).parents[1] / "support/log_writers.py"
PARTITIONS = 4
ROWS = 40


def log(root: Path) -> LogSystem:
    return LogSystem("log", SystemBinding("log", {"root": str(root)}))


def contents(system: LogSystem, topic: str) -> tuple[Counter[tuple[int, int, int]], Counter[str | None]]:
    """All rows and all control messages that a reader sees; offsets have no doubles and stay below the head."""
    messages: Counter[tuple[int, int, int]] = Counter()
    control: Counter[str | None] = Counter()
    consumer = system.consumer(StreamSpec(topic))
    for partition in range(PARTITIONS):
        at = 0
        for envelope in consumer.read(SystemStreamPartition("log", topic, partition), None):
            if isinstance(envelope, MessageRun):
                assert envelope.offset >= at
                at = envelope.offset + envelope.batch.num_rows
                columns = [envelope.batch.column(name).to_pylist() for name in ("writer", "commit", "id")]
                messages.update(zip(*columns, strict=True))
            elif envelope.message.task_name is not None:
                assert envelope.offset >= at
                at = envelope.offset + 1
                control[envelope.message.task_name] += 1
        assert at <= consumer.head[partition]
    return messages, control


def run(*arguments: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.extended
def test_fifty_racing_writers_lose_and_double_nothing(tmp_path: Path) -> None:
    system, writers, commits = log(tmp_path), 50, 3
    system.create([StreamSpec("race", partitions=PARTITIONS)])
    run("race", tmp_path, "race", writers, commits)
    messages, control = contents(system, "race")
    expected = {
        (writer, commit, number) for writer in range(writers) for commit in range(commits) for number in range(ROWS)
    }
    assert messages == Counter(expected)
    assert control == Counter({f"task-{writer}": commits * PARTITIONS for writer in range(writers)})
    assert is_sound(fsck(system.topic("race")))
    head = system.consumer(StreamSpec("race")).head
    assert sum(head) == writers * commits * (ROWS + PARTITIONS)  # no offset was given twice, and none is missing
    assert (tmp_path / "topics/race/snapshots/00000000000000000099.json").exists()


def test_a_writer_killed_at_any_operation_of_a_commit_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_commits, "SNAPSHOT_EVERY", 2)  # so that the crashes reach the writing of a snapshot, too
    template = log(tmp_path / "template")
    template.create([StreamSpec("topic", partitions=PARTITIONS)])
    template.publish(StreamSpec("topic"), Publication("earlier", "1.1", 0, {}, ()))
    counting = FaultyFilesystem(tmp_path / "count")
    shutil.copytree(tmp_path / "template/topics/topic", tmp_path / "count/topics/topic")
    publish(LogSystem("log", SystemBinding("log"), filesystem=counting), "topic", "counted")
    operations = len(counting.operations)
    assert {"create", "write", "sync", "link", "unlink"} <= set(counting.operations)

    root = tmp_path / "crash"
    for operation in range(1, operations + 2):
        shutil.copytree(tmp_path / "template/topics/topic", root / f"topics/topic-{operation}")
    outcomes = run("crash", root, "topic", operations + 1)
    assert outcomes[:-1] == ["died"] * operations + ["ended 0"]
    system = log(root)
    whole = Counter({(7, 0, number): 1 for number in range(ROWS)})
    for operation in range(1, operations + 2):
        name = f"topic-{operation}"
        messages, control = contents(system, name)
        assert (messages, control) in ((Counter(), Counter()), (whole, Counter({"task-7": PARTITIONS}))), (
            "half a commit"
        )
        publish(system, name, "again")  # what a retry does, whether or not the first attempt got through
        publish(system, name, "once-more")
        assert contents(system, name) == (whole, Counter({"task-7": PARTITIONS})), operation
        assert is_sound(fsck(system.topic(name)))
        assert system.publish(StreamSpec(name), Publication("later", "1.1", 0, {}, ()))["commit"] == 2


def publish(system: LogSystem, topic: str, attempt: str) -> dict[str, object]:
    producer = system.producer(StreamSpec(topic), attempt)
    producer.write_keyed(pa.record_batch({"writer": [7] * ROWS, "commit": [0] * ROWS, "id": list(range(ROWS))}), ["id"])
    end = EndOfStreamMessage("task-7", 1, stream_id=topic)
    return system.publish(StreamSpec(topic), Publication("writer-7", "1.1", 0, {0: producer.finish()}, (end,)))


def attempt(system: LogSystem, topic: str) -> TopicError | None:
    try:
        publish(system, topic, "attempt")
    except TopicError as error:
        return error
    return None


@pytest.mark.parametrize(
    ("number", "kind", "lasting"), [(errno.ENOSPC, StorageFull, True), (errno.EIO, TopicError, False)]
)
def test_a_disk_that_fails_at_any_operation_leaves_the_topic_whole(
    tmp_path: Path, number: int, kind: type[TopicError], lasting: bool
) -> None:
    plain = log(tmp_path)
    operation, failures = 0, 0
    while True:
        operation += 1
        name = f"topic-{operation}"
        plain.create([StreamSpec(name, partitions=PARTITIONS)])
        filesystem = FaultyFilesystem(tmp_path, operation, failing_with(number), lasting=lasting)
        system = LogSystem("log", SystemBinding("log"), filesystem=filesystem)
        failure = attempt(system, name)
        if failure is not None:
            failures += 1
            assert isinstance(failure, kind)
            assert str(tmp_path) in failure.sentence
            assert not list(tmp_path.glob(f"topics/{name}/commits/*.json"))
        publish(plain, name, "after the disk was fixed")
        messages, control = contents(plain, name)
        assert set(messages.values()) == {1}
        assert len(messages) == ROWS
        assert control["task-7"] == PARTITIONS
        if operation > len(filesystem.operations):
            break
    assert failures > 5


@pytest.mark.extended
def test_readers_never_see_half_a_commit_while_writers_are_at_work(tmp_path: Path) -> None:
    system, writers, commits = log(tmp_path), 4, 10
    system.create([StreamSpec("busy", partitions=PARTITIONS)])
    process = subprocess.Popen([sys.executable, str(SCRIPT), "race", str(tmp_path), "busy", str(writers), str(commits)])
    seen: set[tuple[int, int]] = set()
    try:
        while True:
            over = process.poll() is not None
            messages, control = contents(system, "busy")
            whole = Counter((writer, commit) for writer, commit, _ in messages)
            assert set(whole.values()) <= {ROWS}
            assert sum(control.values()) == PARTITIONS * len(whole)
            assert seen <= set(whole), "what was once there is gone"
            seen = set(whole)
            if over:
                break
    finally:
        process.wait()
    assert process.returncode == 0
    assert len(seen) == writers * commits


def test_a_control_message_is_seen_by_every_partition(tmp_path: Path) -> None:
    system = log(tmp_path)
    system.create([StreamSpec("ends", partitions=PARTITIONS)])
    publish(system, "ends", "attempt")
    consumer = system.consumer(StreamSpec("ends"))
    for partition in range(PARTITIONS):
        last = list(consumer.read(SystemStreamPartition("log", "ends", partition), None))[-1]
        assert isinstance(last, ControlEnvelope)
        assert last.offset == consumer.head[partition] - 1

"""Runs writers of a log in processes of their own, for the tests: many at once, or one that dies at a chosen operation.

``log_processes.py race ROOT TOPIC WRITERS COMMITS`` and ``log_processes.py crash ROOT TOPIC OPERATION``; the children
are forked from a process that has loaded everything and started no thread.
"""

from __future__ import annotations

import os
import sys

import pandas as pd  # noqa: F401 - pyarrow loads it to make arrays from lists; here once, and not in every child
import pyarrow as pa
import pyarrow.compute

from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.log import commits as log_commits
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.faulty_filesystem import FaultyFilesystem

ROWS = 40


def rows(writer: int, commit: int) -> pa.RecordBatch:
    """Rows that say who wrote them."""
    return pa.record_batch({"writer": [writer] * ROWS, "commit": [commit] * ROWS, "id": list(range(ROWS))})


def write(filesystem: Filesystem, topic: str, writer: int, commits: range, attempt: str = "attempt") -> None:
    """Publishes commits as one producer, with an end-of-stream in each."""
    system = LogSystem("log", SystemBinding("log"), filesystem=filesystem)
    stream = StreamSpec(topic)
    for commit in commits:
        producer = system.producer(stream, f"{attempt}-{writer}-{commit}")
        producer.write_keyed(rows(writer, commit), ["id"])
        staged = {0: producer.finish()}
        end = EndOfStreamMessage(f"task-{writer}", 1, stream_id=topic)
        system.publish(stream, Publication(f"writer-{writer}", "1.1", commit, staged, (end,)))


def race(root: str, topic: str, writers: int, commits: int) -> None:
    """All writers start when all are there."""
    start_reading, start_writing = os.pipe()
    children = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            os.close(start_writing)
            os.read(start_reading, 1)  # returns when the parent closes its end
            write(LocalFilesystem(root), topic, writer, range(commits))
            os._exit(0)
        children.append(child)
    os.close(start_writing)
    failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    if failed:
        raise SystemExit(f"{len(failed)} writers failed")


def crash(root: str, topic: str, count: int) -> None:
    """One child per operation of a commit, each on a topic of its own.

    A last one lives, as there are no more operations.
    """
    log_commits.SNAPSHOT_EVERY = 2
    for operation in range(1, count + 1):
        child = os.fork()
        if child == 0:
            write(FaultyFilesystem(root, operation), f"{topic}-{operation}", 7, range(1))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("died" if os.WIFSIGNALED(status) else f"ended {os.WEXITSTATUS(status)}", flush=True)


if __name__ == "__main__":
    mode, where, name, *numbers = sys.argv[1:]
    if mode == "race":
        race(where, name, int(numbers[0]), int(numbers[1]))
    else:
        crash(where, name, int(numbers[0]))

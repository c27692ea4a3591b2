"""Applications of the contract of sessions: a stage for each thing that can happen to a stage.

Rows name the folder of their test's files.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_samza import count, stream_application


@dataclass(frozen=True)
class Mark:
    number: int
    folder: str


@dataclass(frozen=True)
class Found:
    number: int
    rule: str
    word: str
    package: str


def first_here(mark: Mark, name: str) -> bool:
    """Return True if this is the first time that a task comes here with the mark; every time leaves a file."""
    for times in range(1, 100):
        try:
            os.close(os.open(f"{mark.folder}/{name}-{mark.number}.{times}", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        return times == 1
    raise AssertionError("it never ends")


def hold(mark: Mark) -> bool:
    """Holds the task until the test lets it go; the file says which process is held."""
    Path(mark.folder, f"held-by-{os.getpid()}").touch()
    while not Path(mark.folder, "go").exists():
        time.sleep(0.02)
    return True


def die_once(mark: Mark) -> bool:
    if mark.number == 1 and first_here(mark, "dying"):
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def fail_once(mark: Mark) -> bool:
    if mark.number == 1 and first_here(mark, "failing"):
        raise ValueError("once")
    return True


def straggle_once(mark: Mark) -> bool:
    """The first try at one task is not heard of again; Spark has to start another beside it."""
    if mark.number == 1 and first_here(mark, "straggling"):
        time.sleep(600)
    return True


def stop_once_in_a_group(mark: Mark) -> bool:
    """One task's first try is killed, or not heard of again; files name the tasks of Spark that came here."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    Path(mark.folder, f"tried-by-{context.taskAttemptId()}").touch()
    if mark.number == 5 and first_here(mark, "grouped"):
        if Path(mark.folder, "straggles").exists():
            time.sleep(600)
        os.kill(os.getpid(), signal.SIGKILL)
    return True


def with_shipped(mark: Mark) -> Found:
    """Shows what was shipped to the worker: a module, an archive, and our own package."""
    from contract_rules import RULE  # type: ignore[import-not-found]
    from pyspark import SparkFiles

    import airflow_samza

    word = Path(SparkFiles.getRootDirectory(), "lookup", "word.txt").read_text().strip()
    return Found(mark.number, RULE, word, str(airflow_samza.__file__))


def reject(mark: Mark) -> bool:
    raise ValueError("never")


@stream_application("contract")
def contract(app: Any) -> None:
    def marks(name: str, partitions: int = 2, system: str = "lake", path: str = "marks") -> Any:
        return app.input_stream(name, system=system, schema=Mark, partitions=partitions, path=path)

    def out(name: str) -> Any:
        return app.output_stream(f"{name}-out", system="lake", path=f"out/{name}", format="parquet")

    marks("counted").partition_by("number", id="by-number").aggregate("number", marks=count(), id="per-number").send_to(
        out("counted")
    )
    # One task: Spark never speculates on it, so that the other core stays free, and tries are those that the test is
    # about.
    marks("held", partitions=1).filter(hold).send_to(out("held"))
    marks("dying", partitions=1).filter(die_once).send_to(out("dying"))
    marks("failing", partitions=1).filter(fail_once).send_to(out("failing"))
    marks("straggling").filter(straggle_once).send_to(out("straggling"))
    marks("grouped", partitions=16, path="many").filter(stop_once_in_a_group).send_to(out("grouped"))
    marks("shipped").map(with_shipped).send_to(out("shipped"))
    marks("rejected", system="vault").filter(reject).send_to(out("rejected"))

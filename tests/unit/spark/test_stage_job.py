"""Failures of a stage's job before a word of ours is heard; the texts are Spark 4.2's."""

from __future__ import annotations

import dataclasses
import platform
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.engine.stage_context import PushContext, StageContext
from airflow_samza.engine.stage_task import StageTask
from airflow_samza.engine.task_section import TaskSection
from airflow_samza.errors import RuntimeMissing, SamzaError, StageCancelled, StageFailed, TopicError
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.spark.push_job import job_failed
from airflow_samza.spark.sessions.driver_session import is_spark_lost
from airflow_samza.spark.stage_job import collect, run_job
from airflow_samza.systems.filesystems.opening import open_filesystem
from tests.support.pushes import Pushes
from tests.support.stand_ins import Attempt, Session

HEAD = (
    "\n  An exception was thrown from the Python worker. Please see the stack trace below.\n[PYTHON_EXCEPTION] An "
    "exception was thrown"
)
OTHER_PYTHON = (
    f"{HEAD} from the Python worker: Traceback (most recent call last):\n"
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has different "
    "version: 3.12 than that "
    "in driver: 3.11, PySpark cannot run with different minor versions.\nPlease check environment variables "
    "PYSPARK_PYTHON and "
    "PYSPARK_DRIVER_PYTHON are correctly set.\n SQLSTATE: 38000"
)
NO_PYARROW = (
    f"{HEAD} from the Python worker: Traceback (most recent call last):\n    import pyarrow as pa\n"
    "ModuleNotFoundError: No module named 'pyarrow'\n SQLSTATE: 38000"
)
DIED = (
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times: SparkException: Python worker exited "
    "unexpectedly (crashed)"
)


HANDLE = StageHandle("app", "run", "stage", Generation(1, 1), 1)


class Server(Session):
    """Stands for a Spark Connect server."""

    place = "the Spark Connect server sc://spark:15002"


class Frame:
    """A job that fails with each of the texts in turn, then succeeds."""

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)
        self.runs = 0

    def collect(self) -> None:
        self.runs += 1
        if self.texts:
            raise RuntimeError(self.texts.pop(0))


def run(frame: Frame, tmp_path: Path, attempt: Attempt | None = None) -> None:
    attempt = attempt or Attempt(HANDLE)
    (tmp_path / attempt.handle.folder.path).mkdir(parents=True, exist_ok=True)
    program: Any = SimpleNamespace(sections=())
    spark: Any = None
    job: Any = frame
    plan: Any = None
    server = Server()
    context = StageContext(open_filesystem(str(tmp_path)), {}, attempt, {}, {}, plan)
    run_job(server, context, spark, program, lambda: job)


def failure(text: str, tmp_path: Path) -> SamzaError:
    with pytest.raises(SamzaError) as caught:
        run(Frame(text, text), tmp_path)
    return caught.value


def test_names_the_package_that_the_workers_lack(tmp_path: Path) -> None:
    error = failure(NO_PYARROW, tmp_path)
    assert isinstance(error, RuntimeMissing)
    assert (
        error.sentence == "The Python workers of the Spark Connect server sc://spark:15002 lack the package 'pyarrow'."
    )
    assert "pip install pyarrow" in error.hint


def test_names_both_versions_when_the_workers_python_is_another(tmp_path: Path) -> None:
    error = failure(OTHER_PYTHON, tmp_path)
    assert isinstance(error, RuntimeMissing)
    assert error.sentence.endswith("sc://spark:15002 run Python 3.12, and the stage runner Python 3.11.")


def test_one_silent_death_is_tried_again_and_two_are_reported(tmp_path: Path) -> None:
    frame = Frame(DIED)
    run(frame, tmp_path)
    assert frame.runs == 2
    error = failure(DIED, tmp_path)
    assert isinstance(error, StageFailed)
    assert "ran out of memory" in error.sentence
    assert "more memory" in error.hint


def failure_of_push(text: str, tmp_path: Path) -> SamzaError:
    """The error of a push with the same text."""
    request = Pushes(tmp_path).request("monday")
    attempt, job = Attempt(dataclasses.replace(request.handle, attempt=1)), Frame(text)
    (tmp_path / attempt.handle.folder.path).mkdir(parents=True, exist_ok=True)
    system: Any = None
    push = PushContext(open_filesystem(str(tmp_path)), {}, attempt, {}, system, request)
    spark: Any = None
    frame: Any = job
    with pytest.raises(SamzaError) as caught:
        collect(Server(), push, spark, lambda: frame, partial(job_failed, request), description="push", pool="t")
    return caught.value


@pytest.mark.parametrize("text", [NO_PYARROW, OTHER_PYTHON])
def test_a_push_names_what_its_workers_lack_as_a_stage_does(text: str, tmp_path: Path) -> None:
    assert failure_of_push(text, tmp_path).to_dict() == failure(text, tmp_path).to_dict()


def test_a_push_of_which_a_worker_dies_silently_says_what_may_help(tmp_path: Path) -> None:
    told = failure_of_push(DIED, tmp_path)
    assert ("ran out of memory" in told.sentence, "more memory" in told.hint) == (True, True)


def test_the_class_of_a_failure_is_told_and_not_what_java_says_before_it(tmp_path: Path) -> None:
    text = f"Job aborted due to stage failure: {'x' * 400}: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n at y"
    for told in (failure(text, tmp_path), failure_of_push(text, tmp_path)):
        assert told.sentence.endswith("failed: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012")


def test_the_reason_of_javas_is_shown_and_not_which_of_its_objects_was_called(tmp_path: Path) -> None:
    called = "An error occurred while calling o282.collectToPython.\n"
    error = failure(f"{called}: org.apache.spark.SparkException: {DIED}\n\tat scala.Option.foreach", tmp_path)
    assert "Python worker ended without a word" in error.sentence
    assert "o282" not in error.sentence
    assert "ran out of memory" in error.sentence
    assert "more memory" in error.hint
    error = failure(f"{called}: java.lang.OutOfMemoryError: Java heap space\n\tat java.base/x", tmp_path)
    assert error.sentence.endswith("failed: java.lang.OutOfMemoryError: Java heap space")


def test_what_is_no_death_is_not_tried_again(tmp_path: Path) -> None:
    frame = Frame("[DIVIDE_BY_ZERO] Division by zero.")
    with pytest.raises(StageFailed, match="DIVIDE_BY_ZERO"):
        run(frame, tmp_path)
    assert frame.runs == 1


def test_a_job_that_was_killed_by_a_cancel_is_cancelled(tmp_path: Path) -> None:
    attempt = Attempt(HANDLE)

    class Killed(Frame):
        def collect(self) -> None:
            attempt.is_cancelled = True
            super().collect()

    with pytest.raises(StageCancelled):
        run(Killed("Job 3 cancelled"), tmp_path, attempt)


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("StatusCode.UNAVAILABLE failed to connect to all addresses; last error: Connection refused", True),
        ("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 00000000 is invalid. Session not found.", True),
        ("Answer from Java side is empty", True),
        ("[DIVIDE_BY_ZERO] Division by zero.", False),
        (DIED, False),
    ],
)
def test_tells_a_spark_that_is_gone_from_a_job_that_failed(text: str, gone: bool, tmp_path: Path) -> None:
    assert is_spark_lost(RuntimeError(text)) is gone
    with pytest.raises(RuntimeError if gone else SamzaError):
        run(Frame(text, text), tmp_path)


def test_a_traceback_is_told_by_the_line_in_which_it_ends(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "/x.py", line 3, in f\n    g()\nOSError: disk is full'
    error = failure(f"{HEAD} from the Python worker: {trace}\n\n SQLSTATE: 38000", tmp_path)
    assert error.sentence == "The Spark job of the stage 'stage' failed: OSError: disk is full"


def test_a_host_that_does_not_see_the_root_says_so(tmp_path: Path) -> None:
    task = StageTask(str(tmp_path), {}, "stage", "runs/app/run/stages/stage/1.1", "program.json", {}, {})
    with pytest.raises(TopicError, match="does not see the run's records") as caught:
        TaskSection(task, task.intent(0), 0, "0")
    assert platform.node() in caught.value.sentence
    assert "share, under the same path" in caught.value.hint

"""Spark job of an attempt at a stage or a push: run under the attempt's tag, with its failures as our errors."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow_samza.application.rejections import USER_ERRORS, let_interrupts_through
from airflow_samza.application.stream import placed
from airflow_samza.engine.stage_context import PushContext, StageContext, reject_stopped
from airflow_samza.engine.worker_errors import find_error
from airflow_samza.errors import RuntimeMissing, SamzaError, StageFailed, StageLost
from airflow_samza.launch.log_lines import WHOLE_ERROR
from airflow_samza.runs.stages.stage_state import StageHandle, cancelled
from airflow_samza.spark.sessions.driver_session import NO_PROPERTIES, DriverSession, is_spark_lost
from airflow_samza.task.program.stage_program import StageProgram

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

log = logging.getLogger("airflow_samza.runner")

# A worker that dies without a word (killed, out of memory) may succeed at once; a second silent death is reported.
JOB_TRIES = 2

_CALLING = re.compile(r"An error occurred while calling \S+\.?$")
"""The first line of an error of Java's: which of its objects was called, of which nobody knows more than a number."""

_NAMED = re.compile(r"\[[A-Z][A-Z0-9_.]+\] [^\n]+")
"""The words of a failure behind its class, by Spark's name for it."""

_LONGEST_LINE = 400

_DEATH = "a Python worker ended without a word: it was killed, or ran out of memory."

_OF_MEMORY = (
    "Give workers more memory, or each task less to read (more partitions), or run fewer tasks at once (cores)."
)

_WORKER_DIED = (
    "Python worker exited unexpectedly",
    "Python worker process",
    "worker failed to connect back",
    "EOFException",
)


def run_job(
    driver: DriverSession,
    context: StageContext,
    spark: SparkSession,
    program: StageProgram,
    frame: Callable[[], DataFrame],
    properties: Mapping[str, str] = NO_PROPERTIES,
    level: int = logging.INFO,
) -> list[Row]:
    """Collect the frame of a stage's epoch, after a silent death a second time."""
    handle = context.handle
    return collect(
        driver,
        context,
        spark,
        frame,
        lambda text: _failed(text, handle, program),
        description=f"stage {handle.stage_id} of {handle.application}, run {handle.run_id}",
        pool=handle.stage_id,
        properties=properties,
        level=level,
        most_tries=JOB_TRIES,
    )


def collect(
    driver: DriverSession,
    context: StageContext | PushContext,
    spark: SparkSession,
    frame: Callable[[], DataFrame],
    failed: Callable[[str], SamzaError],
    *,
    description: str,
    pool: str,
    properties: Mapping[str, str] = NO_PROPERTIES,
    level: int = logging.INFO,
    most_tries: int = 1,
) -> list[Row]:
    """Collect a frame and return its rows; raise a SamzaError, or an error by which Spark itself is gone.

    ``failed`` makes the error of a job that has failed without one of ours, from its text. After the silent death of a
    worker the job may be tried again.
    """
    attempt = context.attempt
    for tries in range(1, most_tries + 1):
        reject_stopped(context.files, attempt)
        try:
            started = time.monotonic()
            with driver.tagged(spark, attempt.group, description, pool=pool, properties=properties):
                rows = frame().collect()
            log.log(level, "%s: the Spark job took %.2f s", attempt.group, time.monotonic() - started)
            return rows
        except Exception as error:
            if attempt.cancel_requested():
                raise cancelled(attempt.handle) from error
            ours = find_error(str(error), context.origins)
            if ours is not None:
                raise ours from error
            if is_spark_lost(error):
                raise
            log.exception("%s: the Spark job failed without an error of ours", attempt.group)
            died = any(words in str(error) for words in _WORKER_DIED)
            if tries == most_tries or not died:
                raise _lacking(str(error), driver) or (
                    _of_memory(failed(_DEATH)) if died else failed(str(error))
                ) from error
    raise AssertionError("a job is tried once at least")


@contextmanager
def losses(driver: DriverSession, handle: StageHandle) -> Iterator[None]:
    """Report a Spark that is gone as :class:`~airflow_samza.errors.StageLost`."""
    try:
        yield
    except SamzaError:
        raise
    except Exception as error:
        if is_spark_lost(error):
            raise StageLost(
                f"{driver.place[0].upper()}{driver.place[1:]} went away while the stage {handle.stage_id} "
                "ran, or lost its session.",
                hint="Try again when it is back.",
                stage=handle.stage_id,
                run=handle.run_id,
            ) from error
        raise


@contextmanager
def failures(origins: Mapping[str, str], failed: Callable[[BaseException], SamzaError]) -> Iterator[None]:
    """Report what Spark, or a function of the user's, raises as an error of ours, without what it was made of.

    It is that of the worker that has failed, else the one that ``failed`` makes of it. A Spark that is gone is left to
    :func:`losses`.
    """
    try:
        yield
    except SamzaError:
        raise
    except USER_ERRORS as error:
        let_interrupts_through(error)
        if is_spark_lost(error):
            raise
        raise find_error(str(error), origins) or failed(error) from None


def _of_memory(error: SamzaError) -> SamzaError:
    """Return the error with the remedy for a worker that has died silently."""
    error.hint = _OF_MEMORY
    return error


def _failed(text: str, handle: StageHandle, program: StageProgram) -> StageFailed:
    return StageFailed(
        f"The Spark job of the stage {handle.stage_id!r} failed{_suspects(program)}: {most_specific_line(text)}",
        hint=f"{WHOLE_ERROR} When it is a value: leave such rows out before, or use try_cast and its like.",
        stage=handle.stage_id,
        run=handle.run_id,
    )


def _lacking(text: str, driver: DriverSession) -> RuntimeMissing | None:
    """Return the error for workers whose Python lacks something: they fail before any code of ours runs."""
    missing = re.search(r"No module named '(\w+)|PACKAGE_NOT_INSTALLED\] (\w+)", text)
    if missing is not None:
        package = missing[1] or missing[2].lower()
        return RuntimeMissing(
            f"The Python workers of {driver.place} lack the package {package!r}.",
            hint=f"Install it where the workers run: pip install {package}. What only this application needs can be "
            "shipped by py_modules.",
            package=package,
        )
    versions = re.search(r"PYTHON_VERSION_MISMATCH\].*?version: (\d+\.\d+) than that in driver: (\d+\.\d+)", text)
    if versions is not None:
        return RuntimeMissing(
            f"The Python workers of {driver.place} run Python {versions[1]}, and the stage runner Python "
            f"{versions[2]}.",
            hint="They must agree: set spark.pyspark.python there, or run Airflow's worker with that Python.",
            workers=versions[1],
            runner=versions[2],
        )
    return None


def _suspects(program: StageProgram) -> str:
    """Return the operators of a stage that Catalyst runs, with their places.

    What fails without an error of ours fails in one of them.
    """
    named = [
        placed(program.operators[op_id].spec)
        for section in program.sections
        if section.kind == "catalyst"
        for op_id in section.operators
    ]
    return f" in {' or '.join(named)}" if named else ""


def most_specific_line(text: str) -> str:
    """Return the line of a failure of Spark's that tells most.

    The one in which a Python traceback ends, else the one that names the failure's class in brackets, else the first.
    """
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and _CALLING.match(lines[0]):
        del lines[0]
    traced = next(
        (number for number, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")), None
    )
    if traced is not None:
        ends = [line for line in lines[traced + 1 :] if re.match(r"[\w.]+(?:Error|Exception|Exit|Interrupt)\b", line)]
        lines = ends or lines
    elif (named := _NAMED.search(text)) is not None:
        lines = [named[0]]
    return lines[0][:_LONGEST_LINE] if lines else "no reason given"

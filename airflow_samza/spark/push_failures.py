"""Failures of Spark in a push as our errors: those that stay, and those that may pass and are worth another try."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from airflow_samza.application.rejections import SourceLocation
from airflow_samza.engine.worker_errors import python_failure
from airflow_samza.errors import PushError, SamzaError, SourceUnavailable, StageFailed
from airflow_samza.launch.log_lines import WHOLE_ERROR, WHOLE_TRACEBACK
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.secrecy import without
from airflow_samza.spark.lacking_jars import find_lacking
from airflow_samza.spark.sessions.driver_session import is_spark_lost
from airflow_samza.spark.stage_job import most_specific_line

_NAMED = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
"""Spark's names of a failure, by class and subclass."""

_OF_VALUES = (
    "CAST_",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "MALFORMED",
    "CANNOT_READ_FILE_FOOTER",
    "DATA_TYPE_MISMATCH",
    "DATETIME",
)
_OF_NAMES = ("DATA_SOURCE_NOT_FOUND",)
_NO_CONNECTION = "FAILED_JDBC.CONNECTION"
"""Spark takes a database that does not answer for a mistake in the query."""

_NO_SECRETS: Mapping[str, Any] = {}


@contextmanager
def failures_of_source(request: PushRequest, secrets: Mapping[str, Any] = _NO_SECRETS) -> Iterator[None]:
    """Report Spark's rejection of a source as a sentence about the push, without secrets."""
    try:
        yield
    except SamzaError:
        raise
    except Exception as error:
        if is_spark_lost(error) or request.kind_of_source == "callable":
            raise
        raise _source_failure(request, error, secrets) from None


def function_failed(request: PushRequest, error: BaseException) -> StageFailed:
    """Return the error of a function of the user's that was to return a DataFrame."""
    at = SourceLocation.of_traceback(error.__traceback__)
    return StageFailed(
        f"The function {request.source['callable']!r} that makes the rows of table {request.table!r} failed: "
        f"{type(error).__name__}: {most_specific_line(str(error))}{f' ({at})' if at is not None else ''}",
        hint=WHOLE_TRACEBACK,
        stage=request.handle.stage_id,
        run=request.handle.run_id,
    )


def job_failed(request: PushRequest, text: str) -> SamzaError:
    """Return the error of a Spark job that has failed with this text, and none of ours in it."""
    raised = python_failure(text)
    if raised is not None and request.kind_of_source == "callable":
        return StageFailed(
            f"A worker failed at the rows that {request.source['callable']!r} makes for table {request.table!r}: "
            f"{raised}",
            hint=WHOLE_TRACEBACK,
            stage=request.handle.stage_id,
            run=request.handle.run_id,
        )
    said = raised or most_specific_line(text)
    if _is_named(text, _OF_VALUES):
        return PushError(
            f"The source of the push of table {request.table!r} ({request.source_text}) has values that are not the "
            f"table's: {said}",
            hint="Fix the source, or say how to read it: columns={'column': 'try_cast(…)'}.",
            table=request.table,
        )
    return StageFailed(
        f"The Spark job of the push of table {request.table!r} failed: {said}",
        hint=WHOLE_ERROR,
        stage=request.handle.stage_id,
        run=request.handle.run_id,
    )


def _source_failure(request: PushRequest, error: Exception, secrets: Mapping[str, Any]) -> SamzaError:
    text = str(error)
    said = most_specific_line(without(text, secrets.values()))
    lacking = find_lacking(text)
    if lacking is not None:
        return lacking.error(f"the source of the push of table {request.table!r} ({request.source_text})")
    if _may_pass(error, text):
        return SourceUnavailable(
            f"The source of the push of table {request.table!r} ({request.source_text}) cannot be read now: {said}",
            hint="Nothing was pushed; try again when it answers. If it never answered, correct source=.",
            table=request.table,
        )
    return PushError(
        f"The source of the push of table {request.table!r} ({request.source_text}) cannot be read: {said}",
        hint="Correct source=, columns=, deletes= or latest_by=.",
        table=request.table,
    )


def _may_pass(error: Exception, text: str) -> bool:
    """Return whether a source may be there in a minute: a host does not answer, a file is being replaced."""
    from pyspark.errors import AnalysisException, IllegalArgumentException

    if _NO_CONNECTION in text:
        return True
    is_wrong = isinstance(error, (AnalysisException, IllegalArgumentException)) or "ClassNotFoundException" in text
    return not is_wrong and not _is_named(text, _OF_VALUES + _OF_NAMES)


def _is_named(text: str, words: tuple[str, ...]) -> bool:
    return any(word in name for name in _NAMED.findall(text) for word in words)

"""Failures of a push's source that are for good, and those that may pass: as Spark 4.2 words them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException

from airflow_samza.errors import PushError, RuntimeMissing, SourceUnavailable, StageFailed
from airflow_samza.spark.dataframe_inputs import first_line
from airflow_samza.spark.push_job import failures_of_source, job_failed, read_source
from airflow_samza.systems.spark.tables import SparkTable
from tests.support.pushes import Pushes


class RaisedByJava(Exception):
    """Stands for what Py4J raises for any other error of Java's."""


CALL, SPARK = "An error occurred while calling o39.parquet.\n: ", "org.apache.spark"
NO_HOST = f"{CALL}java.net.ConnectException: Call From worker-7/10.0.0.7 to nn1:8020: Connection refused\n\tat x"
SAFE_MODE = f"{CALL}org.apache.hadoop.ipc.RemoteException(SafeModeException): it is in safe mode.\n\tat x"
REPLACED = (
    f"{CALL}{SPARK}.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file "
    "/in/1.\n\tat x"
)
NO_PARQUET = (
    f"{CALL}{SPARK}.SparkException: [FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while "
    "reading /in.\n\tat x"
)
NO_FORMAT = (
    f"{CALL}{SPARK}.SparkClassNotFoundException: [DATA_SOURCE_NOT_FOUND] Failed to find the data source: dleta.\n\tat x"
)
NO_CLASS = f"{CALL}java.lang.ClassNotFoundException: org.postgresql.Diver\n\tat x"
NO_DRIVER = f"{CALL}java.sql.SQLException: No suitable driver\n\tat x"
NO_DATABASE = (
    "[FAILED_JDBC.CONNECTION] Failed JDBC jdbc:postgresql:*********(redacted) on the operation: Couldn't "
    "connect SQLSTATE: HV000"
)
NO_PATH = "[PATH_NOT_FOUND] Path does not exist: hdfs://nn1/in. SQLSTATE: 42K03"
BAD_LINE = (
    f"{CALL}{SPARK}.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file /in/1.csv.\n"
    "Caused by: {SPARK}.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records: [a,null]."
)


def told(tmp_path: Path, error: Exception, secrets: dict[str, Any] | None = None) -> Exception:
    request = Pushes(tmp_path).request("monday", source={"path": "hdfs://nn1/in"})
    with pytest.raises(Exception) as caught, failures_of_source(request, secrets or {}):  # noqa: PT011 - which one is what is tried
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [RaisedByJava(NO_HOST), RaisedByJava(SAFE_MODE), RaisedByJava(REPLACED), AnalysisException(NO_DATABASE)],
    ids=["host", "safe mode", "replaced file", "database"],
)
def test_what_may_pass_is_tried_again(tmp_path: Path, error: Exception) -> None:
    found = told(tmp_path, error)
    assert type(found) is SourceUnavailable
    assert found.retryable


@pytest.mark.parametrize(
    "error",
    [
        RaisedByJava(NO_PARQUET),
        RaisedByJava(NO_FORMAT),
        RaisedByJava(NO_CLASS),
        AnalysisException(NO_PATH),
        IllegalArgumentException("Wrong FS: s3://models"),
    ],
    ids=["no parquet", "no format", "no class", "no path", "argument"],
)
def test_what_is_wrong_is_rejected_for_good(tmp_path: Path, error: Exception) -> None:
    found = told(tmp_path, error)
    assert type(found) is PushError
    assert not found.retryable


def test_columns_that_a_function_s_rows_lack_are_wrong_for_good(tmp_path: Path) -> None:
    request = Pushes(tmp_path).request("monday", source={"callable": "models:scores"})
    with (
        pytest.raises(PushError, match=r"\(callable models:scores\) cannot be read: .* `scor`"),
        failures_of_source(request),
    ):
        raise AnalysisException("[UNRESOLVED_COLUMN] A column with name `scor` cannot be resolved.")


def test_what_spark_lacks_is_named_with_its_remedy(tmp_path: Path) -> None:
    assert isinstance(told(tmp_path, RaisedByJava(NO_DRIVER)), RuntimeMissing)


def test_the_first_words_are_told_without_secrets(tmp_path: Path) -> None:
    text = str(told(tmp_path, RaisedByJava(NO_HOST.replace("nn1", "hunter2")), {"password": "hunter2", "user": ""}))
    assert "java.net.ConnectException: Call From worker-7/10.0.0.7 to ***:8020" in text


@pytest.mark.parametrize("before", range(380, 400, 3))
def test_no_part_of_a_secret_is_told_where_a_long_line_is_cut(tmp_path: Path, before: int) -> None:
    text = str(told(tmp_path, RaisedByJava(f"{'x' * before}hunter2"), {"password": "hunter2"}))
    assert "hun" not in text
    table = SparkTable("in", "db", options={"password": "hunter2"}, secret=frozenset({"password"}))
    assert "hun" not in first_line(RaisedByJava(f"{'x' * before}hunter2"), table)


def test_an_input_of_spark_tells_java_s_reason_and_not_which_of_its_objects_was_called() -> None:
    assert first_line(RaisedByJava(NO_DRIVER), None) == "RaisedByJava: java.sql.SQLException: No suitable driver"


def test_a_bad_value_of_a_job_is_wrong_for_good_and_a_file_that_went_is_not(tmp_path: Path) -> None:
    request = Pushes(tmp_path).request("monday")
    assert type(job_failed(request, BAD_LINE)) is PushError
    assert type(job_failed(request, REPLACED)) is StageFailed


def scores(spark: Any) -> Any:
    raise ValueError("no scores today")


def test_a_function_that_fails_may_be_tried_again_and_its_traceback_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    request = Pushes(tmp_path).request("monday", source={"callable": f"{__name__}:scores"})
    with pytest.raises(StageFailed) as caught:
        read_source(object(), request, {})  # type: ignore[arg-type]
    assert caught.value.retryable
    assert ":scores' that makes the rows of table 'profiles' failed: ValueError: no scores today (" in str(caught.value)
    assert "in scores" in caplog.text

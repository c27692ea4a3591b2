from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from airflow.sdk.log import configure_logging, reset_logging

from airflow_samza.errors import ConfigError, MessageError, PlanErrors, SamzaError, StageLost, UpstreamCleared
from airflow_samza.provider.airflow_versions import AirflowException, AirflowFailException
from airflow_samza.provider.failures import SamzaTaskFailed, SamzaTaskRejected, mapped_failures


def every_error(kind: type[SamzaError] = SamzaError) -> list[type[SamzaError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every_error(child))]


@pytest.mark.parametrize("kind", [kind for kind in every_error() if kind is not PlanErrors])
def test_only_what_is_retryable_is_retried(kind: type[SamzaError]) -> None:
    with pytest.raises(AirflowException) as raised, mapped_failures():
        raise kind("It failed.", hint="Fix it.")
    # A retry is of the generation that is bound to what was cleared; only a clear of its own brings another.
    assert isinstance(raised.value, AirflowFailException) is not (kind.retryable and kind is not UpstreamCleared)
    assert str(raised.value) == "It failed.\n  Hint: Fix it."


def test_the_sentence_is_told_and_the_error_kept() -> None:
    told: list[str] = []
    error = MessageError("m", operator="map", file="a.py", line=3)
    with pytest.raises(AirflowException) as raised, mapped_failures(told.append):
        raise error
    assert told == ["m"]
    assert isinstance(raised.value, SamzaTaskFailed | SamzaTaskRejected)
    assert raised.value.error is error


@pytest.fixture
def task_log() -> Iterator[io.BytesIO]:
    """Return the lines of a task process of Airflow, with its logging set up as there."""
    written = io.BytesIO()
    reset_logging()
    configure_logging(json_output=True, output=written, sending_to_supervisor=True)
    yield written
    reset_logging()
    structlog.reset_defaults()


def logged(error: Exception, log: Any) -> None:
    """Raise an error in an operator, and log it as Airflow's task process does."""
    try:
        with mapped_failures():
            raise error
    except Exception:
        log.exception("Task failed with exception")


@pytest.mark.parametrize("error", [ConfigError("It is wrong."), StageLost("It is lost.")], ids=["final", "retried"])
def test_our_errors_are_logged_without_frames(task_log: io.BytesIO, error: SamzaError) -> None:
    logged(error, structlog.get_logger(logger_name="task"))
    lines = [json.loads(line) for line in task_log.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["Task failed with exception"]
    assert "exception" not in lines[0]


def test_errors_that_nobody_expected_keep_their_frames(task_log: io.BytesIO) -> None:
    log = structlog.get_logger(logger_name="task")
    logged(ConfigError("It is wrong."), log)
    logged(ZeroDivisionError("by zero"), log)
    assert json.loads(task_log.getvalue().splitlines()[1])["exception"][0]["frames"]


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        (
            "First undo it: airflow-samza state reset views --to 1; then clear it.",
            "First undo it: airflow-samza state reset views --to 1 --root '/my data'; then clear it.",
        ),
        (
            "To give it up: airflow-samza state abandon v run-12.00.5-x --force",
            "abandon v run-12.00.5-x --force --root '/my data'",
        ),
        ("Check the name with 'airflow-samza topics list'; it", "'airflow-samza topics list --root '/my data''; it"),
        ("Free space (airflow-samza gc), or forget all: airflow-samza state reset.", "state reset --root '/my data'."),
    ],
)
def test_commands_in_a_tasks_log_name_the_root(hint: str, said: str) -> None:
    with pytest.raises(SamzaTaskRejected) as caught, mapped_failures(root=lambda: "/my data"):
        raise ConfigError("It is wrong.", hint=hint)
    assert said in str(caught.value)


def test_other_errors_pass_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), mapped_failures():
        raise ZeroDivisionError


def test_a_lost_runner_is_tried_again_and_a_wrong_setting_is_not() -> None:
    assert StageLost.retryable
    assert not ConfigError.retryable

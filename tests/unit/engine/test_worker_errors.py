"""Errors of workers on their way to the driver, through the text of a failed job."""

from __future__ import annotations

import json

import pytest

from airflow_samza.engine.worker_errors import (
    MARK,
    WorkerError,
    error_of_task,
    find_error,
    from_worker,
    python_failure,
    shown_as_written,
)
from airflow_samza.errors import MessageError, StageFailed, TopicError

OURS = MessageError("f raised.", hint="Look.", operator="map 'm'", file="/tmp/code-1.zip/jobs/views.py", line=3)


def test_an_error_of_ours_is_carried_as_it_is() -> None:
    assert error_of_task(OURS, "views", 3) is OURS
    found = find_error(f"Job aborted: \n{from_worker(OURS, 'views', 3)}\n\tat java.base", {})
    assert isinstance(found, MessageError)
    assert (found.sentence, found.hint, found.facts["operator"]) == ("f raised.", "Look.", "map 'm'")


def test_any_other_error_names_the_task_and_the_line() -> None:
    try:
        raise ZeroDivisionError("by zero")
    except ZeroDivisionError as error:
        found = error_of_task(error, "views", 3)
    assert isinstance(found, StageFailed)
    assert found.sentence.startswith("Task 3 of the stage views failed: ZeroDivisionError: by zero at ")
    assert "test_worker_errors.py:" in found.sentence
    assert (found.facts["stage"], found.facts["task"]) == ("views", 3)


def test_an_error_that_was_never_raised_has_no_line() -> None:
    found = error_of_task(ValueError("odd"), "views", 3)
    assert found.sentence == "Task 3 of the stage views failed: ValueError: odd"


@pytest.mark.parametrize("text", ["", "Job aborted", MARK, f"{MARK}no JSON"])
def test_a_text_without_an_error_of_ours_has_none(text: str) -> None:
    assert find_error(text, {}) is None


def test_places_in_shipped_code_are_those_that_the_user_knows() -> None:
    found = find_error(str(WorkerError(OURS)), {"/tmp/code-1.zip": "/home/jo"})
    assert found is not None
    assert found.facts["file"] == "/home/jo/jobs/views.py"
    assert found.facts["line"] == 3


def test_places_of_several_errors_as_one_are_shown_too() -> None:
    part = {"sentence": "in /tmp/code-1.zip/a.py", "facts": {"file": "/tmp/code-1.zip/a.py", "n": 1}}
    data = {"sentence": "2 errors.", "errors": [part, part], "facts": None}
    shown = shown_as_written(data, {"/tmp/code-1.zip": "/home/jo"})
    expected = {"sentence": "in /home/jo/a.py", "facts": {"file": "/home/jo/a.py", "n": 1}}
    assert shown == {"sentence": "2 errors.", "errors": [expected, expected], "facts": {}}


def test_what_is_no_error_has_no_facts() -> None:
    assert shown_as_written(None, {}) == {"facts": {}}
    assert find_error(MARK + json.dumps(TopicError("t").to_dict()), {}) is not None


FRAMES = '  File "{}", line 4, in rows\n    f()\n'


@pytest.mark.parametrize(
    ("frames", "shown"),
    [
        (["/jobs/models.py"], "ValueError: odd (/jobs/models.py:4)"),
        (["/jobs/models.py", "/x/site-packages/a/b.py"], "ValueError: odd (/jobs/models.py:4)"),
        (["/jobs/models.py", "/usr/lib/python3.11/json.py", "<string>"], "ValueError: odd (/jobs/models.py:4)"),
        (["/a.zip/airflow_samza/task.py", "/spark/pyspark.zip/worker.py"], "ValueError: odd"),
        (["/jobs/first.py", "/jobs/second.py"], "ValueError: odd (/jobs/second.py:4)"),
        ([], "ValueError: odd"),
    ],
)
def test_a_failure_of_a_users_function_is_named_with_the_users_last_line(frames: list[str], shown: str) -> None:
    told = "".join(FRAMES.format(frame) for frame in frames)
    text = f"[PYTHON_EXCEPTION]: Traceback (most recent call last):\n{told}\nValueError: odd\n\tat java.base"
    assert python_failure(text) == shown


@pytest.mark.parametrize("text", ["", "ValueError: odd", "Traceback (most recent call last):\n", "Job aborted\n"])
def test_a_text_without_a_traceback_has_no_failure_of_python(text: str) -> None:
    assert python_failure(text) is None

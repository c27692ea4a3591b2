"""Errors on their way from a Python worker through the JVM to the driver, as one line of JSON.

Workers write them, and the jobs of stages and pushes on the driver read them.
"""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Mapping
from pathlib import Path

from airflow_samza.errors import SamzaError, StageFailed
from airflow_samza.launch.code_shipping import as_written
from airflow_samza.launch.log_lines import WHOLE_TRACEBACK

MARK = "airflow_samza error: "


class WorkerError(Exception):
    """Carries an error out of a worker; its text is the JSON form behind a mark."""

    def __init__(self, error: SamzaError) -> None:
        super().__init__(MARK + json.dumps(error.to_dict()))


def from_worker(error: BaseException, stage: str, task: int) -> WorkerError:
    """Return what a worker raises for whatever went wrong in a task."""
    return WorkerError(error_of_task(error, stage, task))


def error_of_task(error: BaseException, stage: str, task: int) -> SamzaError:
    """Return an error of ours as it is, and any other as one that names the task in which it happened."""
    if isinstance(error, SamzaError):
        return error
    last = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" at {last[0].filename}:{last[0].lineno}" if last else ""
    return StageFailed(
        f"Task {task} of the stage {stage} failed: {type(error).__name__}: {error}{where}",
        hint=WHOLE_TRACEBACK,
        stage=stage,
        task=task,
    )


def find_error(text: str, origins: Mapping[str, str]) -> SamzaError | None:
    """Return the error in a failed job's text, with places in shipped code as the user knows them; None without one."""
    start = text.find(MARK)
    if start < 0:
        return None
    try:
        data, _ = json.JSONDecoder().raw_decode(text[start + len(MARK) :])
    except ValueError:
        return None
    return SamzaError.from_dict(shown_as_written(data, origins))


_TRACEBACK = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+)')
_OURS = str(Path(__file__).resolve().parents[1])
_NOT_THE_USERS = (
    "/site-packages/",
    "/dist-packages/",
    "/lib/python",
    "/pyspark.zip/",
    ".zip/airflow_samza/",
    f"{_OURS}/",
    "<",
)


def python_failure(text: str) -> str | None:
    r"""Return what a user's function raised in a worker, and where, from the text of a failed job; None: no such text.

    >>> told = '  File "/jobs/models.py", line 4, in rows\n    f()\nValueError: odd\n\tat java.base'
    >>> python_failure(f"[PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):\n{told}")
    'ValueError: odd (/jobs/models.py:4)'
    """
    place = ""
    for line in text.partition(_TRACEBACK)[2].splitlines():
        frame = _FRAME.match(line)
        if frame is not None and not any(part in frame[1] for part in _NOT_THE_USERS):
            place = f" ({frame[1]}:{frame[2]})"
        if line.strip() and not line[0].isspace():
            return f"{line.strip()}{place}"
    return None


def shown_as_written(data: object, origins: Mapping[str, str]) -> dict[str, object]:
    """Return an error's JSON form with paths into shipped zips (keys) replaced by their folders of origin (values)."""

    def shown(value: object) -> object:
        if isinstance(value, str):
            for zip_path, origin in origins.items():
                value = as_written(str(value), zip_path, origin)
        return value

    fields = dict(data) if isinstance(data, dict) else {}
    if isinstance(fields.get("errors"), list):  # several as one
        fields["errors"] = [shown_as_written(part, origins) for part in fields["errors"]]
    facts = fields.get("facts")
    fields["facts"] = {name: shown(value) for name, value in facts.items()} if isinstance(facts, dict) else {}
    return {name: shown(value) for name, value in fields.items()}

"""Errors on their way from a Python worker through the JVM to the driver: as one line of JSON in the exception's text."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping

from airflow_samza.errors import SamzaError, StageFailed
from airflow_samza.spark.code_shipping import as_written

MARK = "airflow_samza error: "


class WorkerError(Exception):
    """Carries an error out of a worker; its text is the JSON form behind a mark."""

    def __init__(self, error: SamzaError) -> None:
        super().__init__(MARK + json.dumps(error.to_dict()))


def from_worker(error: BaseException, stage: str, task: int) -> WorkerError:
    """What a worker raises for whatever went wrong in a task."""
    if not isinstance(error, SamzaError):
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = f" at {last[0].filename}:{last[0].lineno}" if last else ""
        error = StageFailed(
            f"Task {task} of the stage {stage} failed: {type(error).__name__}: {error}{where}",
            hint="The runner's log has the whole traceback.",
            stage=stage,
            task=task,
        )
    return WorkerError(error)


def find_error(text: str, origins: Mapping[str, str]) -> SamzaError | None:
    """The error in the text of a failed job, with places in shipped code as the user knows them; None when there is none."""
    start = text.find(MARK)
    if start < 0:
        return None
    try:
        data, _ = json.JSONDecoder().raw_decode(text[start + len(MARK) :])
    except ValueError:
        return None
    return SamzaError.from_dict(shown_as_written(data, origins))


def shown_as_written(data: object, origins: Mapping[str, str]) -> dict[str, object]:
    """The JSON form of an error with paths into shipped zips (keys) replaced by the folders they came from (values)."""

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

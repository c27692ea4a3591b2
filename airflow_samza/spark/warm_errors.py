"""Errors that a warm runner reports to the run that it serves."""

from __future__ import annotations

from airflow_samza.engine.pulse import AGAIN
from airflow_samza.errors import SamzaError, StageFailed, StageLost
from airflow_samza.launch.java import why_java_ended
from airflow_samza.launch.log_lines import details_in
from airflow_samza.launch.warm_places import WarmPlace


def as_told(error: BaseException, what: str, place: WarmPlace) -> SamzaError:
    """Return the error for a run whose warm runner failed at ``what``: ``start``, or something later."""
    if isinstance(error, SamzaError):
        return error
    if what != "start":
        return StageLost(f"The warm runner {place.name} is not well: {type(error).__name__}.", hint=AGAIN)
    first = str(error).splitlines()[0] if str(error) else ""
    why = f"{type(error).__name__}: {first}"
    if "JAVA_GATEWAY_EXITED" in why:
        with open(place.log, encoding="utf-8", errors="replace") as file:
            why = why_java_ended(error, file.read().splitlines())
    return StageFailed(f"Spark does not start: {why}", hint=details_in())

"""The execution modes of a run, and which of them fit an application."""

from __future__ import annotations

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.errors import ConfigError
from airflow_samza.runs.records.run_plan import CONTINUOUS, PIPELINED, STAGED


def check_mode(spec: ApplicationSpec, mode: str) -> None:
    """Reject a mode that is none, or that does not fit the application."""
    if mode not in (STAGED, PIPELINED, CONTINUOUS):
        raise ConfigError(
            f"The mode {mode!r} of a run is not known.",
            hint="Choose staged, pipelined or continuous.",
            key="mode",
            value=mode,
        )
    if mode == CONTINUOUS and all(stream.bounded for stream in spec.inputs.values()):
        raise ConfigError(
            f"The application {spec.name!r} has no unbounded input, so a continuous run of it would be a pipelined "
            "one.",
            hint="Declare an input unbounded (bounded=False), or choose pipelined.",
            key="mode",
            value=mode,
        )

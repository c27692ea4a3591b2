"""``airflow-samza drain`` and ``airflow-samza stop``, which end runs on unbounded inputs."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence

from airflow_samza.cli.environment import Environment
from airflow_samza.cli.options import at_most_two
from airflow_samza.cli.status_command import chosen_run
from airflow_samza.errors import ConfigError
from airflow_samza.private_folder import user_name
from airflow_samza.runs.progress.run_list import plan_of
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.stages.run_ends import ask_to_drain, ask_to_stop
from airflow_samza.systems.filesystems.opening import open_filesystem


def end_run(environment: Environment, names: Sequence[str], *, drains: bool) -> str:
    """Leave the request in the run's folder, where its stages see it within a fraction of a second.

    What was done, as a sentence.
    """
    files = open_filesystem(environment.root)
    word = "drain" if drains else "stop"
    run = plan_of(files, chosen_run(files, at_most_two(names, word)))
    if not run.stages_run_concurrently:
        raise ConfigError(
            f"The run {run.run_id!r} of {run.application!r} is {run.mode}, and ends by itself.",
            hint="Only pipelined and continuous runs can be drained or stopped; cancel the command that runs it.",
            key="mode",
            value=run.mode,
        )
    ask = ask_to_drain if drains else ask_to_stop
    who = f"{user_name() or os.geteuid()} on {platform.node()}"
    ask(files, RunFolder(run.application, run.run_id), run.generation, who)
    what = "ends when what has arrived is processed" if drains else "stops where it is, and keeps its state"
    return f"Run {run.run_id} of {run.application} {what}; airflow-samza status shows how far it is."

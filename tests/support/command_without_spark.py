"""The command line, whose stage runners have no Spark: ``python -m tests.support.command_without_spark run …``."""

from __future__ import annotations

import os

from airflow_samza.cli import main, run_command as command
from airflow_samza.launch import launcher, own_process
from tests.support import runner_without_spark

if __name__ == "__main__":
    own_process.RUNNER_MODULE = runner_without_spark.__name__
    launcher.check_place = lambda master, submit, python="": None
    command.CANCEL_SECONDS = float(os.environ.get("CANCEL_SECONDS", command.CANCEL_SECONDS))
    main()

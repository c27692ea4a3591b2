"""The command line ``airflow-samza``.

Commands in ``app``, their groups (``topics``, ``state``, ``tables``) in files of their own.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line that the process was started with."""
    from airflow_samza.cli.app import app

    app(prog_name="airflow-samza")

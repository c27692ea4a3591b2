"""Each command that reports can do so as JSON, by one flag."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from airflow_samza.cli.app import app

WITHOUT = {
    "airflow-samza cancel",
    "airflow-samza drain",
    "airflow-samza init",
    "airflow-samza logs",
    "airflow-samza runs finish",
    "airflow-samza state abandon",
    "airflow-samza state reset",
    "airflow-samza stop",
    "airflow-samza tables compact",
    "airflow-samza tables rollback",
    "airflow-samza topics expire",
    "airflow-samza topics tail",
    "airflow-samza version",
    "airflow-samza warm end",
}
"""Commands that do something, print a log, or print JSON in any case."""


def commands(group: Any, name: str) -> Iterator[tuple[str, Any]]:
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{name} {word}")
        else:
            yield f"{name} {word}", command


def test_every_report_has_json() -> None:
    lacking = {
        name
        for name, command in commands(typer.main.get_command(app), "airflow-samza")
        if not any("--json" in parameter.opts for parameter in command.params)
    }
    assert lacking == WITHOUT

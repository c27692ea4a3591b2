"""The script by which commands of a shell reach an Airflow on this machine."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path

import pytest

from demo.command_script import write_script
from demo.local_airflow import LocalAirflow


def variables(script: Path) -> list[str]:
    """The environment that a command has in the script, from a shell that has nothing but a path."""
    ran = subprocess.run([str(script), "env"], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin"})
    return ran.stdout.splitlines()


def test_a_command_has_the_settings_and_connections_of_the_airflow(tmp_path: Path) -> None:
    connection = json.dumps({"conn_type": "fs", "extra": {"path": '/it\'s a "path" with $HOME'}})
    found = variables(
        write_script(tmp_path, {"AIRFLOW_HOME": "/somewhere else", "AIRFLOW_CONN_DATA": connection, "TMPDIR": "/own"})
    )
    assert {f"AIRFLOW_CONN_DATA={connection}", "AIRFLOW_HOME=/somewhere else", "TMPDIR=/own"} <= set(found)


def test_a_setting_that_the_shell_of_the_airflow_had_too_is_in_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor")
    found = variables(write_script(tmp_path, {"AIRFLOW__CORE__EXECUTOR": "LocalExecutor"}))
    assert "AIRFLOW__CORE__EXECUTOR=LocalExecutor" in found


def test_what_the_airflow_has_of_its_shell_is_not_in_the_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "x")
    script = write_script(tmp_path, LocalAirflow(tmp_path, dags=tmp_path).environment)
    assert "SECRET_OF_THE_SHELL" not in script.read_text()


def test_the_script_finds_the_commands_of_this_environment(tmp_path: Path) -> None:
    script = write_script(tmp_path, LocalAirflow(tmp_path, dags=tmp_path).environment)
    ran = subprocess.run(
        [str(script), "airflow-samza", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin"},
    )
    assert ran.stdout.startswith("airflow-samza ")


def test_only_its_user_can_read_the_script_which_holds_connections(tmp_path: Path) -> None:
    assert stat.S_IMODE(write_script(tmp_path, {}).stat().st_mode) & 0o077 == 0

"""The key of warm runners: what may share a Java, and what never does."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.warm import key as module
from airflow_samza.launch.warm.key import lasting_environment, warm_key
from airflow_samza.launch.warm.settings import WarmRunners
from airflow_samza.systems.system import SystemBinding
from tests.support.second_environment import make_environment

SETTINGS = RunnerSettings("/data/samza", {"logs": SystemBinding("files", {"root": "/logs"})}, tenant="samza_default")
ENVIRONMENT = {"PATH": "/bin", "AIRFLOW_CTX_DAG_ID": "one", "SHLVL": "1", "AWS_PROFILE": "a"}


@pytest.mark.parametrize(
    "other",
    [
        {"root": "/data/other"},
        {"tenant": "samza_other"},
        {"master": "local[2]"},
        {"conf": {"spark.driver.memory": "2g"}},
        {"conf": {"spark.hadoop.fs.s3a.secret.key": "of another"}},
        {"class_archives": "/var/archives"},
        {"archives": ("/data/model.zip",)},
    ],
)
def test_runs_that_differ_in_who_they_are_or_what_java_is_made_of_share_none(other: dict[str, Any]) -> None:
    assert warm_key(dataclasses.replace(SETTINGS, **other), ENVIRONMENT) != warm_key(SETTINGS, ENVIRONMENT)


@pytest.mark.parametrize(
    "other",
    [
        {"code": ("runs/a/code/0123.zip",)},
        {"bindings": {"logs": SystemBinding("files", {"root": "/other"})}},
        {"idle_seconds": 1.0},
        {"warm": WarmRunners(3)},
    ],
)
def test_runs_of_other_code_and_systems_share_one(other: dict[str, Any]) -> None:
    assert warm_key(dataclasses.replace(SETTINGS, **other), ENVIRONMENT) == warm_key(SETTINGS, ENVIRONMENT)


def test_another_user_shares_none(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = warm_key(SETTINGS, ENVIRONMENT)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert warm_key(SETTINGS, ENVIRONMENT) != mine


def test_another_environment_shares_none_and_another_task_does() -> None:
    mine = warm_key(SETTINGS, ENVIRONMENT)
    assert warm_key(SETTINGS, {**ENVIRONMENT, "AWS_PROFILE": "b"}) != mine
    assert warm_key(SETTINGS, {**ENVIRONMENT, "AIRFLOW_CTX_DAG_ID": "two", "SHLVL": "2", "_": "x"}) == mine


def test_variables_of_one_task_do_not_outlive_it() -> None:
    assert lasting_environment(ENVIRONMENT) == {"PATH": "/bin", "AWS_PROFILE": "a"}


def test_installing_a_package_for_the_runners_python_shares_none(tmp_path: Path) -> None:
    settings = dataclasses.replace(SETTINGS, python=str(make_environment(tmp_path / "environment")))
    mine = warm_key(settings, ENVIRONMENT)
    assert warm_key(settings, ENVIRONMENT) == mine
    (packages,) = tmp_path.glob("environment/lib/python3*/site-packages")
    os.utime(packages, (1, 1))
    assert warm_key(settings, ENVIRONMENT) != mine


def test_an_upgrade_of_this_package_shares_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "airflow_samza" / "launch" / "warm"
    package.mkdir(parents=True)
    (package / "key.py").write_text("old")
    monkeypatch.setattr(module, "__file__", str(package / "key.py"))
    mine = warm_key(SETTINGS, ENVIRONMENT)
    (package / "key.py").write_text("newer")
    assert warm_key(SETTINGS, ENVIRONMENT) != mine


def test_no_secret_of_a_system_goes_to_the_process_that_keeps_java() -> None:
    secret = SystemBinding("files", {"token": "s3cr3t"}, frozenset({"token"}))
    assert "s3cr3t" not in str(dataclasses.replace(SETTINGS, bindings={"logs": secret}).to_warm_json())

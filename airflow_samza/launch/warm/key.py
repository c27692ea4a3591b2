"""The key of warm runners: runs whose keys differ in anything never use the same Java."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from airflow_samza.errors import SamzaError
from airflow_samza.launch.java.installed_java import find_java
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.runner_python import environment_state, state_of
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.spark_versions import PYSPARK, installed_version
from airflow_samza.launch.warm.settings import VARIABLE
from airflow_samza.runs.records import liveness

_OF_ONE_TASK = (
    "AIRFLOW_CTX_",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "PYTEST_CURRENT_TEST",
    "SSH_",
    "TMUX",
    "XDG_SESSION_",
    "_AIRFLOW_",
    "__AIRFLOW_",
)
_OF_ONE_SHELL = frozenset(
    {"_", "COLUMNS", "LINES", "OLDPWD", "PWD", "SHLVL", "STY", "TERM", "WINDOWID", VARIABLE, "PYTHONUNBUFFERED"}
)


def lasting_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a Java may inherit which outlives the run: without those of one task or one shell."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _OF_ONE_SHELL and not name.startswith(_OF_ONE_TASK)
    }


def warm_key(settings: RunnerSettings, environment: Mapping[str, str]) -> str:
    """Return the digest of everything that one Java is made of, which holds secrets and stays in this process.

    Who it belongs to (user, root, tenant), where it is (host and container), which programs it runs (Python, packages,
    Spark, Java), its static settings, and the environment of its processes.
    """
    facts = {
        "user": os.geteuid(),
        "place": [liveness.place(), _mounts()],
        "root": settings.root,
        "tenant": settings.tenant,
        "python": [settings.python or sys.executable, sys.version, *environment_state(settings.python)],
        "package": _package_state(),
        "spark": installed_version(PYSPARK) or "",
        "java": _java(),
        "master": parse_master(settings.master).url,
        "conf": dict(settings.conf),
        "archives": [[path, *state_of(path.partition("#")[0])] for path in settings.archives],
        "class_archives": settings.class_archives,
        "environment": lasting_environment(environment),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _package_state() -> list[list[int | str]]:
    """Return our own files with sizes and times: a warm runner of before an upgrade serves nobody after it."""
    folders = os.walk(Path(__file__).resolve().parents[2])
    files = [os.path.join(folder, name) for folder, _, names in folders for name in names if name.endswith(".py")]
    return [[file, *state_of(file)] for file in sorted(files)]


def _mounts() -> str:
    """Return the namespace of mounts: containers may share a folder for temporary files, and see other files else."""
    with suppress(OSError):
        return os.readlink("/proc/self/ns/mnt")
    return ""


def _java() -> list[str]:
    with suppress(SamzaError):
        java = find_java()
        return [os.path.realpath(java.path), java.version]
    return []

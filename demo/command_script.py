"""A script that runs any command with the environment of an Airflow on this machine."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

NAME = "in-airflow"


def write_script(folder: Path, environment: Mapping[str, str]) -> Path:
    """Write ``FOLDER/in-airflow``, with Airflow's settings and whatever else differs from this process's environment.

    Only its user can read it: it holds the connections.
    """
    own = {name: value for name, value in environment.items() if _is_own(name, value)}
    script = folder / NAME
    script.touch(mode=0o700)
    lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(own.items())]
    script.write_text("\n".join(["#!/bin/sh", *lines, 'exec "$@"', ""]))
    return script


def _is_own(name: str, value: str) -> bool:
    # A shell that is opened later need not have the settings that this process has by chance.
    return name.startswith("AIRFLOW") or os.environ.get(name) != value

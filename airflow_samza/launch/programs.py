"""Programs that this process starts: those that outlive it, and variables of the environment that are set meanwhile.

Stage runners, warm runners and spark-submit are started by it. Starts of a local Spark give Java its options by
variables, and the command line shows Airflow where its connections are.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"


def start_detached(
    command: Sequence[str], output: str, environment: Mapping[str, str], given: Mapping[str, object] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one; it prints into a file, and what it is ``given`` is its standard input."""
    with open(output, "ab") as file:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # it lives on when the Airflow task, with its process group, is killed
            env=environment,
            cwd="/",
        )
    # Whoever starts a child must also take its exit code, or it stays behind as a zombie that looks alive.
    threading.Thread(target=process.wait, name="reap-child", daemon=True).start()
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin as pipe:  # it died at once; its log has the reason
            pipe.write(json.dumps(given).encode())
    return process


@contextmanager
def variables_set(values: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and put their former values back."""
    former = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def submit_options(options: str) -> dict[str, str]:
    """Return the variable by which Spark's launcher gives Java these options, before those that it has by now."""
    return {_SUBMIT_OPTIONS: f"{options} {os.environ.get(_SUBMIT_OPTIONS, '')}".strip()}

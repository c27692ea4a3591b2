"""Variables of the environment that are set for a while, in which this process starts programs or calls a library.

Starts of a local Spark give Java its options so, and the command line shows Airflow where its connections are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_SUBMIT_OPTIONS = "SPARK_SUBMIT_OPTS"


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

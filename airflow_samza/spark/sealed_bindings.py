"""System bindings on their way to Spark's workers, in a form that Spark may log.

Where the JSON goes into something that may be logged, its secrets are sealed: it holds a key of random bytes, and a
file that goes another way holds the secrets under that key. Neither tells anything without the other. Jobs of stages
and sessions of Spark Connect send them.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from airflow_samza.errors import StageLost
from airflow_samza.launch.bindings import take_root_access
from airflow_samza.launch.drivers.handover import seal, unseal


class _Work(Protocol):
    """A dataclass of work under a root, with bindings."""

    @property
    def root(self) -> str: ...

    @property
    def bindings(self) -> Mapping[str, Any]: ...


Work = TypeVar("Work", bound=_Work)

SEALED = ":sealed"
"""Beside the systems in sealed bindings; no system has a name like this."""


def unsealed(work: Work) -> Work:
    """Return work with the bindings that a worker was given, sealed or not; from here on the worker opens the root."""
    plain = unsealed_bindings(work.bindings)
    take_root_access(work.root, plain)
    if SEALED not in work.bindings:
        return work
    return dataclasses.replace(work, bindings=plain)  # type: ignore[type-var]  # every work is a dataclass


def unsealed_bindings(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the bindings that a worker was given, sealed or not, as JSON."""
    if SEALED not in data:
        return data
    hidden = _secrets(data[SEALED])
    plain = {name: binding for name, binding in data.items() if name != SEALED}
    return {name: {**b, "options": {**b["options"], **hidden.get(name, {})}} for name, b in plain.items()}


def seal_bindings(bindings: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Return bindings as JSON without secrets, and the content of the file that completes them."""
    hidden = {
        name: {key: b["options"][key] for key in b["secret"] if key in b["options"]} for name, b in bindings.items()
    }
    content, key = seal(json.dumps(hidden).encode())
    sealed: dict[str, Any] = {
        name: {**b, "options": {key: value for key, value in b["options"].items() if key not in b["secret"]}}
        for name, b in bindings.items()
    }
    sealed[SEALED] = {"file": f"airflow-samza-{uuid.uuid4().hex}", "key": key.hex()}
    return sealed, content


def _secrets(sealed: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    from pyspark import SparkFiles

    path = Path(SparkFiles.get(sealed["file"]))
    if not path.is_file():
        raise StageLost(
            f"This worker of Spark has no file {path.name}, without which it cannot reach the stage's systems.",
            hint="The session with the Spark Connect server has ended; the stage is tried again.",
            path=str(path),
        )
    secrets: dict[str, dict[str, Any]] = json.loads(unseal(path.read_bytes(), bytes.fromhex(sealed["key"])))
    return secrets

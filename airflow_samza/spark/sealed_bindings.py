"""System bindings on their way to Spark's workers, in a form that Spark may log.

Where the JSON goes into something that may be logged, its secrets are sealed: it holds a pad of random bytes, and a
file that goes another way holds the secrets under that pad. Neither tells anything without the other. Jobs of stages
and sessions of Spark Connect send them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from airflow_samza.errors import StageLost
from airflow_samza.launch.bindings import take_root_access


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
    plain = json.dumps(hidden).encode()
    pad = os.urandom(len(plain))
    sealed: dict[str, Any] = {
        name: {**b, "options": {key: value for key, value in b["options"].items() if key not in b["secret"]}}
        for name, b in bindings.items()
    }
    sealed[SEALED] = {"file": f"airflow-samza-{uuid.uuid4().hex}", "pad": b64encode(pad).decode()}
    return sealed, _masked(plain, pad)


def _secrets(seal: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    from pyspark import SparkFiles

    path = Path(SparkFiles.get(seal["file"]))
    if not path.is_file():
        raise StageLost(
            f"This worker of Spark has no file {path.name}, without which it cannot reach the stage's systems.",
            hint="The session with the Spark Connect server has ended; the stage is tried again.",
            path=str(path),
        )
    secrets: dict[str, dict[str, Any]] = json.loads(_masked(path.read_bytes(), b64decode(seal["pad"])))
    return secrets


def _masked(content: bytes, pad: bytes) -> bytes:
    return bytes(byte ^ cover for byte, cover in zip(content, pad, strict=True))

"""System bindings as JSON, for a pipe between two processes: with their secrets, so never for a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.systems.system import SystemBinding


def bindings_to_json(bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
    """Return the JSON form, secrets included."""
    return {
        name: {"kind": b.kind, "options": dict(b.options), "secret": sorted(b.secret)} for name, b in bindings.items()
    }


def bindings_from_json(data: Mapping[str, Any]) -> dict[str, SystemBinding]:
    """Return the bindings that :func:`bindings_to_json` wrote."""
    return {name: SystemBinding(b["kind"], b["options"], frozenset(b["secret"])) for name, b in data.items()}


def without_secrets(bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
    """Return what may be shown or hashed: kinds, and the options that are no secrets."""
    return {
        name: {
            "kind": b.kind,
            "options": {key: str(value) for key, value in sorted(b.options.items()) if key not in b.secret},
        }
        for name, b in sorted(bindings.items())
    }

"""Settings of a schema registry among the options of a system: those whose names begin with ``schema.registry.``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "schema.registry."

_DEFAULTS = {
    # A registry that is away is reported within seconds; the client itself would wait for an answer for ever.
    "timeout": 10.0,
    "max.retries": 2,
    "retries.wait.ms": 200,
    "retries.max.wait.ms": 2000,
    # Workers live for days, and the latest version of a subject does not stay that.
    "cache.latest.ttl.sec": 60,
}

_NUMBERS = (*_DEFAULTS, "cache.capacity")


def registry_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the registry's client, without the prefix; {} when the options name no registry.

    >>> registry_settings({"bootstrap.servers": "b:9092", "schema.registry.url": "http://r:8081"})["url"]
    'http://r:8081'
    """
    found = {name[len(PREFIX) :]: value for name, value in options.items() if name.startswith(PREFIX)}
    if "url" not in found:
        return {}
    return {**_DEFAULTS, **{n: _typed(n, v) for n, v in found.items()}}


def without_registry(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not of a registry: brokers' clients reject names that they do not know."""
    return {name: value for name, value in options.items() if not name.startswith(PREFIX)}


def _typed(name: str, value: Any) -> Any:
    if name in _NUMBERS and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value  # the client names it
    return value

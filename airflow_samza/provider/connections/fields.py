"""Fields of Airflow connections that are read as JSON."""

from __future__ import annotations

import json
from typing import Any

from airflow_samza.errors import ConfigError


def extra_of(conn_id: str, connection: Any) -> dict[str, Any]:
    """Return a connection's extra fields; ``{}`` when it has none."""
    text = connection.extra
    if not text:
        return {}
    try:
        extra = json.loads(text) if isinstance(text, str) else dict(text)
    except ValueError:
        extra = None
    if not isinstance(extra, dict):
        # Without the value: an extra field may hold a password.
        raise ConfigError(
            f"The extra of the connection {conn_id!r} is not a JSON object.",
            hint="Correct it.",
            key="extra",
            value=conn_id,
        )
    return extra

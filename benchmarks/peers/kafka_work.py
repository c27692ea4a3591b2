"""Parts that the peers of the Kafka benchmark share, by the standard library only."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SLOW_MS = 1000
AVRO_FILE = Path(__file__).parents[1] / "views.avsc"
AVRO: Any = json.loads(AVRO_FILE.read_text())
CLIENT = {"fetch.queue.backoff.ms": "5"}
"""A setting of librdkafka without which a reader that keeps up with the broker waits most of the time."""


def parser_of(format_: str) -> Callable[[bytes], dict[str, Any]]:
    """Return the quickest parser of one message that a user of Python has."""
    if format_ == "json":
        import orjson

        return orjson.loads  # type: ignore[no-any-return]
    import io

    import fastavro

    schema = fastavro.parse_schema(AVRO)
    read = fastavro.schemaless_reader
    return lambda value: read(io.BytesIO(value), schema, None)  # type: ignore[return-value]

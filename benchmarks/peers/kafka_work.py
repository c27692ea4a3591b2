"""Parts that the peers of the Kafka benchmark share, by the standard library only: each has an environment of its own.

A peer reads lines ``FORMAT TOPIC MESSAGES`` from standard input and answers each with a line of JSON: the seconds of
the work, and per page the views of more than a second and their milliseconds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

SLOW_MS = 1000
AVRO_FILE = Path(__file__).parents[1] / "views.avsc"
AVRO: Any = json.loads(AVRO_FILE.read_text())
CLIENT = {"fetch.queue.backoff.ms": "5"}
"""A setting of librdkafka without which a reader that keeps up with the broker waits most of the time."""

Pages = Iterable[tuple[int, int, int]]
"""Page, views and milliseconds."""


def serve(work: Callable[[str, str, int], Callable[[], Pages]]) -> None:
    """Answer the requests; what libraries print goes to standard error.

    ``work`` does what is measured, and returns what looks at its result.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        format_, topic, messages = line.split()
        begin = time.perf_counter()
        look = work(format_, topic, int(messages))
        seconds = time.perf_counter() - begin
        pages = {page: [views, millis] for page, views, millis in look()}
        print(json.dumps({"seconds": seconds, "pages": pages}), file=answers, flush=True)


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

"""Options of the format ``samza``, as a user writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.systems.topic_rejections import FROM_ZERO

EARLIEST, LATEST = "earliest", "latest"
"""Places at which a stream may start, besides offsets."""


def option(options: Mapping[str, str], name: str) -> str | None:
    """Return an option by its name, in whatever case Spark hands it on; None: it is not set."""
    return {key.lower(): value for key, value in dict(options).items()}.get(name.lower())


def flag(options: Mapping[str, str], name: str, default: bool = False) -> bool:
    """Return an option that is true or false."""
    text = option(options, name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise ConfigError(f"The option {name} is {text!r}.", hint="Write true or false.", key=name, value=text)
    return text.lower() == "true"


def count(options: Mapping[str, str], name: str) -> int | None:
    """Return an option that is a whole number above zero; None: it is not set."""
    text = option(options, name)
    if text is None:
        return None
    if not str(text).isdigit() or int(text) == 0:
        raise ConfigError(f"The option {name} is {text!r}.", hint="Give a whole number above 0.", key=name, value=text)
    return int(text)


def named_topic(options: Mapping[str, str]) -> tuple[LogSystem, StreamSpec]:
    """Return the log and the topic that the options name."""
    for name in ("root", "topic"):
        if not option(options, name):
            raise ConfigError(
                f"The format samza needs the option {name!r}.",
                hint="spark.read.format('samza').option('root', …).option('topic', …)",
                key=name,
                value=option(options, name) or "",
            )
    system = LogSystem("samza", SystemBinding("log", {"root": str(option(options, "root"))}))
    return system, StreamSpec(name=str(option(options, "topic")), partitions=count(options, "partitions"))


def offsets(options: Mapping[str, str], name: str, partitions: int, places: str = "") -> dict[int, int]:
    """Return an option that is JSON from partition to offset; empty where it is not set.

    ``places`` are the words that may be written instead, for the hint.
    """
    text = option(options, name)
    if text is None:
        return {}
    try:
        read = {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"The option {name} is {text!r}.",
            hint=f'Write {places}JSON from partition to offset: {{"0": 100, "1": 250}}.',
            key=name,
            value=text,
        ) from error
    for partition in read:
        if not 0 <= partition < partitions:
            raise ConfigError(
                f"The option {name} names partition {partition}, and the topic has {partitions}.",
                hint=FROM_ZERO,
                key=name,
                value=text,
            )
    return read


def range_of(options: Mapping[str, str], ranges: Any) -> list[tuple[int, int]]:
    """Return the offsets that a query over what is there reads of each partition."""
    starts = offsets(options, "startingOffsets", len(ranges))
    ends = offsets(options, "endingOffsets", len(ranges))
    bounded = []
    for partition, (oldest, head) in enumerate(ranges):
        start = min(max(starts.get(partition, oldest), oldest), head)
        bounded.append((start, max(start, min(ends.get(partition, head), head))))
    return bounded

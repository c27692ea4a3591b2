"""Configuration of choosers: priorities, bootstrap streams, batches, the head gate.

Source: message-chooser, "task.chooser.priorities"; rules M1, M3, M4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from airflow_samza.config import Config

BOOTSTRAP_PRIORITY = 2147483647
"""The priority of a bootstrap stream that has none of its own."""

_STREAM_KEY = re.compile(r"streams\.(.+?)\.samza\.")


@dataclass(frozen=True)
class InputChoice:
    """An input's choice settings as the application declares them: priority, and whether it is a bootstrap stream."""

    priority: int | None = None
    bootstrap: bool = False


@dataclass(frozen=True)
class AlsoNamed:
    """Other names of an input in configuration: its id in the application, and another ``system.stream``."""

    stream_id: str
    name: str


@dataclass(frozen=True)
class ChooserSettings:
    """The settings by which inputs (``system.stream``) are chosen.

    ``priorities`` are those that were set; ``batch_size`` None means no batches.

    ``waits_for_all``: every input has to reach its head, not only bootstrap streams. ``factory`` names a chooser of
    one's own.
    """

    priorities: Mapping[str, int] = field(default_factory=dict)
    bootstrap: frozenset[str] = frozenset()
    batch_size: int | None = None
    waits_for_all: bool = False
    factory: str | None = None

    @classmethod
    def of(
        cls,
        config: Config,
        inputs: Iterable[str] | None = None,
        declared: Mapping[str, InputChoice] | None = None,
        also: Mapping[str, AlsoNamed] | None = None,
    ) -> ChooserSettings:
        """Return the settings of inputs: configuration first, then the application's declarations.

        ``inputs`` are those of ``task.inputs`` and ``task.broadcast.inputs`` unless given; ``also`` are their ids and
        other names where the caller knows them, else configuration alone says which ids stand for them.
        """
        names = tuple(_configured_inputs(config) if inputs is None else inputs)
        ids = _ids_of_streams(config)
        priorities: dict[str, int] = {}
        bootstrap: set[str] = set()
        for name in names:
            choice = (declared or {}).get(name, InputChoice())
            default = (also or {}).get(name)
            called = [name] if default is None else list(dict.fromkeys([name, default.name]))
            stream_ids = ids.get(name, []) if default is None else [default.stream_id]
            priority = _configured_priority(config, called, stream_ids)
            if priority is None:
                priority = choice.priority
            if priority is not None:
                priorities[name] = priority
            is_bootstrap = choice.bootstrap
            for key in _stream_keys(called, stream_ids, "bootstrap"):
                if config.text(key) is not None:
                    is_bootstrap = config.boolean(key)
                    break
            if is_bootstrap:
                bootstrap.add(name)
        return cls(
            priorities, frozenset(bootstrap), config.batch_size, config.waits_for_head_of_all, config.chooser_class
        )

    def priority(self, stream: str) -> int:
        """Return the priority in effect; a bootstrap stream without one has the highest, any other stream 0."""
        return self.priorities.get(stream, BOOTSTRAP_PRIORITY if stream in self.bootstrap else 0)

    def waits_for(self, stream: str) -> bool:
        """Return whether a stream has to be read to its head before the gate opens."""
        return self.waits_for_all or stream in self.bootstrap


def _configured_inputs(config: Config) -> Iterator[str]:
    yield from config.listing("task.inputs")
    for entry in config.listing("task.broadcast.inputs"):
        yield entry.rpartition("#")[0] or entry  # kafka.foo#[1-2]: the partitions behind the mark do not matter here


def _ids_of_streams(config: Config) -> dict[str, list[str]]:
    """Return the ids under which streams are configured (``streams.<id>.samza.…``), by ``system.stream``.

    - ``samza.system``: the system in the name ``system.stream`` by which keys of choosers address the input; it moves
    no stream. Default: that of the application
    - ``samza.physical.name``: the name of the stream in its system. Default: the stream's id
    """
    ids: dict[str, list[str]] = {}
    for stream_id in sorted({match[1] for match in map(_STREAM_KEY.match, config) if match is not None}):
        system = config.text(f"streams.{stream_id}.samza.system") or config.text("job.default.system")
        stream = config.text(f"streams.{stream_id}.samza.physical.name", stream_id)
        ids.setdefault(f"{system}.{stream}", []).append(stream_id)
    return ids


def _configured_priority(config: Config, names: Iterable[str], stream_ids: Iterable[str]) -> int | None:
    """Return the priority of an input ``system.stream``: a whole number, the highest is read first.

    It takes precedence over the priorities of ``streams.…`` and ``systems.…``. Default: that of the application
    """
    for name in names:
        priority = config.integer(f"task.chooser.priorities.{name}")
        if priority is not None:
            return priority
    for key in _stream_keys(names, stream_ids, "priority"):
        priority = config.integer(key)
        if priority is not None and priority >= 0:
            return priority
    return None


def _stream_keys(
    names: Iterable[str], stream_ids: Iterable[str], what: Literal["priority", "bootstrap"]
) -> Iterator[str]:
    """Yield the keys that set one thing of an input, the leading one first.

    - ``samza.priority``: the priority of an input: a whole number, the highest is read first; a negative one means
    unset. Default: that of the application
    - ``samza.bootstrap``: true if the input is read to its head before all others. Default: that of the application
    """
    for name in names:
        system, _, stream = name.partition(".")
        yield f"systems.{system}.streams.{stream}.samza.{what}"
    for stream_id in stream_ids:
        yield f"streams.{stream_id}.samza.{what}"

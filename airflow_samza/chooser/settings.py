"""Configuration of choosers: priorities, bootstrap streams, batches, the head gate.

Source: message-chooser, "task.chooser.priorities"; rules M1, M3, M4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from airflow_samza.config import Config

BOOTSTRAP_PRIORITY = 2147483647
"""The priority of a bootstrap stream that has none of its own."""


@dataclass(frozen=True)
class InputChoice:
    """An input beside its name ``system.stream``: its id in the application, and another name in configuration.

    ``priority`` and ``bootstrap`` (whether it is a bootstrap stream) are as the application declares them.
    """

    stream_id: str
    name: str
    priority: int | None = None
    bootstrap: bool = False


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
    def of(cls, config: Config, inputs: Mapping[str, InputChoice]) -> ChooserSettings:
        """Return the settings of inputs by their names: configuration first, then the application's declarations."""
        priorities: dict[str, int] = {}
        bootstrap: set[str] = set()
        for name, choice in inputs.items():
            called = list(dict.fromkeys([name, choice.name]))
            priority = _configured_priority(config, called, choice.stream_id)
            if priority is None:
                priority = choice.priority
            if priority is not None:
                priorities[name] = priority
            is_bootstrap = choice.bootstrap
            for key in _stream_keys(called, choice.stream_id, "bootstrap"):
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


def _configured_priority(config: Config, names: Iterable[str], stream_id: str) -> int | None:
    """Return the priority of an input ``system.stream``: a whole number, the highest is read first.

    It takes precedence over the priorities of ``streams.…`` and ``systems.…``. Default: that of the application
    """
    for name in names:
        priority = config.integer(f"task.chooser.priorities.{name}")
        if priority is not None:
            return priority
    for key in _stream_keys(names, stream_id, "priority"):
        priority = config.integer(key)
        if priority is not None and priority >= 0:
            return priority
    return None


def _stream_keys(names: Iterable[str], stream_id: str, what: Literal["priority", "bootstrap"]) -> Iterator[str]:
    """Yield the keys that set one thing of an input, the leading one first.

    - ``samza.priority``: the priority of an input: a whole number, the highest is read first; a negative one means
    unset. Default: that of the application
    - ``samza.bootstrap``: true if the input is read to its head before all others. Default: that of the application
    """
    for name in names:
        system, _, stream = name.partition(".")
        yield f"systems.{system}.streams.{stream}.samza.{what}"
    yield f"streams.{stream_id}.samza.{what}"

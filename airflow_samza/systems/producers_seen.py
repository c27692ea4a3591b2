"""Producers that have published to a topic: by them publishing is idempotent, and zombies are fenced.

A commit carries producer, generation and epoch; a clear is a new generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.errors import TopicError
from airflow_samza.systems.generations import parse_generation

MOST_RANGES = 64
"""Of published epochs that are remembered apart.

A stage that has news for a stream now and then would leave thousands in a day.
"""


@dataclass
class Standing:
    """The newest generation of one producer, and the epochs of it that are published (ranges, both ends included)."""

    generation: str
    epochs: list[list[int]] = field(default_factory=list)

    def has(self, epoch: int) -> bool:
        """Return whether this epoch is published."""
        return any(first <= epoch <= last for first, last in self.epochs)

    def add(self, epoch: int) -> None:
        """Note an epoch; epochs that follow one another take one range."""
        if self.has(epoch):
            return
        self.epochs.append([epoch, epoch])
        self.epochs.sort()
        joined: list[list[int]] = []
        for first, last in self.epochs:
            if joined and joined[-1][1] + 1 == first:
                joined[-1][1] = last
            else:
                joined.append([first, last])
        if len(joined) > MOST_RANGES:  # epochs come in order: what was left out so long ago had nothing to publish
            joined[:2] = [[joined[0][0], joined[1][1]]]
        self.epochs = joined


TAKE_THE_NEWER = (
    "This attempt was replaced by a newer one (a clear); nothing is lost, take the newer generation's result."
)


class ProducersSeen:
    """The standing of every producer of a topic, brought up to date commit by commit."""

    def __init__(self, standings: Mapping[str, Standing] | None = None) -> None:
        self._standings: dict[str, Standing] = dict(standings or {})

    def copy(self) -> ProducersSeen:
        """Return a copy that can be moved on by itself."""
        return ProducersSeen(
            {
                name: Standing(found.generation, [list(span) for span in found.epochs])
                for name, found in self._standings.items()
            }
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProducersSeen:
        """Return it from what :meth:`to_json` wrote."""
        return cls(
            {
                producer: Standing(generation, [list(span) for span in epochs])
                for producer, (generation, epochs) in data.items()
            }
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, kept in snapshots."""
        return {producer: [standing.generation, standing.epochs] for producer, standing in self._standings.items()}

    def is_published(self, stream: str, producer: str, generation: str, epoch: int) -> bool:
        """Return whether just this was published before; a generation lower than one that was seen is rejected.

        The error's facts name the ``winner``: a stage runner that gets it has been replaced, and adopts what the winner
        wrote.
        """
        standing = self._standings.get(producer)
        if standing is None:
            parse_generation(generation)
            return False
        mine, newest = parse_generation(generation), parse_generation(standing.generation)
        if mine < newest:
            raise TopicError(
                f"Generation {generation} of {producer} may no longer write to {stream!r}: {standing.generation} has "
                "taken over.",
                hint=TAKE_THE_NEWER,
                stream=stream,
                producer=producer,
                generation=generation,
                winner=standing.generation,
            )
        return mine == newest and standing.has(epoch)

    def add(self, producer: str, generation: str, epoch: int) -> None:
        """Note a commit."""
        standing = self._standings.get(producer)
        if standing is None or parse_generation(generation) > parse_generation(standing.generation):
            standing = self._standings[producer] = Standing(generation)
        if standing.generation == generation or parse_generation(standing.generation) == parse_generation(generation):
            standing.add(epoch)

    def generations(self) -> dict[str, str]:
        """Return the newest generation of every producer."""
        return {producer: standing.generation for producer, standing in self._standings.items()}

    def is_superseded(self, producer: str, generation: str) -> bool:
        """Return whether a newer generation of this producer has replaced what this one wrote."""
        standing = self._standings.get(producer)
        return (
            standing is not None
            and standing.generation != generation
            and parse_generation(standing.generation) > parse_generation(generation)
        )

"""Producers that have published to a topic: by them publishing is idempotent, and zombies are fenced.

A commit carries producer, generation and epoch, and the slot that it is of; a clear is a new generation. What a
generation wrote is superseded by a newer one of its producer, and by another run that has taken its slot (rule O1).
Commits of the log and of Kafka's outputs ask it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.errors import TopicError
from airflow_samza.records import from_plain, plain
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import (
    OutputSlot,
    SlotWriter,
    Turn,
    Turns,
    is_of_other_root,
    namesake,
    reject_meeting,
    replaced,
    run_of,
)

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


@dataclass
class ProducersSeen:
    """The standing of every producer of a topic, and the turns at its slots, brought up to date commit by commit.

    Of turns each slot has the newest of each producer. ``_roots`` are the identities of the roots of producers, as far
    as commits have them.
    """

    _standings: dict[str, Standing] = field(default_factory=dict)
    _slots: dict[OutputSlot, dict[str, Turn]] = field(default_factory=dict)
    _roots: dict[str, str] = field(default_factory=dict)
    _turns: Turns[OutputSlot] | None = None

    @property
    def turns(self) -> Turns[OutputSlot]:
        """Whose messages stand."""
        if self._turns is None:
            slots = {slot: tuple(turns.values()) for slot, turns in self._slots.items()}
            standing = [(producer, standing.generation) for producer, standing in self._standings.items()]
            past = [turn.owner for turns in slots.values() for turn in turns]
            self._turns = Turns(frozenset((*standing, *past)), slots)
        return self._turns

    def copy(self) -> ProducersSeen:
        """Return a copy that can be moved on by itself."""
        return ProducersSeen(
            {
                name: Standing(standing.generation, [list(span) for span in standing.epochs])
                for name, standing in self._standings.items()
            },
            {slot: dict(turns) for slot, turns in self._slots.items()},
            dict(self._roots),
            self._turns,
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ProducersSeen:
        """Return it from what :meth:`to_json` wrote, which may lie among other keys."""
        standings = {
            producer: Standing(generation, [list(span) for span in epochs])
            for producer, (generation, epochs) in data["seen"].items()
        }
        slots: dict[OutputSlot, dict[str, Turn]] = {}
        for description, (number, run), turns in data.get("slots", ()):
            slot = from_plain(OutputSlot, description)
            slot.code  # noqa: B018 - its interval is two moments
            slots[slot] = {
                producer: Turn(int(turn), run_of(producer), producer, str(generation))
                for producer, (turn, generation) in dict(turns).items()
            }
            if max(turn.order for turn in slots[slot].values()) != (int(number), str(run)):
                raise ValueError(f"the turn {(number, run)} of a slot is of nobody")
        return cls(standings, slots, {producer: str(root) for producer, root in data.get("roots", {}).items()})

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, kept in snapshots: standings, slots with their turns, and roots, where there are any.

        A slot has its newest turn, and those of producers at it.
        """
        seen = {producer: [standing.generation, standing.epochs] for producer, standing in self._standings.items()}
        slots = [
            [
                plain(slot),
                max(turn.order for turn in turns.values()),
                {turn.producer: [turn.number, turn.generation] for turn in turns.values()},
            ]
            for slot, turns in self._slots.items()
        ]
        return {"seen": seen, **({"slots": slots} if slots else {}), **({"roots": self._roots} if self._roots else {})}

    def reject_namesake(self, stream: str, producer: str, root: str) -> None:
        """Reject a producer if one of its name, under another root than that of this identity, has published."""
        theirs = self._roots.get(producer, "")
        if is_of_other_root(root, theirs):
            raise namesake(
                output=f"the topic {stream}",
                stream=stream,
                producer=producer,
                generation=self._standings[producer].generation,
                root=theirs,
            )

    def is_published(
        self, stream: str, producer: str, generation: str, epoch: int, slot: OutputSlot | None = None
    ) -> bool:
        """Return whether just this was published before; a generation lower than one that was seen is rejected.

        So is one whose slot another run has taken meanwhile. The error's facts name the ``winner``: a stage runner that
        gets it has been replaced, and adopts what the winner wrote.
        """
        standing = self._standings.get(producer)
        mine = parse_generation(generation)
        newest = parse_generation(standing.generation) if standing is not None else mine
        if standing is not None and mine < newest:
            raise TopicError(
                f"Generation {generation} of {producer} may no longer write to {stream!r}: {standing.generation} has "
                "taken over.",
                hint=TAKE_THE_NEWER,
                stream=stream,
                producer=producer,
                generation=generation,
                winner=standing.generation,
            )
        if slot is not None:
            winner = self._at(slot).winner(slot, run_of(producer), producer, generation)
            if winner is not None:
                raise replaced(
                    slot,
                    output=repr(stream),
                    stream=stream,
                    producer=producer,
                    generation=generation,
                    winner=winner.producer,
                )
        return standing is not None and mine == newest and standing.has(epoch)

    def reject_meeting(self, stream: str, producer: str, generation: str, slot: OutputSlot) -> None:
        """Reject the first publication of a generation to a slot that may not be written (:func:`reject_meeting`)."""
        if (producer, generation) not in self._at(slot).slot_of:
            reject_meeting(slot, self.writers(slot), output=repr(stream), stream=stream)

    def _at(self, slot: OutputSlot) -> Turns[OutputSlot]:
        """Return the turns at one slot."""
        turns = self._slots.get(slot, {}).values()
        return Turns([turn.owner for turn in turns], {slot: turns})

    def add(self, producer: str, generation: str, epoch: int, slot: OutputSlot | None = None, root: str = "") -> None:
        """Note a commit."""
        if root:
            self._roots[producer] = root
        standing = self._standings.get(producer)
        if standing is None or parse_generation(generation) > parse_generation(standing.generation):
            standing = self._begin(producer, generation, slot)
        if parse_generation(standing.generation) == parse_generation(generation):
            standing.add(epoch)

    def _begin(self, producer: str, generation: str, slot: OutputSlot | None) -> Standing:
        """Begin a generation; it takes its slot, and replaces what another run has written of that."""
        if slot is not None:
            run = run_of(producer)
            turn = Turn(self._at(slot).next_number(slot, run), run, producer, generation)
            self._slots.setdefault(slot, {})[producer] = turn
        self._standings[producer] = Standing(generation)
        self._turns = None
        return self._standings[producer]

    def generations(self) -> dict[str, str]:
        """Return the newest generation of every producer."""
        return {producer: standing.generation for producer, standing in self._standings.items()}

    def runs_replaced_by(self, run: str) -> frozenset[str]:
        """Return the runs (``<application>/<run>``) that had written slots which a run holds."""
        held = (self._slots[slot] for slot, holder in self.turns.holders.items() if holder.run == run)
        return frozenset(turn.run for turns in held for turn in turns.values()) - {run}

    def writers(self, slot: OutputSlot) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what stands."""
        return [
            SlotWriter(written, turn.producer, turn.generation)
            for written, turn in self.turns.standing()
            if slot.code.meets(written.code)
        ]

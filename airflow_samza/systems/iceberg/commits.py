"""Records of the commits to a table, kept as its properties, so that each is atomic with the snapshot that it is of.

Property ``samza.slot.<digest>`` has what runs have committed of one slot (rule O1), ``samza.producer.<digest>`` what a
producer has committed as no slot. They outlive expired snapshots. What was replaced stays on record: so a run that
goes on afterwards notices that it was.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.records import plain
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.iceberg.output_options import PRODUCER_RECORD, RECORDS, SLOT_RECORD
from airflow_samza.systems.output_slots import Order, OutputSlot, SlotCode, SlotWriter, Turn, digest, run_of
from airflow_samza.typed_values import converted


@dataclass(frozen=True)
class Committed:
    """Commits of one generation of a producer's output to a table, up to ``epoch``.

    ``turn`` orders the runs of a slot. ``files`` are the live data files that its commits have added, whose names begin
    with one of ``prefixes``: 0 when another commit has replaced them. ``snapshot`` is that of its last commit.
    """

    producer: str
    stream: str
    generation: str
    turn: int
    epoch: int
    prefixes: tuple[str, ...] = ()
    files: int = 0
    rows: int = 0
    snapshot: str = ""

    @property
    def owner(self) -> tuple[str, str]:
        """The producer's output, as a digest, and the generation."""
        return output_digest(self.producer, self.stream), self.generation

    def as_turn(self) -> Turn:
        """Return the commits as a turn at their slot."""
        return Turn(self.turn, run_digest(self.producer), *self.owner)


def output_digest(producer: str, stream: str) -> str:
    """Return 12 hex digits for a producer's output to a stream: two outputs of one stage may go to one table."""
    return hashlib.sha256(f"{producer}\0{stream}".encode()).hexdigest()[:12]


def run_digest(producer: str) -> str:
    """Return the digest of a producer's run."""
    return digest(run_of(producer))


@dataclass(frozen=True)
class Slot:
    """Commits of one slot, by property ``key``. ``slot`` is None where they are of none."""

    key: str
    slot: OutputSlot | None
    commits: tuple[Committed, ...] = ()

    @property
    def code(self) -> SlotCode | None:
        """The slot in short."""
        return self.slot.code if self.slot is not None else None

    def encoded(self) -> str:
        """Return the property's value."""
        facts: dict[str, Any] = {} if self.slot is None else {"slot": plain(self.slot)}
        facts["commits"] = [plain(one) for one in self.commits]
        return json.dumps(facts, separators=(",", ":"))

    def with_commit(self, committed: Committed) -> Slot:
        """Return the record with another state of a generation's commits."""
        others = tuple(one for one in self.commits if one.owner != committed.owner)
        return dataclasses.replace(self, commits=(*others, committed))


def slot_key(slot: OutputSlot | None, producer: str, stream: str) -> str:
    """Return the property in which the commits of a producer to a slot are recorded."""
    if slot is None:
        return f"{PRODUCER_RECORD}{output_digest(producer, stream)}"
    return f"{SLOT_RECORD}{digest(json.dumps(slot.code))}"


@dataclass(frozen=True)
class TableView:
    """All commits to a table that are on record."""

    slots: Mapping[str, Slot]

    @classmethod
    def of(cls, table: str, properties: Mapping[str, str]) -> TableView:
        """Return what a table's properties say; a damaged one is a ``TopicError``."""
        slots = {}
        for key, value in properties.items():
            if key.startswith(RECORDS):
                try:
                    slots[key] = _decoded(key, value)
                except (ValueError, TypeError, KeyError, RecursionError, SamzaError) as error:
                    reason = error.sentence.rstrip(".") if isinstance(error, SamzaError) else error
                    raise TopicError(
                        f"The property {key} of the table {table} is damaged: {reason}.",
                        hint="Restore it from an older version of the table's metadata; without it nobody knows what "
                        "runs have committed.",
                        table=table,
                        key=key,
                    ) from error
        return cls(slots)

    @cached_property
    def _newest(self) -> dict[str, tuple[int, ...]]:
        newest: dict[str, tuple[int, ...]] = {}
        for _, committed in self.commits():
            output, generation = committed.owner
            newest[output] = max(newest.get(output, ()), parse_generation(generation))
        return newest

    @cached_property
    def holders(self) -> dict[str, Order]:
        """The newest turn at each slot, by property."""
        return {
            key: max(one.as_turn().order for one in slot.commits)
            for key, slot in self.slots.items()
            if slot.slot is not None and slot.commits
        }

    def commits(self) -> Iterator[tuple[Slot, Committed]]:
        """Yield all commits with their slots."""
        return ((slot, committed) for slot in self.slots.values() for committed in slot.commits)

    def newest(self, producer: str, stream: str) -> tuple[int, ...] | None:
        """Return the newest generation that a producer has committed."""
        return self._newest.get(output_digest(producer, stream))

    def stands(self, slot: Slot, committed: Committed) -> bool:
        """Return whether readers see what a generation has committed."""
        output, generation = committed.owner
        if parse_generation(generation) != self._newest[output]:
            return False
        holder = self.holders.get(slot.key)
        return holder is None or committed.as_turn().order == holder

    def writers(self, code: SlotCode) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what stands."""
        return [
            SlotWriter(slot.slot, committed.producer, committed.generation)
            for slot, committed in self.commits()
            if slot.slot is not None and code.meets(slot.slot.code) and self.stands(slot, committed)
        ]

    def outside(self) -> frozenset[str]:
        """Return the producers whose rows readers see, and who wrote them as no slot."""
        return frozenset(
            committed.producer
            for slot, committed in self.commits()
            if slot.slot is None and self.stands(slot, committed)
        )

    def successor(self, producer: str, stream: str) -> str | None:
        """Return the producer that has replaced the newest turn of another; None: it stands, or has none."""
        output = output_digest(producer, stream)
        mine = [(slot, one) for slot, one in self.commits() if slot.slot is not None and one.owner[0] == output]
        if not mine:
            return None
        slot, newest = max(mine, key=lambda pair: pair[1].as_turn().order)
        holder = self.holders[slot.key]
        if newest.as_turn().order >= holder:
            return None
        return next(one.producer for one in slot.commits if one.as_turn().order == holder)


def _decoded(key: str, value: str) -> Slot:
    facts = json.loads(value)
    slot = converted(facts["slot"], OutputSlot) if "slot" in facts else None
    commits = tuple(converted(one, Committed) for one in facts["commits"])
    for one in commits:
        parse_generation(one.generation)
    return Slot(key, slot, commits)

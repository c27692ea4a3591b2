"""Records of the commits to a table, kept as its properties, so that each is atomic with the snapshot that it is of.

Property ``samza.slot.<digest>`` has what runs have committed of one slot (rule O1), ``samza.producer.<digest>`` what a
producer has committed as no slot. They outlive expired snapshots. What was replaced stays on record: so a run that goes
on afterwards notices that it was. Where records are many, the oldest are folded into one property. Publishers and
branches of both lake formats write them, and ask them who may not commit any more.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, cast

from airflow_samza.errors import SamzaError, TopicError
from airflow_samza.records import plain
from airflow_samza.systems.capabilities import OutputCommit
from airflow_samza.systems.generations import parse_generation
from airflow_samza.systems.output_slots import (
    OutputSlot,
    Owner,
    SlotCode,
    SlotWriter,
    Turn,
    Turns,
    digest,
    is_of_other_root,
    namesake,
    outdated,
    replaced,
    run_of,
)
from airflow_samza.systems.tables.folded_records import BLOCK, FOLDED, FoldedRecords, Heading
from airflow_samza.typed_values import converted

RECORDS = SLOT_RECORD, PRODUCER_RECORD = "samza.slot.", "samza.producer."
"""Beginnings of the names under which a table has the records of commits to it."""

TOLD, UNTOLD = 50, "*"
"""Partitions that the record of a generation names at most, and what it has instead of more."""

OPEN_RECORDS = 100
"""Records that a table has as properties of their own; with more the oldest are folded."""


REPLACED = -1
"""Number of rows on record of commits that had none and were replaced: no file of theirs that is gone tells it."""


@dataclass(frozen=True)
class Committed:
    """Commits of one generation of a producer's output to a table, up to ``epoch``.

    ``turn`` orders the runs of a slot. ``files`` are the live data files that its commits have added, whose names begin
    with one of ``prefixes``: 0 when another commit has replaced them; ``rows`` stay on record. ``snapshot`` is that of
    its last commit, ``root`` the identity of the run's root ("": of a former version, which did not note it).
    ``partitions`` are names of those that it has written, where it has replaced partitions.
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
    root: str = ""
    partitions: tuple[str, ...] = ()

    @property
    def owner(self) -> tuple[str, str]:
        """The producer's output, as a digest, and the generation."""
        return output_digest(self.producer, self.stream), self.generation

    @property
    def is_replaced(self) -> bool:
        """Another commit has replaced all that these have added."""
        return not self.files and bool(self.rows)

    def as_turn(self) -> Turn:
        """Return the commits as a turn at their slot."""
        return Turn(self.turn, run_digest(self.producer), *self.owner)


def partition_name(partitioning: int, partition: Hashable) -> str:
    """Return a name for a partition by one of the partitionings of its table, of equal length whatever its values."""
    return f"{partitioning}:{digest(repr(partition))}"


def comparable(value: Any) -> Hashable:
    """Return a value of a partition so that equal ones are equal, and print alike.

    >>> comparable(float("nan")), comparable(Decimal("1.50")) == comparable(Decimal("1.5")), comparable(-0.0)
    ('NaN', True, 0.0)
    """
    if isinstance(value, Decimal):
        return value.as_integer_ratio()
    if isinstance(value, float):
        return value + 0.0 if value == value else "NaN"  # no NaN equals another
    return cast(Hashable, value)


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

    def encoded(self) -> str:
        """Return the property's value."""
        facts: dict[str, Any] = {} if self.slot is None else {"slot": plain(self.slot)}
        facts["commits"] = [plain(one) for one in self.commits]
        return json.dumps(facts, separators=(",", ":"))

    @property
    def heading(self) -> Heading:
        """Facts by which the record is found when it is folded."""
        return heading(self.slot, *{one.owner[0] for one in self.commits})

    def with_commit(self, committed: Committed) -> Slot:
        """Return the record with another state of a generation's commits."""
        others = tuple(one for one in self.commits if one.owner != committed.owner)
        return dataclasses.replace(self, commits=(*others, committed))


def heading(slot: OutputSlot | None, *outputs: str) -> Heading:
    """Return the facts by which a folded record is found: its slot, and the outputs of producers."""
    code = None if slot is None else slot.code
    if code is None or code.interval is not None:
        return Heading(None if code is None else code.interval, outputs)
    return Heading(None, (*outputs, f"key {code.key}"))


def slot_key(slot: OutputSlot | None, producer: str, stream: str) -> str:
    """Return the property in which the commits of a producer to a slot are recorded."""
    if slot is None:
        return f"{PRODUCER_RECORD}{output_digest(producer, stream)}"
    return f"{SLOT_RECORD}{digest(json.dumps(slot.code))}"


@dataclass(frozen=True)
class TableView:
    """Commits to a table that are on record: all, or those that concern a publisher.

    ``places`` are the blocks of those that are folded.
    """

    slots: Mapping[str, Slot]
    folded: FoldedRecords = field(default_factory=FoldedRecords)
    places: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, table: str, properties: Mapping[str, str], sought: Heading | None = None) -> TableView:
        """Return what a table's properties say, of folded records those sought; a damaged one is a ``TopicError``."""
        slots: dict[str, Slot] = {}
        places: dict[str, int] = {}
        folded = FoldedRecords()
        if FOLDED in properties:
            with damages(table, FOLDED):
                folded = FoldedRecords.parse(properties[FOLDED])
                meeting = list[str]()
                for number, text in folded.opened(sought):
                    slot = _decoded(text)
                    slots[slot.key], places[slot.key] = slot, number
                    if sought is not None and slot.heading.meets(sought):
                        meeting += slot.heading.texts
                for number, text in folded.opened(Heading(None, tuple(meeting))) if meeting else ():
                    slot = _decoded(text)  # another slot for which a producer has replaced what it wrote for this one
                    slots[slot.key], places[slot.key] = slot, number
        for key, value in properties.items():
            if key.startswith(RECORDS):
                with damages(table, key):
                    slots[key] = dataclasses.replace(_decoded(value), key=key)
        return cls(slots, folded, places)

    def changes(
        self, changed: Mapping[str, Slot], properties: Mapping[str, str], age: Callable[[Slot], int]
    ) -> tuple[dict[str, str], list[str]]:
        """Return the properties to set where records have changed, and those to remove, since they are folded now.

        ``age`` orders records, the oldest first.
        """
        values = {key: slot.encoded() for key, slot in changed.items()}
        opened = [key for key in properties if key.startswith(RECORDS) and key not in changed]
        old = sorted(opened, key=lambda key: age(self.slots[key]))
        old = old[: len(old) - OPEN_RECORDS + BLOCK] if len(opened) + len(changed) > OPEN_RECORDS else []
        touched = {self.places[key] for key in changed if key in self.places}
        instead = {
            number: [(slot.heading, text) for slot, text in self._folded(number) if slot.key not in changed]
            for number in touched
        }
        folding = [(self.slots[key].heading, self.slots[key].encoded()) for key in old]
        if folding or touched:
            values[FOLDED] = self.folded.with_blocks(folding, instead).text
        return values, old

    def _folded(self, number: int) -> Iterator[tuple[Slot, str]]:
        """Yield the records of a block, read and as they lie there."""
        return ((_decoded(text), text) for text in self.folded.blocks[number].records)

    @cached_property
    def owners(self) -> Turns[str]:
        """Whose rows stand; producers by their digests, slots by their properties."""
        slots = {
            key: [one.as_turn() for one in slot.commits] for key, slot in self.slots.items() if slot.slot is not None
        }
        return Turns(frozenset(self.by_owner), slots)

    @cached_property
    def by_owner(self) -> dict[Owner, Committed]:
        """The commits of each producer's generation."""
        return {committed.owner: committed for _, committed in self.commits()}

    def commits(self) -> Iterator[tuple[Slot, Committed]]:
        """Yield all commits with their slots."""
        return ((slot, committed) for slot in self.slots.values() for committed in slot.commits)

    def published(self, committed: Collection[OutputCommit], age: Callable[[str], int]) -> str | None:
        """Return the version with the last of what was committed to a branch; None: the table does not have all of it.

        ``age`` orders versions.
        """
        found = [self.by_owner.get((output_digest(one.producer, one.stream), one.generation)) for one in committed]
        versions = [one.snapshot for one in found if one is not None]
        return None if len(versions) < len(found) else max(versions, key=age, default=None)

    def writers(self, code: SlotCode) -> list[SlotWriter]:
        """Return who has written the slots that meet one, of what stands."""
        return [
            SlotWriter(slot.slot, committed.producer, committed.generation)
            for slot, committed in self.commits()
            if slot.slot is not None and code.meets(slot.slot.code) and self.owners.stands(*committed.owner)
        ]

    def outside(self) -> frozenset[str]:
        """Return the producers whose rows readers see, and who wrote them as no slot."""
        outside = self.owners.outside()
        return frozenset(committed.producer for committed in self.by_owner.values() if committed.owner[0] in outside)

    def successor(self, producer: str, stream: str) -> str | None:
        """Return the producer that has replaced the newest turn of another; None: it stands, or has none."""
        successor = self.owners.successor(output_digest(producer, stream))
        return None if successor is None else self.by_owner[successor[1].owner].producer

    def reject_namesake(self, mine: Committed, table: str, prefixes: Collection[str] | None = None) -> None:
        """Reject a run of which the table has what one of the same name has committed, under another root.

        A former version has noted no root, which the names of files of a generation depend on: those of ``mine`` begin
        with ``prefixes``, where its files are known.
        """
        for _, one in self.commits():
            unnoted = not (mine.root and one.root) and one.owner == mine.owner and one.prefixes
            is_unlike = unnoted and prefixes is not None and not set(prefixes) <= set(one.prefixes)
            if one.owner[0] == mine.owner[0] and (is_of_other_root(mine.root, one.root) or is_unlike):
                raise namesake(
                    output=f"the table {table}",
                    stream=mine.stream,
                    producer=one.producer,
                    generation=one.generation,
                    root=one.root,
                    table=table,
                )

    def reject_late(self, mine: Committed, slot: OutputSlot | None, table: str) -> None:
        """Reject a generation that a higher one, or another run of its slot, has replaced."""
        newest = self.owners.newest.get(mine.owner[0])
        if newest is not None and newest > parse_generation(mine.generation):
            raise outdated(
                output=f"the table {table}",
                stream=mine.stream,
                producer=mine.producer,
                generation=mine.generation,
                newest=".".join(map(str, newest)),
                table=table,
            )
        if slot is None:
            return
        key = slot_key(slot, mine.producer, mine.stream)
        winner = self.owners.winner(key, run_digest(mine.producer), *mine.owner)
        if winner is not None:
            raise replaced(
                slot,
                output=f"the table {table}",
                stream=mine.stream,
                producer=mine.producer,
                generation=mine.generation,
                winner=self.by_owner[winner.owner].producer,
            )


def dropped(table: str, branch: str, stream: str) -> TopicError:
    """Return the error of a branch that lacks what its run has committed."""
    return TopicError(
        f"The branch {branch!r} of the table {table} was dropped after the output {stream!r} was committed to "
        "it: what would be published is not all of it.",
        hint="Clear the stage that writes it: it then begins the branch anew.",
        table=table,
        stream=stream,
        branch=branch,
    )


@contextmanager
def damages(table: str, key: str) -> Iterator[None]:
    """Turn what is wrong with a property that has records of commits into an error that names it."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, SamzaError) as error:
        reason = error.sentence.rstrip(".") if isinstance(error, SamzaError) else error
        raise TopicError(
            f"The property {key} of the table {table} is damaged: {reason}.",
            hint="Restore it from an older version of the table's metadata; without it nobody knows what "
            "runs have committed.",
            table=table,
            key=key,
        ) from error


def _decoded(value: str) -> Slot:
    facts = json.loads(value)
    slot = converted(facts["slot"], OutputSlot) if "slot" in facts else None
    commits = tuple(converted(one, Committed) for one in facts["commits"])
    for one in commits:
        parse_generation(one.generation)
    return Slot(slot_key(slot, commits[0].producer, commits[0].stream), slot, commits)

"""Slots of outputs: what a run writes to one place, a folder or a topic, and whose rows stand there (rule O1).

Whoever publishes, a run of the same application for the same slot replaces what an earlier one wrote. The order of
runs is that in which they began to publish: a *turn* of a run at a slot has a number, and the newest that has published
holds the slot. The log, files and tables make one value of the turns that they have on record, each in its own way
(decision 103). The plan step and checks ask who holds a slot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Generic, NamedTuple, TypeVar

from airflow_samza.application.rejections import unknown_mode
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.grouping import grouped
from airflow_samza.systems.generations import newest_generations, parse_generation

MODE, REPLACE, APPEND, UPSERT = "mode", "replace", "append", "upsert"
"""The option of an output, and its values: whether a run replaces what an earlier one has written of its slot, adds to
it, or replaces rows of the same key, whoever has written them."""

BESIDE = 'declare mode="append" on the output: then its rows stand beside what is there, and replace nothing'
"""The way out for whoever wants the rows of several runs in one place."""


Order = tuple[int, str]
"""The order of a turn: its number, and where two runs began at the same instant, the run."""

Owner = tuple[str, str]
"""A producer, as a place names it, and its generation."""


def appends(options: Collection[tuple[str, str]]) -> bool:
    """Return whether an output adds to what is there, by its options: rows, or changes of rows."""
    return any(option in options for option in ((MODE, APPEND), (MODE, UPSERT)))


def check_mode(stream: str, options: Iterable[tuple[str, str]]) -> None:
    """Reject a mode of an output that is none."""
    mode = dict(options).get(MODE, REPLACE)
    if mode == UPSERT:
        raise ConfigError(
            f'The output {stream!r} has mode="{UPSERT}", and its system keeps no rows that could be replaced by key.',
            hint="Write to a table of a system of kind iceberg or delta; or leave mode= out, to keep the changes.",
            key=MODE,
            value=mode,
            stream=stream,
        )
    if mode not in (REPLACE, APPEND):
        raise unknown_mode(f"The output {stream!r}", mode, (REPLACE, APPEND), stream=stream)


class SlotCode(NamedTuple):
    """Slot in short: digests of its application, partition key and configuration, and its interval (UTC, µs)."""

    application: str
    interval: tuple[int, int] | None
    key: str
    config: str

    def is_of_others(self, other: SlotCode) -> bool:
        """Return whether the other slot is what another application writes of the same data."""
        return other.application != self.application and other[1:3] == self[1:3]

    def overlaps(self, other: SlotCode) -> bool:
        """Return whether the same application would write a part of the other slot's data, and not just that.

        An interval of no length is of no time, and overlaps none.
        """
        if self[0:1] + self[2:] != other[0:1] + other[2:] or self.interval is None or other.interval is None:
            return False
        (begin, end), (first, last) = self.interval, other.interval
        return self.interval != other.interval and max(begin, first) < min(end, last)

    def meets(self, other: SlotCode) -> bool:
        """Return whether a plan has something to say on the other slot."""
        return other[:3] == self[:3] or self.is_of_others(other) or self.overlaps(other)


@dataclass(frozen=True)
class OutputSlot:
    """Slot: what a run of an application writes to a place for its data interval (ISO texts, UTC) and partition key.

    ``config`` is a digest of the configuration of the application's own that the run was given, "" for none: with
    another configuration it writes another slot.
    """

    application: str
    app_id: str
    interval: tuple[str, str] | None = None
    partition_key: str | None = None
    config: str = ""

    @cached_property
    def code(self) -> SlotCode:
        """The slot in short; a ValueError or TypeError where the interval is none."""
        bounds = None if self.interval is None else (_micros(self.interval[0]), _micros(self.interval[1]))
        key = "" if self.partition_key is None else digest(self.partition_key)
        return SlotCode(digest(self.application, self.app_id), bounds, key, self.config)

    @property
    def text(self) -> str:
        """The data that it is of, as a part of a sentence."""
        named = [] if self.interval is None else [f"the data interval [{self.interval[0]}, {self.interval[1]})"]
        named += [] if self.partition_key is None else [f"the partition key {self.partition_key!r}"]
        return " and ".join(named)

    @property
    def writer(self) -> str:
        """The application, as a part of a sentence."""
        return f"{self.application!r}" + (f" (app_id {self.app_id!r})" if self.app_id != "1" else "")


@dataclass(frozen=True)
class SlotWriter:
    """Writer of a slot that stands: a run's stage, as ``<application>/<run>/<stage>``, in a generation.

    ``root`` is the identity of the run's root ("": of a former version, which did not note it).
    """

    slot: OutputSlot
    producer: str
    generation: str
    root: str = ""

    @property
    def run_id(self) -> str:
        """The run, as names hold it."""
        return run_id_of(self.producer)


class Turn(NamedTuple):
    """Turn of a run at a slot: its stage ``producer`` began to publish ``generation`` there."""

    number: int
    run: str
    producer: str
    generation: str

    @property
    def order(self) -> Order:
        """The place of the turn among the others at its slot."""
        return self.number, self.run

    @property
    def owner(self) -> Owner:
        """The producer and its generation."""
        return self.producer, self.generation


Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Turns(Generic[Key]):
    """Everybody who has ``published`` to a place, and the turns at each of its slots, also of who has not yet."""

    published: Collection[Owner] = ()
    of_slots: Mapping[Key, Collection[Turn]] = field(default_factory=dict)

    @cached_property
    def newest(self) -> dict[str, tuple[int, ...]]:
        """The newest generation that each producer has published."""
        return newest_generations(self.published)

    @cached_property
    def holders(self) -> dict[Key, Turn]:
        """The newest turn of those at each slot that have published."""
        published = grouped(place for owner, place in self.slot_of.items() if owner in self.published)
        return {slot: max(turns, key=lambda turn: turn.order) for slot, turns in published.items()}

    @cached_property
    def slot_of(self) -> dict[Owner, tuple[Key, Turn]]:
        """The slot of each producer's generation that has one, and its turn there."""
        return {turn.owner: (slot, turn) for slot, turns in self.of_slots.items() for turn in turns}

    def next_number(self, slot: Key, run: str) -> int:
        """Return the number of the turn with which a run's stage begins to publish.

        That of its run, as long as nobody else has published since, else the next.
        """
        turns, holder = self.of_slots.get(slot, ()), self.holders.get(slot)
        own = [turn.number for turn in turns if turn.run == run and (holder is None or turn.order >= holder.order)]
        return max(own) if own else 1 + max([turn.number for turn in turns], default=0)

    def winner(self, slot: Key, run: str, producer: str, generation: str) -> Turn | None:
        """Return the turn of another run that has replaced what a stage wrote, in this generation or a later one.

        Or what the other stages of its run wrote by the same plan. Such a generation publishes no more: what it would
        add is a part of what was replaced. None: nobody has.
        """
        holder, mine = self.holders.get(slot), parse_generation(generation)
        if holder is None:
            return None
        is_replaced = any(
            turn.order < holder.order
            and parse_generation(turn.generation) >= (mine if turn.producer == producer else mine[:1])
            for place, turn in self.slot_of.values()
            if place == slot and turn.run == run
        )
        return holder if is_replaced else None

    def is_superseded(self, producer: str, generation: str) -> bool:
        """Return whether a newer generation of this producer, or another run, has replaced what this one wrote."""
        newest, mine = self.newest.get(producer, ()), parse_generation(generation)
        if newest != mine or (producer, generation) not in self.slot_of:
            return newest > mine
        slot, turn = self.slot_of[producer, generation]
        return turn.order < self.holders[slot].order

    def stands(self, producer: str, generation: str) -> bool:
        """Return whether readers see what a producer's generation has published."""
        return (producer, generation) in self.published and not self.is_superseded(producer, generation)

    def standing(self) -> Iterator[tuple[Key, Turn]]:
        """Yield the turns whose rows readers see, with their slots."""
        return ((slot, turn) for slot, turn in self.slot_of.values() if self.stands(*turn.owner))

    def outside(self) -> frozenset[str]:
        """Return the producers whose rows readers see, and who wrote them as no slot."""
        return frozenset(owner[0] for owner in self.published if owner not in self.slot_of and self.stands(*owner))

    def successor(self, producer: str) -> tuple[Key, Turn] | None:
        """Return the turn that has replaced the newest one of a producer; None: it stands, or has none."""
        newest = self.newest.get(producer, ())
        turns = [(slot, turn) for slot, turn in self.slot_of.values() if turn.producer == producer]
        own = [(slot, turn) for slot, turn in turns if parse_generation(turn.generation) >= newest]
        if not own:
            return None
        slot, last = max(own, key=lambda one: one[1].order)
        holder = self.holders.get(slot)
        return (slot, holder) if holder is not None and last.order < holder.order else None


def reject_meeting(slot: OutputSlot, written: Iterable[SlotWriter], *, output: str, stream: str) -> None:
    """Reject a slot of which another application has written the data, or of which this one has written a part.

    ``written`` are those that stand at the output.
    """
    mine = slot.code
    for writer in written:
        other = writer.slot.code
        facts = {"stream": stream, "run": writer.run_id, "application": writer.slot.application}
        if mine.is_of_others(other):
            raise TopicError(
                f"The output {output} of stream {stream!r} holds what the run {writer.run_id!r} of the application "
                f"{writer.slot.writer} wrote for {slot.text}, and {slot.writer} may not replace it.",
                hint=f"Give each application a place of its own, by another path= or id of the output; or {BESIDE}.",
                **facts,
            )
        if mine.overlaps(other):
            raise TopicError(
                f"The output {output} of stream {stream!r} holds what the run {writer.run_id!r} wrote for "
                f"{writer.slot.text}, which overlaps {slot.text}: rows would lie there twice.",
                hint="Run that interval again, which replaces it; or give intervals of another length a place of "
                f'their own, such as path="…/{{ds}}"; or {BESIDE}.',
                **facts,
            )


def replaced(slot: OutputSlot, *, output: str, stream: str, producer: str, generation: str, winner: str) -> TopicError:
    """Return the error of a generation whose run was replaced; ``winner`` is the producer that stands."""
    return TopicError(
        f"The run {run_id_of(producer)!r} may not publish to {output} of stream {stream!r} any more: the run "
        f"{run_id_of(winner)!r} has replaced what it wrote for {slot.text}.",
        hint=f"Nothing is lost: what {run_id_of(winner)!r} wrote stands. To replace that in turn, clear this stage; "
        "if several stages of the run write this output, clear its plan task with downstream (on the command line: "
        "--again).",
        stream=stream,
        producer=producer,
        generation=generation,
        winner=winner,
    )


def outdated(*, output: str, stream: str, producer: str, generation: str, newest: str, **facts: object) -> TopicError:
    """Return the error of a generation after which a higher one, ``newest``, of the same producer has published."""
    return TopicError(
        f"Generation {generation} of {producer} cannot publish to {output} of stream {stream!r}: generation {newest} "
        "of it has published already.",
        hint="The stage was cleared meanwhile; its newer attempt is the one that counts.",
        stream=stream,
        generation=generation,
        newest=newest,
        **facts,
    )


def is_of_other_root(mine: str, theirs: str) -> bool:
    """Return whether roots differ, by their identities; "" is that of a former version, which counts as any."""
    return bool(mine and theirs) and mine != theirs


def namesake(
    *, output: str, stream: str, producer: str, generation: str | None, root: str = "", **facts: object
) -> TopicError:
    """Return the error of a run beside whose output there is that of another one of its name, under another root.

    ``root`` is the identity of that one, where it is known, ``generation`` what the other run has committed; None: it
    is about to commit.
    """
    work = f"{producer} is committing" if generation is None else f"generation {generation} of {producer} has committed"
    return TopicError(
        f"The output {stream!r} may not be published to {output}: that has what {work}, and that is another run of "
        f"this name, under another root{f', whose identity is {root!r}' if root else ''}.",
        hint="Give the run another run_id, or each environment an output of its own. If this root stands for the other "
        "one, copy the file identity.json of that root to this one before runs are planned.",
        stream=stream,
        producer=producer,
        generation=generation,
        root=root,
        **facts,
    )


def run_of(producer: str) -> str:
    """Return the run of a producer: ``<application>/<run>`` of ``<application>/<run>/<stage>``."""
    return producer.rpartition("/")[0]


def run_id_of(producer: str) -> str:
    """Return the id of a producer's run, as names hold it; the whole of one that is no stage's."""
    return run_of(producer).rpartition("/")[2] or producer


def digest(*parts: str) -> str:
    """Return 12 hex digits for texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _micros(moment: str) -> int:
    return (datetime.fromisoformat(moment) - _EPOCH) // timedelta(microseconds=1)

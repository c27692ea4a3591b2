"""Choosing among consecutive messages of partitions, whole or one by one (decision 22).

The run loop of a task reads its partitions by it.
Source: rules M6, M7.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, cast

from airflow_samza.chooser.message_chooser import (
    E,
    MessageChooser,
    OrderedChooser,
    Partition,
    restore_chooser,
    snapshot_of,
)
from airflow_samza.config import CHOOSER_CLASS
from airflow_samza.errors import ConfigError, StageError

if TYPE_CHECKING:
    from airflow_samza.schema import Schema


@dataclass(slots=True, eq=False)
class Piece(Generic[E]):
    """Part of an envelope, without a copy: ``messages`` of ``run`` from ``first`` on."""

    run: E
    first: int
    messages: int

    @property
    def ssp(self) -> Partition:
        """The partition of all its messages."""
        return self.run.ssp

    @property
    def offset(self) -> Any:
        """The offset of the first message."""
        return self.run.offset + self.first if self.first else self.run.offset

    @property
    def message(self) -> Any:
        """The first message, made on request."""
        return cast("Any", self.run).message_at(self.first)

    @property
    def schema(self) -> Schema | None:
        """The columns of the messages."""
        return cast("Any", self.run).schema  # type: ignore[no-any-return]  # only who reads messages needs it

    def slice(self, first: int, count: int) -> Piece[E]:
        """Return ``count`` messages of it, from message ``first`` on."""
        return Piece(self.run, self.first + first, count)

    def as_envelope(self) -> E:
        """Return the messages of this part as an envelope."""
        whole = not self.first and self.messages == self.run.messages
        return self.run if whole else self.run.slice(self.first, self.messages)


class RunChooser(Generic[E]):
    """Chooser of envelopes by way of a chooser of their parts.

    ``grain`` is how many messages it gets to see at a time: with 1 the order is exactly that of single messages, with
    None whole runs are taken. What it would choose in a row of one run comes as one slice, if it can tell what is next
    (:class:`OrderedChooser`); never more than it would have chosen had nothing new come. Until :meth:`holds` says no, a
    partition is outstanding and gets no further run.

    A snapshot holds the order in which partitions wait, so that the chooser of the next epoch can be given theirs in
    that order (:meth:`order`), and what the chooser itself keeps.
    """

    def __init__(self, chooser: MessageChooser[Piece[E]], grain: int | None = 1) -> None:
        self._chooser = chooser
        self._ordered = chooser if isinstance(chooser, OrderedChooser) else None
        self._grain = grain
        self._held: dict[Partition, None] = {}  # in the order in which what waits of them came
        self._read_up: dict[Partition, None] = {}  # in the order in which their last message was chosen
        self._order: list[str] = []

    def start(self) -> None:
        """Start the choosers behind this one."""
        self._chooser.start()

    def stop(self) -> None:
        """Stop the choosers behind this one."""
        self._chooser.stop()

    def register(self, ssp: Partition, offset: Any) -> None:
        """Register a partition that will be read from ``offset`` on."""
        self._chooser.register(ssp, offset)

    def snapshot(self) -> dict[str, Any]:
        """Return the state for the next epoch's chooser, as JSON.

        The partitions in the order in which they wait, then those that were read up.
        """
        state = {"order": [str(ssp) for ssp in (*self._held, *self._read_up)], "chooser": snapshot_of(self._chooser)}
        try:
            return json.loads(json.dumps(state, allow_nan=False))  # type: ignore[no-any-return]  # json gives Any
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"What snapshot() of the chooser gives is no JSON value: {error}.",
                hint="Make it of dicts with texts as keys, lists, texts, numbers, True, False and None.",
                key=CHOOSER_CLASS,
            ) from error

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a snapshot; called after all registrations and before :meth:`start`."""
        self._order = list(state["order"])
        restore_chooser(self._chooser, state["chooser"])

    def order(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Return partitions in the order in which they waited, and then those that never did."""
        places = {name: place for place, name in enumerate(self._order)}
        return sorted(partitions, key=lambda ssp: places.get(str(ssp), len(places)))

    def holds(self, ssp: Partition) -> bool:
        """Return whether messages of a partition's run have not been chosen yet."""
        return ssp in self._held

    def update(self, envelope: E) -> None:
        """Receive an envelope that may be chosen from now on."""
        if envelope.ssp in self._held:
            raise StageError(
                f"The chooser was given two runs of {envelope.ssp} at a time.",
                hint="Give the next one when the former one has been chosen to its end.",
                ssp=str(envelope.ssp),
                offset=envelope.offset,
            )
        if envelope.messages:
            self._read_up.pop(envelope.ssp, None)
            self._give(envelope, 0)

    def choose(self, at_most: int | None = None) -> E | None:
        """Return the next messages, up to ``at_most`` (and at least one grain)."""
        piece = self._chooser.choose()
        if piece is None:
            return None
        run, first, end, ssp = piece.run, piece.first, piece.first + piece.messages, piece.ssp
        while end < run.messages:
            self._give(run, end)
            if self._ordered is None or (at_most is not None and end - first >= at_most) or self._ordered.peek() != ssp:
                break
            more = self._ordered.choose()
            assert more is not None
            assert more.run is run
            end = more.first + more.messages
        else:
            self._held.pop(ssp, None)
            self._read_up.pop(ssp, None)
            self._read_up[ssp] = None
        return Piece(run, first, end - first).as_envelope()

    def _give(self, run: E, first: int) -> None:
        left = run.messages - first
        self._held.pop(run.ssp, None)
        self._held[run.ssp] = None
        self._chooser.update(Piece(run, first, left if self._grain is None else min(left, self._grain)))


def taken(
    chooser: RunChooser[E],
    sources: Mapping[Any, Iterable[E]],
    *,
    limit: int | None = None,
    piece: int | None = None,
    read_up: Callable[[Any], None] = lambda ssp: None,
) -> Iterator[E]:
    """Yield the envelopes of sources, each in offset order, in the order that a started chooser gives them.

    A source is read one envelope ahead; ``read_up`` hears of each that has no more. Nothing more is taken when
    ``limit`` messages are, or
    when the chooser waits: what it :meth:`holds <RunChooser.holds>` then is left. ``piece`` is how many come at a time
    at most, and at least one grain.
    """
    readers = {ssp: iter(sources[ssp]) for ssp in chooser.order(sources)}
    dry = set(readers)
    left = limit
    while left is None or left > 0:
        for ssp in [ssp for ssp in readers if ssp in dry]:
            for envelope in readers[ssp]:
                chooser.update(envelope)
                if chooser.holds(ssp):
                    dry.discard(ssp)
                    break
            else:
                del readers[ssp]
                read_up(ssp)
        chosen = chooser.choose(at_most=min((most for most in (left, piece) if most is not None), default=None))
        if chosen is None:
            return
        if not chooser.holds(chosen.ssp):
            dry.add(chosen.ssp)
        left = None if left is None else left - chosen.messages
        yield chosen


def reject_left(places: Iterable[str]) -> None:
    """Reject a chooser that left messages of these partitions although all of them were offered."""
    left = sorted(places)
    if left:
        raise StageError(
            f"The chooser does not choose what is left of {left[0]}"
            + (f" and {len(left) - 1} more." if len(left) > 1 else "."),
            hint="It waits for a stream to reach its head, but that stream has ended before it.",
            partitions=left,
        )

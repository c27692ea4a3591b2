"""The rules of side inputs: where reading starts, when a store is complete, what entries do to it (rules S1–S5).

A *place* is one partition of one side input, ``(stream, partition)``. Nothing here reads a topic. Source: side-inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.errors import ProcessorMissing, TopicError

Place = tuple[str, int]


def starting_offset(local: int | None, oldest: int | None) -> int | None:
    """Return the first offset to read: the later of what follows the last one processed and the oldest there is.

    None: unknown (rule S3).

    >>> starting_offset(41, 0), starting_offset(1, 11), starting_offset(None, 7), starting_offset(None, None)
    (42, 11, 7, None)
    """
    offsets = [offset for offset in (None if local is None else local + 1, oldest) if offset is not None]
    return max(offsets, default=None)


@dataclass(frozen=True)
class Resumption:
    """Beginnings of the reading in each place.

    ``rebuild`` says why what the local store holds must be thrown away first (None: it is good).
    """

    starts: Mapping[Place, int]
    rebuild: str | None = None


def resume(
    local: Mapping[Place, int] | None, oldest: Mapping[Place, int | None], head: Mapping[Place, int | None]
) -> Resumption:
    """Return what can be used of a local store that has processed ``local`` (last offsets; None: there is no store).

    A place that the store has not read, of a new or quiet topic, is read from its oldest offset, and throws nothing
    away (rule S3). Offsets that are older than the oldest (rule S4: deletes in the gap would be missed) or beyond the
    head (rule S5: the topic was made anew) make a rebuild.
    """
    fresh = {place: _required(place, starting_offset(None, oldest[place]), "no oldest offset") for place in oldest}
    if local is None:
        return Resumption(fresh)
    if not local:
        return Resumption(fresh, "it does not say what it has read")
    foreign = sorted(set(local) - set(oldest))
    if foreign:
        return Resumption(fresh, f"it has read {_place(foreign[0])}, which is not read now")
    for place, last in local.items():
        if last + 1 < fresh[place]:
            return Resumption(
                fresh, f"it has read {_place(place)} up to {last}, and {fresh[place]} is the oldest offset left"
            )
        if last + 1 > _required(place, head[place], "no head"):
            return Resumption(
                fresh,
                f"it has read {_place(place)} up to {last}, and the topic ends at {head[place]}: it was made anew",
            )
    return Resumption(
        {
            place: _required(place, starting_offset(local.get(place), first), "no starting offset")
            for place, first in fresh.items()
        }
    )


class CatchUp:
    """Places that must still be read before a task may process its first message (rule S1).

    ``heads`` are the next offsets to be written, as they were at the start; what came later is not waited for.
    """

    def __init__(self, starts: Mapping[Place, int], heads: Mapping[Place, int | None]) -> None:
        ends = {place: _required(place, head, "no head") for place, head in heads.items()}
        self._left = {place: head for place, head in ends.items() if starts[place] < head}

    @property
    def is_complete(self) -> bool:
        """Return whether all places have been read to their heads."""
        return not self._left

    def processed(self, place: Place, offset: int) -> None:
        """Note that the message at an offset has been processed."""
        if place in self._left and offset + 1 >= self._left[place]:
            del self._left[place]

    def ends(self, place: Place, end: int) -> None:
        """End the topic at ``end``.

        A head beyond it is that of a former topic of this name, and counts as reached (rule S5).
        """
        if place in self._left and end < self._left[place]:
            del self._left[place]


class EntryStore(Protocol):
    """Protocol of a store that side inputs fill."""

    def put(self, key: Any, value: Any) -> None:
        """Set a value."""
        ...

    def delete(self, key: Any) -> None:
        """Remove a key."""
        ...


def apply_entries(store: EntryStore, entries: Iterable[tuple[Any, Any]] | None) -> int:
    """Write entries in their order: a value None deletes, a key None is left out (rule S2).

    Returns how many were left out.
    """
    if entries is None:
        raise TypeError("it returned None and not (key, row) pairs, of which there may be none")
    ignored = 0
    for key, value in entries:
        if key is None:
            ignored += 1
        elif value is None:
            store.delete(key)
        else:
            store.put(key, value)
    return ignored


class Processor(Protocol):
    """Processor that turns a message into entries of a store (``SideInputsProcessor``)."""

    def process(self, message: Any, store: Any) -> Iterable[tuple[Any, Any]]:
        """Return the entries to write."""
        ...


class ProcessorFailed(Exception):
    """A processor raised, or what it gave are no entries: which store's, and on which message."""

    def __init__(self, store: str, place: Place, offset: int, processor: Processor, error: BaseException) -> None:
        super().__init__(f"{store} at {_place(place)}, offset {offset}: {error}")
        self.store = store
        self.place = place
        self.offset = offset
        self.processor = processor
        self.error = error


@dataclass
class SideInputsProcessing:
    """Stores, the processor of each, and the streams that feed each.

    A stream may feed several, each of which has its own processor. ``last_processed`` moves on when all processors of a
    message have run, whether they gave entries or not (rule S2).
    """

    feeds: Mapping[str, Iterable[str]]
    stores: Mapping[str, EntryStore]
    processors: Mapping[str, Processor]
    last_processed: dict[Place, int] = field(default_factory=dict)
    ignored: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Reject a store without a processor of its messages."""
        for store in self.feeds:
            if store not in self.processors:
                raise ProcessorMissing(
                    f"The store {store!r} has side inputs ({', '.join(self.feeds[store])}), and no processor for "
                    "their messages.",
                    hint=f"Set processor= of the table, or stores.{store}.side.inputs.processor.factory "
                    "in the configuration.",
                    store=store,
                )
        self._fed: dict[str, list[str]] = {}
        for store, streams in self.feeds.items():
            for stream in streams:
                self._fed.setdefault(stream, []).append(store)

    def process(self, place: Place, offset: int, message: Any) -> None:
        """Process one message for every store that its stream feeds."""
        for name in self._fed.get(place[0], ()):
            store, processor = self.stores[name], self.processors[name]
            try:
                ignored = apply_entries(store, processor.process(message, store))
            except USER_ERRORS as error:
                raise ProcessorFailed(name, place, offset, processor, error) from error
            if ignored:
                self.ignored[name] = self.ignored.get(name, 0) + ignored
        self.last_processed[place] = offset


def _required(place: Place, offset: int | None, what: str) -> int:
    if offset is None:
        raise TopicError(
            f"The side input {_place(place)} has {what}, so it is unknown what a store of it must hold.",
            hint="Check that the topic exists and its system answers; "
            "declare a stream that counts no offsets as bounded.",
            stream=place[0],
            partition=place[1],
        )
    return offset


def _place(place: Place) -> str:
    return f"{place[0]}/{place[1]}"

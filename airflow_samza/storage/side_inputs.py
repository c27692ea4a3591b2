"""The processors of side inputs: what the entries that they make of messages do to a store (rule S2).

A *place* is one partition of one side input, ``(stream, partition)``. Nothing here reads a topic. Source: side-inputs.
Tasks fill tables through it, wherever these lie.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.errors import ProcessorMissing
from airflow_samza.grouping import grouped

Place = tuple[str, int]


class EntryStore(Protocol):
    """Protocol of a store that side inputs fill."""

    def put(self, key: Any, value: Any) -> None:
        """Set a value."""

    def delete(self, key: Any) -> None:
        """Remove a key."""


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
        self._fed = grouped((stream, store) for store, streams in self.feeds.items() for stream in streams)

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


def _place(place: Place) -> str:
    return f"{place[0]}/{place[1]}"

"""Runs of messages for the tests of choosers: offsets only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.chooser.message_chooser import MessageChooser
from airflow_samza.chooser.runs import RunChooser, reject_left, taken


@dataclass(frozen=True)
class Run:
    """``messages`` messages of a partition from ``offset`` on."""

    ssp: Any
    offset: int
    messages: int

    def slice(self, first: int, count: int) -> Run:
        assert 0 <= first < first + count <= self.messages
        return Run(self.ssp, self.offset + first, count)


def admitted(chooser: RunChooser[Run], limit: int) -> list[Run]:
    """Take an epoch of up to ``limit`` messages of those that the chooser was given."""
    return list(taken(chooser, {}, limit=limit))


def chosen(chooser: RunChooser[Any], sources: Mapping[Any, Iterable[Any]]) -> Iterator[Any]:
    """All envelopes of bounded sources; that the chooser leaves some is an error."""
    yield from taken(chooser, sources)
    reject_left([str(ssp) for ssp in sources if chooser.holds(ssp)])


def chosen_until_none(chooser: MessageChooser[Any]) -> list[Any]:
    return list(_chosen(chooser))


def _chosen(chooser: MessageChooser[Any]) -> Iterator[Any]:
    while (envelope := chooser.choose()) is not None:
        yield envelope

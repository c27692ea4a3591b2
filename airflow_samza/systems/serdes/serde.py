"""Protocol of serdes: whole columns of bytes at a time, and the messages that do not fit (decision 24).

Streams of bytes, on Kafka and in the test driver, read and write by it.
Source: control-messages, "we will use the user provided serde"; rule C1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from airflow_samza.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


class Serde(Protocol):
    """Serde: conversion of messages into bytes and back.

    A system that sends bytes holds one for each stream; it keeps nothing between calls.
    """

    def encode(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the messages of a batch as an array of type binary, one value for each, none null.

        Else a :class:`BadMessage`.
        """

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages of an array of type binary, in the declared columns.

        The first that cannot be read is a :class:`BadMessage`.
        """
        return self.decode_each(values).whole()

    def decode_each(self, values: pa.Array) -> Decoded:
        """Return the messages of an array of type binary that can be read, and those that cannot."""


@runtime_checkable
class AsksRegistry(Protocol):
    """Serde that asks a schema registry, which the plan does first."""

    def check_read(self) -> None:
        """Reject a registry that cannot be asked, and columns that its schema does not have."""

    def check_written(self) -> None:
        """Reject a stream for which the registry has no schema, or one that the columns do not fit."""


class BadMessage(ValueError):
    """A message that a serde cannot turn: ``place`` is its place in the call.

    ``raised`` is the error of the user's own serde.
    """

    def __init__(self, place: int, why: str, raised: BaseException | None = None) -> None:
        super().__init__(why)
        self.place = place
        self.raised = raised

    def at(self, place: int) -> BadMessage:
        """Return the same of another place."""
        return BadMessage(place, str(self), self.raised)


class Decoded(NamedTuple):
    """Messages that were read, in their order, and those that could not be (``bad``, by their places in the call)."""

    batch: pa.RecordBatch
    bad: Sequence[BadMessage] = ()

    def whole(self) -> pa.RecordBatch:
        """Return the messages; the first bad one is raised."""
        if self.bad:
            raise self.bad[0]
        return self.batch

    def pieces(self) -> Iterator[tuple[int, pa.RecordBatch | list[BadMessage]]]:
        """Yield what stands at consecutive places, with the first: messages that were read, or bad ones."""
        taken = 0
        # Bad messages side by side have the same number of good ones before them.
        for before, run in groupby(enumerate(self.bad), lambda numbered: numbered[1].place - numbered[0]):
            bad = [message for _, message in run]
            if before > taken:
                yield bad[0].place - (before - taken), self.batch.slice(taken, before - taken)
                taken = before
            yield bad[0].place, bad
        if taken < self.batch.num_rows:
            yield taken + len(self.bad), self.batch.slice(taken)


def cannot_read(
    bad: BadMessage, *, stream: str, partition: int | None = None, offset: int | None = None
) -> BaseException:
    """Return the error of a message that cannot be read, with its place where it has one.

    That of the user's own serde passes as it is.
    """
    if bad.raised is not None:
        return bad.raised
    what = f"A message of {stream!r}" if partition is None else f"The message at {stream}/{partition} offset {offset}"
    return SchemaError(
        f"{what} cannot be read by its serde: {bad}.",
        hint="Correct the serde, the declared columns, or what writes the messages.",
        stream=stream,
        partition=partition,
        offset=offset,
    )


def cannot_write(bad: BadMessage, *, stream: str) -> BaseException:
    """Return the error of a message that cannot be written; the error of the user's own serde passes as it is."""
    if bad.raised is not None:
        return bad.raised
    return SchemaError(
        f"A message for {stream!r} cannot be written by its serde: {bad}.",
        hint="Correct the serde, or what is sent to the stream.",
        stream=stream,
    )

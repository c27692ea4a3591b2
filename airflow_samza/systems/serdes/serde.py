"""Protocol of serdes: whole columns of bytes at a time, and the first message that does not fit.

Source: control-messages, "we will use the user provided serde"; rule C1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
        ...

    def decode(self, values: pa.Array) -> pa.RecordBatch:
        """Return the messages of an array of type binary, in the declared columns.

        The first that cannot be read is a :class:`BadMessage`.
        """
        ...


class BadMessage(ValueError):
    """A message that a serde cannot turn: ``place`` is its place in the call.

    ``raised`` is the error of the user's own serde.
    """

    def __init__(self, place: int, why: str, raised: BaseException | None = None) -> None:
        super().__init__(why)
        self.place = place
        self.raised = raised


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

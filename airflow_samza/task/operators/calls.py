"""Calls of the user's callables with the messages of a batch.

Every message is called with once. One on which the callable fails, or whose result has another shape, fails the stage;
with a handler of bad records only that message is lost. Operators that call a user's Python per message do it here, and
joins of streams for their results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.task.messages.bad_records import BadRecords, rows_at
from airflow_samza.task.messages.messages import MessageWriter, ShapeError, chunks
from airflow_samza.task.messages.user_errors import callable_failed, wrong_shape
from airflow_samza.task.messages.writer import Source, written_each


class Failures:
    """The messages of one chunk on which the callable failed. ``bad`` None: the first failure is raised."""

    def __init__(self, bad: BadRecords | None) -> None:
        self.failed: list[tuple[int, BaseException]] = []
        self._bad = bad

    def add(self, place: int, error: BaseException) -> None:
        """Add a message on which the callable failed."""
        if self._bad is None:
            raise error
        self.failed.append((place, error))

    def in_order(self) -> list[tuple[int, BaseException]]:
        """Return the places and errors in the order of the messages."""
        return sorted(self.failed, key=itemgetter(0))

    def reject(self, part: pa.RecordBatch, first: int | None) -> None:
        """Hand them over, in order; ``first`` is the place of the chunk in its batch (None: not known)."""
        if self.failed and self._bad is not None:
            in_order = self.in_order()
            at = None if first is None else [first + place for place, _ in in_order]
            rows = rows_at(part, [place for place, _ in in_order])
            self._bad.reject(rows, [error for _, error in in_order], at)


def chunks_of(batch: pa.RecordBatch, bad: BadRecords | None) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield (place in the batch, chunk) of each chunk of a batch, which begins for ``bad``, too."""
    if bad is not None:
        bad.begin(batch)
    first = 0
    for part in chunks(batch):
        yield first, part
        first += part.num_rows


def call_each(
    spec: OperatorSpec,
    function: Callable[..., Any],
    messages: Sequence[Any],
    failures: Failures,
    *,
    arguments: Sequence[Iterable[Any]] | None = None,
    use: Callable[[Any], Any] | None = None,
) -> list[Any]:
    """Return the callable's results on the messages on which it does not fail, as ``use`` hands them on.

    ``arguments`` are those of all calls, one iterable for each parameter, of which the first is a list (None: the
    messages).
    """
    call = function if use is None else lambda message: use(function(message))
    iterators: list[Any] = [iter(values) for values in arguments or [messages]]
    calls = map(call, *iterators)
    results: list[Any] = []
    while len(results) + len(failures.failed) < len(messages):
        error: BaseException = RuntimeError("it raised StopIteration")
        try:
            results.extend(calls)  # in C; the rest of the first iterator shows how far it came
        except USER_ERRORS as raised:
            error = raised
        if len(results) + len(failures.failed) < len(messages):
            place = len(messages) - iterators[0].__length_hint__() - 1
            failures.add(place, callable_failed(spec, function, messages[place], error))
    return results


def batch_of(
    spec: OperatorSpec,
    function: object,
    writer: MessageWriter,
    results: Sequence[Any],
    *,
    expected: str = "",
    origins: Sequence[Any] | None = None,
) -> pa.RecordBatch:
    """Return the batch of what a callable gave; one of another shape is an error.

    Errors show the message of which it was made, of ``origins``, and ``expected`` (empty: the writer's columns).
    """
    try:
        return writer.write(results)
    except ShapeError as error:
        made_of = {} if origins is None else {"message": origins[error.index]}
        result = results[error.index]
        raise wrong_shape(spec, function, result, expected or writer.expected, why=error.why, **made_of) from None


def batch_of_each(
    spec: OperatorSpec,
    function: Callable[..., Any],
    writer: MessageWriter,
    messages: Sequence[Any],
    failures: Failures,
    *,
    arguments: Sequence[Iterable[Any]] | None = None,
    source: Source | None = None,
) -> pa.RecordBatch | None:
    """Return the batch of what :func:`call_each` gives on messages; a result of another shape is a failure, too.

    ``source`` are the messages of which each result is made.
    """
    results = call_each(spec, function, messages, failures, arguments=arguments)
    return batch_of_results(spec, function, writer, messages, results, failures, source=source)


def batch_of_results(
    spec: OperatorSpec,
    function: object,
    writer: MessageWriter,
    messages: Sequence[Any],
    results: Sequence[Any],
    failures: Failures,
    *,
    source: Source | None = None,
) -> pa.RecordBatch | None:
    """Return the batch of the results on the messages that have not failed; one of another shape fails, too.

    ``source`` as in :func:`batch_of_each`.
    """
    written, misshapen = written_each(writer, results, None if failures.failed else source)
    if misshapen:
        failed = {place for place, _ in failures.failed}
        places = [place for place in range(len(messages)) if place not in failed]
        for number, shape in misshapen:
            message, result = messages[places[number]], results[number]
            error = wrong_shape(spec, function, result, writer.expected, message=message, why=shape.why)
            failures.add(places[number], error)
    return written

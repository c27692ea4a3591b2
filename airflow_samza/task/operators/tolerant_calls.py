"""Callables per message where those that fail do not fail the stage.

Every message is called once, and only those that fail are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.operator_spec import OperatorSpec
from airflow_samza.application.rejections import USER_ERRORS
from airflow_samza.task.messages.bad_records import BadRecords, rows_at
from airflow_samza.task.messages.messages import MessageReader, MessageWriter, ShapeError, chunks
from airflow_samza.task.messages.user_errors import callable_failed, reject_awaitable, wrong_shape
from airflow_samza.task.messages.writer import written_each

if TYPE_CHECKING:
    import pyarrow as pa


class Failures:
    """The messages of one chunk on which the callable failed."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self.errors: list[BaseException] = []

    def add(self, place: int, error: BaseException) -> None:
        """Add a message on which the callable failed."""
        self.places.append(place)
        self.errors.append(error)

    def reject(self, bad: BadRecords, part: pa.RecordBatch, first: int | None) -> None:
        """Hands them over, in order; ``first`` is the place of the chunk in its batch (None: not known)."""
        if self.places:
            order = sorted(range(len(self.places)), key=self.places.__getitem__)
            places = [self.places[number] for number in order]
            at = None if first is None else [first + place for place in places]
            bad.reject(rows_at(part, places), [self.errors[number] for number in order], at)


def call_each(
    spec: OperatorSpec,
    function: Callable[[Any], Any],
    messages: Sequence[Any],
    failures: Failures,
    use: Callable[[Any], Any] | None = None,
) -> list[Any]:
    """The callable's results on the messages on which it does not fail, as ``use`` hands them on."""
    call = function if use is None else lambda message: use(function(message))
    left: Any = iter(messages)
    results: list[Any] = []
    while len(results) + len(failures.places) < len(messages):
        error: BaseException = RuntimeError("it raised StopIteration")
        try:
            results.extend(map(call, left))  # in C; the rest of the iterator shows how far it came
        except USER_ERRORS as raised:
            error = raised
        if len(results) + len(failures.places) < len(messages):
            place = len(messages) - left.__length_hint__() - 1
            failures.add(place, callable_failed(spec, function, messages[place], error))
    return results


def _as_condition(result: Any) -> bool:
    reject_awaitable(result)
    return bool(result)


def filter_each(
    spec: OperatorSpec, function: Callable[[Any], Any], reader: MessageReader, batch: pa.RecordBatch, bad: BadRecords
) -> Iterator[pa.RecordBatch]:
    """The rows for which the callable is true."""
    import pyarrow as pa

    bad.begin(batch)
    first = 0
    for part in chunks(batch):
        failures = Failures()
        chosen = call_each(spec, function, reader.read(part), failures, _as_condition)
        for place in failures.places:  # in order, so that each lands where it belongs
            chosen.insert(place, False)
        failures.reject(bad, part, first)
        first += part.num_rows
        yield part.filter(pa.array(chosen, pa.bool_()))


def map_each(
    spec: OperatorSpec,
    function: Callable[[Any], Any],
    reader: MessageReader,
    writer: MessageWriter,
    batch: pa.RecordBatch,
    bad: BadRecords,
) -> Iterator[pa.RecordBatch]:
    """One message out for each message in."""
    bad.begin(batch)
    first = 0
    for part in chunks(batch):
        messages = reader.messages(part)
        failures = Failures()
        results = call_each(spec, function, messages.objects, failures)
        if not failures.places:
            try:
                yield writer.write(results, messages)
                first += part.num_rows
                continue
            except ShapeError:  # the message that is the cause is looked for below
                pass
        failed = set(failures.places)
        fine = [place for place in range(part.num_rows) if place not in failed]
        made, misshapen = written_each(writer, [[result] for result in results])
        for number, error in misshapen:
            place = fine[number]
            message = messages.objects[place]
            failures.add(
                place, wrong_shape(spec, function, results[number], writer.expected, message=message, why=error.why)
            )
        failures.reject(bad, part, first)
        first += part.num_rows
        if made is not None:
            yield made


def flat_map_each(
    spec: OperatorSpec,
    function: Callable[[Any], Any],
    results_of: Callable[[Any], Iterable[Sequence[Any]]],
    reader: MessageReader,
    writer: MessageWriter,
    batch: pa.RecordBatch,
    bad: BadRecords,
) -> Iterator[pa.RecordBatch]:
    """Any number of messages out for each message in; of one that fails in the middle nothing comes out."""
    bad.begin(batch)
    first = 0
    for part in chunks(batch):
        messages = reader.read(part)
        failures = Failures()
        groups: list[list[Any]] = []
        fine: list[int] = []
        for place, message in enumerate(messages):
            try:
                groups.append([result for piece in results_of(message) for result in piece])
                fine.append(place)
            except Exception as error:
                failures.add(place, error)
        made, misshapen = written_each(writer, groups)
        for number, shape in misshapen:
            result, message = groups[number][shape.index], messages[fine[number]]
            failures.add(
                fine[number], wrong_shape(spec, function, result, writer.expected, message=message, why=shape.why)
            )
        failures.reject(bad, part, first)
        first += part.num_rows
        if made is not None:
            yield made


def sink_each(
    spec: OperatorSpec, function: Callable[[Any], Any], reader: MessageReader, batch: pa.RecordBatch, bad: BadRecords
) -> None:
    """The callable's effect."""
    bad.begin(batch)
    first = 0
    for part in chunks(batch):
        failures = Failures()
        call_each(spec, function, reader.read(part), failures, reject_awaitable)
        failures.reject(bad, part, first)
        first += part.num_rows

"""Messages that cannot be read, or on which an operator fails, handled as ``on_error=`` specifies.

The run loop and the operators hand messages over to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_samza.application.bad_records import DEAD_LETTERS
from airflow_samza.application.descriptors import ErrorPolicy
from airflow_samza.application.operator_spec import Emits, OperatorSpec
from airflow_samza.application.operator_specs import InputOperatorSpec
from airflow_samza.errors import SamzaError, SchemaError
from airflow_samza.quoting import are_shown, error_text, one_line, printable
from airflow_samza.schema import Schema
from airflow_samza.systems.dictionaries import decoded
from airflow_samza.systems.files.formats.json_values import to_lines
from airflow_samza.systems.system import MessageRun, UnreadableRun
from airflow_samza.task.messages.conform import SchemaConformer
from airflow_samza.task.messages.writer import MessageWriter, ShapeError

SAMPLES = 3
"""Messages that each operator of a task shows: enough to see what is wrong, and reports stay short."""

_ERROR_LENGTH = 2000
"""Characters of an error in a dead letter.

They hold a traceback, and a message that is quoted in it does not come twice at full length.
"""

_ONE_TO_ONE = (Emits.ONE_FOR_ONE,)
_AT_ONCE = (Emits.ONE_FOR_ONE, Emits.AT_ONCE)


@dataclass(slots=True)
class Reading:
    """The position of a task's reading: messages of one partition from ``offset`` on; ``stream`` None between them.

    ``number`` counts the runs.
    """

    stream: str | None = None
    partition: int = 0
    offset: int = 0
    number: int = 0

    def begin(self, stream: str, partition: int, offset: int) -> None:
        """Note that a run of messages goes to the operators."""
        self.stream, self.partition, self.offset = stream, partition, offset
        self.number += 1

    def end(self) -> None:
        """Note that the run has been handled."""
        self.stream = None


class BadRecords:
    """The messages on which one operator of a task fails.

    They are counted, some of them kept as samples, and sent away if there is a stream. :attr:`count` and
    :attr:`samples` are of this run. ``dead_letters`` sends them (None: they are dropped).
    """

    def __init__(
        self,
        spec: OperatorSpec,
        policy: ErrorPolicy,
        dead_letters: Callable[[pa.RecordBatch], None] | None,
        reading: Reading,
        clock: Callable[[], int],
    ) -> None:
        self.count = 0
        self.samples: list[str] = []
        self._spec = spec
        self._policy = policy
        self._dead_letters = dead_letters
        self._reading = reading
        self._clock = clock
        self._knows_stream = _all_before(spec, _AT_ONCE)
        self._knows_offset = _all_before(spec, _ONE_TO_ONE, without_on_error=True)
        self._number = 0
        self._before = 0
        self._rows = 0

    @property
    def metrics(self) -> dict[str, float]:
        """The count, under the name by which reports show it."""
        if not self.count:
            return {}
        kind = "dropped_messages" if self._policy.stream is None else "dead_letters"
        return {f"{kind}.{self._spec.name}": self.count}

    def begin(self, batch: pa.RecordBatch) -> None:
        """Note that the operator begins with a batch: places of rejected rows count from its first row."""
        if self._number != self._reading.number:
            self._number, self._before = self._reading.number, 0
        else:
            self._before += self._rows
        self._rows = batch.num_rows

    def reject(
        self, rows: pa.RecordBatch, errors: Sequence[BaseException | str], places: Sequence[int] | None = None
    ) -> None:
        """Reject messages of the present batch, at ``places`` in it (None: not known), with the error of each."""
        if rows.num_rows:
            offsets = self._offsets(places, rows.num_rows)
            self._take(lines_of(rows), [_error_text(error) for error in errors], offsets)

    def reject_row(self, row: pa.RecordBatch, place: int, error: BaseException) -> None:
        """Reject one message of the present batch."""
        self.reject(row, [error], [place])

    def reject_message(
        self, message: Any, schema: Schema, error: BaseException, origin: tuple[str, int, int] | None = None
    ) -> None:
        """Reject one message as the callable got it.

        ``origin`` is its stream, partition and offset where they are known.
        """
        try:
            text = to_lines(MessageWriter(schema).write([message])).decode()[:-1]
        except ShapeError:  # the callable has changed it
            text = one_line(repr(message))
        if origin is None:
            self._take([text], [_error_text(error)], [None])
        else:
            self._take([text], [_error_text(error)], [origin[2]], origin[:2])

    def reject_pair(self, sides: dict[str, pa.RecordBatch | None], error: BaseException) -> None:
        """Reject a pair with which a join was called: a message of each side, or None."""
        parts = (
            f'"{name}":{to_lines(row).decode()[:-1] if row is not None else "null"}' for name, row in sides.items()
        )
        self._take(["{" + ",".join(parts) + "}"], [_error_text(error)], [None])

    def reject_texts(
        self, texts: Sequence[str], errors: Sequence[str], first: int, headers: Sequence[str | None] | None = None
    ) -> None:
        """Reject texts that an input could not read, from offset ``first`` on."""
        self._take(list(texts), list(errors), list(range(first, first + len(texts))), headers=headers)

    # decision 25: the offset is given wherever it can be known
    def _offsets(self, places: Sequence[int] | None, count: int) -> Sequence[int | None]:
        if places is None or not self._knows_offset or self._reading.stream is None:
            return [None] * count
        first = self._reading.offset + self._before
        return [first + place for place in places]

    def _take(
        self,
        texts: Sequence[str],
        errors: Sequence[str],
        offsets: Sequence[int | None],
        origin: tuple[str, int] | None = None,
        headers: Sequence[str | None] | None = None,
    ) -> None:
        self.count += len(texts)
        stream, partition = origin or (self._reading.stream if self._knows_stream else None, self._reading.partition)
        for text, error, offset in zip(texts, errors, offsets, strict=True):
            if len(self.samples) >= SAMPLES or not are_shown():
                break
            parts = [] if stream is None else [stream, f"partition {partition}"]
            parts += [] if offset is None else [f"offset {offset}"]
            at = f" ({', '.join(parts)})" if parts else ""
            self.samples.append(f"{self._spec.title}{at}: {one_line(error.removesuffix('.'))}: {one_line(text)}")
        if self._dead_letters is not None:
            count = len(texts)
            columns = [
                pa.array([stream] * count, pa.string()),
                pa.array([None if stream is None else partition] * count, pa.int32()),
                pa.array(offsets, pa.int64()),
                pa.array([self._spec.op_id] * count, pa.string()),
                pa.array([_error_text(error) for error in errors], pa.string()),
                pa.array(texts, pa.string()),
                pa.array([self._clock() * 1000] * count, pa.timestamp("us", "UTC")),
                pa.array(headers if headers is not None else [None] * count, pa.string()),
            ]
            self._dead_letters(pa.RecordBatch.from_arrays(columns, schema=DEAD_LETTERS.to_arrow()))


def lines_of(rows: pa.RecordBatch) -> list[str]:
    """Return each row as a line of JSON."""
    return to_lines(decoded(rows)).decode().split("\n")[:-1]


def rows_at(batch: pa.RecordBatch, places: Sequence[int]) -> pa.RecordBatch:
    """Some rows of a batch."""
    return batch.take(pa.array(places, pa.int64()))


def halved(
    batch: pa.RecordBatch,
    call: Callable[[pa.RecordBatch, int], Any],
    fails: type[Exception],
    reject: Callable[[pa.RecordBatch, int, Any], None],
    first: int = 0,
) -> Iterator[tuple[int, Any]]:
    """Yield what ``call`` returns for a batch, in pieces without the rows on which it fails, in order and with places.

    It gets a piece and the place of its first row, which is ``first`` for the batch. The rows on which it fails are
    found by halving, and each handed to ``reject`` with its place and error.
    """
    try:
        results = call(batch, first)
    except fails as error:
        if batch.num_rows == 1:
            reject(batch, first, error)
            return
        middle = batch.num_rows // 2
        yield from halved(batch.slice(0, middle), call, fails, reject, first)
        yield from halved(batch.slice(middle), call, fails, reject, first + middle)
    else:
        yield first, results


def fitting_rows(
    batch: pa.RecordBatch,
    conformer: SchemaConformer,
    reject: Callable[[pa.RecordBatch, int, SchemaError], None],
    offset: int | None = None,
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a batch that fit a schema, in pieces with the place of each; the others are rejected.

    With ``offset``, which is that of the first row, the places are offsets, and errors name them. A column that is
    missing, or whose type is another, is no message's fault: it is an error.
    """
    conformer.conform(batch.slice(0, 0))

    def conformed(part: pa.RecordBatch, first: int) -> pa.RecordBatch:
        return conformer.conform(part, None if offset is None else first)

    return halved(batch, conformed, SchemaError, reject, offset or 0)


def readable(
    run: MessageRun, conformer: SchemaConformer, bad: BadRecords | None
) -> Iterable[tuple[int, pa.RecordBatch]]:
    """Return the messages of an input that fit its schema, in pieces with the offset of each; reject the others.

    Without a handler they are an error.
    """
    if bad is None:
        return [(run.offset, conformer.conform(run.batch, run.offset))]
    if isinstance(run, UnreadableRun):
        bad.reject_texts(run.texts, run.errors, run.offset, run.headers)
        return ()

    def reject(row: pa.RecordBatch, offset: int, error: SchemaError) -> None:
        bad.reject_texts(lines_of(row), [_error_text(error)], offset)

    return fitting_rows(run.batch, conformer, reject, run.offset)


def _all_before(spec: OperatorSpec, kinds: tuple[Emits, ...], *, without_on_error: bool = False) -> bool:
    return all(
        source.emits in kinds
        and not (without_on_error and source.on_error is not None and not isinstance(source, InputOperatorSpec))
        and _all_before(source, kinds, without_on_error=without_on_error)
        for source in spec.inputs
    )


def _error_text(error: BaseException | str) -> str:
    if isinstance(error, str):
        text = error
    elif isinstance(error, SamzaError):
        text = error.sentence
    else:
        text = error_text(error, _ERROR_LENGTH)
    return printable(text if len(text) <= _ERROR_LENGTH else text[: _ERROR_LENGTH - 1] + "…")

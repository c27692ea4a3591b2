"""A low-level task as an operator: the user's StreamTask gets every message with its place, and sends what it likes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor, TableKind
from airflow_samza.application.operator_specs import TaskSpec
from airflow_samza.application.refusals import did_you_mean
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.task_api import IncomingMessageEnvelope
from airflow_samza.errors import NotYet, SchemaError, StoreError, UnknownName
from airflow_samza.schema import Schema
from airflow_samza.task.messages import CHUNK, MessageReader, MessageWriter, ShapeError, chunks
from airflow_samza.task.operators.operator import Operator
from airflow_samza.task.operators.outputs import OutputWriter
from airflow_samza.task.table_store import TableStore
from airflow_samza.task.user_errors import callable_failed, wrong_shape

if TYPE_CHECKING:
    import pyarrow as pa


class Metrics:
    """Counters and gauges of one task, by name; the task's report shows them."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def count(self, name: str, by: float = 1) -> None:
        """Adds to a counter."""
        self.values[name] = self.values.get(name, 0) + by

    def gauge(self, name: str, value: float) -> None:
        """Sets a gauge."""
        self.values[name] = value


class Context:
    """What a task may know of itself (``TaskContext``)."""

    def __init__(
        self,
        name: str,
        partitions: Mapping[str, Sequence[int]],
        config: Mapping[str, str],
        tables: Mapping[str, TaskTable],
        clock: Callable[[], int],
    ) -> None:
        self.task_name = name
        self.partitions = partitions
        self.config = config
        self.metrics = Metrics()
        self.now_ms = clock
        self._tables = tables

    def get_table(self, table_id: str) -> TaskTable:
        """A table that the application declared."""
        if table_id not in self._tables:
            raise UnknownName(
                f"The application has no table {table_id!r} ({SourceLocation.of_caller()}).",
                hint=f"{did_you_mean(table_id, self._tables)}Its tables are {', '.join(sorted(self._tables)) or 'none'}.",
                name=table_id,
            )
        return self._tables[table_id]

    def get_store(self, name: str) -> Any:
        """Stores of a task's own come with state that outlives a run."""
        raise NotYet(
            f"The task asks for the store {name!r}, and stores that outlive a run are not there yet.",
            hint="Use a local table, or keep the state in the task for the time of the run.",
            store=name,
        )


class TaskTable:
    """A table as a low-level task sees it: rows by key, as messages (``ReadableTable``)."""

    def __init__(self, table: TableDescriptor, store: TableStore) -> None:
        self._table = table
        self._store = store
        self._rows: dict[Any, Any] | None = None
        self._changed = False

    def _loaded(self) -> dict[Any, Any]:
        if self._rows is None:
            batch = self._store.rows
            keys = [batch.column(name).to_pylist() for name in self._store.key]
            plain = keys[0] if len(keys) == 1 else zip(*keys, strict=True)
            self._rows = dict(zip(plain, MessageReader(self._store.schema).read(batch), strict=True))
        return self._rows

    def get(self, key: Any) -> Any:
        """The row of a key, or None."""
        return self._loaded().get(tuple(key) if isinstance(key, list) else key)

    def get_all(self, keys: Sequence[Any]) -> dict[Any, Any]:
        """The rows of those keys that are there."""
        rows = self._loaded()
        return {key: rows[key] for key in keys if key in rows}

    def put(self, key: Any, row: Any) -> None:
        """Writes a row; None deletes. A pushed table is read-only (SEMANTICS S6)."""
        if self._table.kind is not TableKind.LOCAL:
            raise StoreError(
                f"The task writes to the table {self._table.table_id!r}, which is {self._table.kind.value} and read-only.",
                hint="Write to an app.local_table(…).",
                table=self._table.table_id,
            )
        rows = self._loaded()
        self._changed = True
        if row is None:
            rows.pop(key, None)
        else:
            rows[key] = row

    def __len__(self) -> int:
        return len(self._loaded())


class _Coordinator:
    """Keeps what the task asks for."""

    def __init__(self) -> None:
        self.commits = 0
        self.shut_down = False

    def commit(self) -> None:
        """Counts: the epoch's commit comes after the task's last message."""
        self.commits += 1

    def shutdown(self) -> None:
        """Asks the task to end after this call."""
        self.shut_down = True


class _Output:
    """Messages on their way to one output stream."""

    def __init__(self, spec: TaskSpec, stream: StreamDescriptor, writer: OutputWriter) -> None:
        self._spec = spec
        self._stream = stream
        self._out = writer
        self._writer: MessageWriter | None = MessageWriter(stream.schema) if stream.schema is not None else None
        self._messages: list[Any] = []

    def add(self, message: Any) -> None:
        if self._writer is None:
            if not dataclasses.is_dataclass(message) or isinstance(message, type):
                raise SchemaError(
                    f"The task sends {type(message).__name__} messages to {self._stream.stream_id!r}, whose columns nobody has said.",
                    hint="Declare app.output_stream(…, schema=…), or send dataclass instances.",
                    stream=self._stream.stream_id,
                )
            self._writer = MessageWriter(Schema.of(type(message)))
        self._messages.append(message)
        if len(self._messages) >= CHUNK:
            self.flush()

    def flush(self) -> None:
        if not self._messages:
            return
        messages, self._messages = self._messages, []
        assert self._writer is not None
        try:
            batch = self._writer.write(messages)
        except ShapeError as error:
            expected = f"for {self._stream.stream_id!r} {self._writer.expected}"
            raise wrong_shape(self._spec, self._spec.factory, messages[error.index], expected, why=error.why) from None
        self._out.write(batch)


class _Collector:
    """Takes what the task sends."""

    def __init__(self, outputs: Mapping[str, _Output], streams: Mapping[str, StreamDescriptor]) -> None:
        self._outputs = outputs
        self._streams = streams

    def send(self, stream: str, message: Any, *, key: Any = None) -> None:
        """Sends a message to an output stream, by its id."""
        if stream not in self._outputs:
            raise UnknownName(
                f"The task sends to {stream!r}, which is no output stream of the application ({SourceLocation.of_caller()}).",
                hint=f"{did_you_mean(stream, self._outputs)}Its outputs are {', '.join(sorted(self._outputs)) or 'none'}.",
                name=stream,
            )
        if key is not None and not self._streams[stream].key:
            raise NotYet(
                f"The task sends to {stream!r} with a key of its own, which is not there yet.",
                hint=f'Declare the key columns: app.output_stream("{stream}", key=…).',
                stream=stream,
            )
        self._outputs[stream].add(message)


class LowLevelTask(Operator[TaskSpec]):
    """Calls the user's task. The run loop says where a batch comes from (:attr:`origin`) before it pushes it."""

    def __init__(
        self,
        spec: TaskSpec,
        inputs: Mapping[str, Schema],
        writers: Mapping[str, OutputWriter],
        context: Context,
    ) -> None:
        super().__init__(spec, next(iter(inputs.values())), None)
        self.context = context
        self.origin: tuple[StreamDescriptor, int, int] | None = None
        self.coordinator = _Coordinator()
        streams = {stream.stream_id: stream for stream in spec.outputs}
        self._outputs = {name: _Output(spec, stream, writers[name]) for name, stream in streams.items()}
        self._collector = _Collector(self._outputs, streams)
        self._readers = {name: MessageReader(schema) for name, schema in inputs.items()}
        self._task: Any = None

    def start(self) -> None:
        """Make the task and tell it its context."""
        self._task = self._guarded(self.spec.factory)
        self._call("init", self.context)

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """One call per message; nothing goes on from here but what the task sends."""
        assert self.origin is not None
        stream, partition, offset = self.origin
        for part in chunks(batch):
            for envelope in self._envelopes(part, stream, partition, offset):
                if self.coordinator.shut_down:
                    break
                try:
                    self._task.process(envelope, self._collector, self.coordinator)
                except Exception as error:
                    raise callable_failed(self.spec, self._task.process, envelope.message, error) from error
            offset += part.num_rows
        return ()

    def _envelopes(self, batch: pa.RecordBatch, stream: StreamDescriptor, partition: int, offset: int) -> Iterator[IncomingMessageEnvelope]:
        messages = self._readers[stream.stream_id].read(batch)
        keys: list[Any] = [None] * len(messages)
        if stream.key:
            columns = [batch.column(name).to_pylist() for name in stream.key]
            keys = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
        times = batch.column(stream.timestamp).to_pylist() if stream.timestamp in batch.schema.names else [None] * len(messages)
        for place, message in enumerate(messages):
            yield IncomingMessageEnvelope(stream.stream_id, partition, offset + place, keys[place], message, stream.system, times[place])

    def flush(self) -> Iterable[pa.RecordBatch]:
        """All inputs have ended for good: the task is told, and may still send (SEMANTICS C7)."""
        if not self.coordinator.shut_down:
            self._call("on_end_of_stream", self._collector, self.coordinator)
        return ()

    def finish(self) -> None:
        """Send what is still collected; the last thing before the outputs end."""
        for output in self._outputs.values():
            output.flush()

    def close(self) -> None:
        """Close the task."""
        if self._task is not None:
            task, self._task = self._task, None
            if hasattr(task, "close"):
                self._guarded(task.close)

    def _call(self, method: str, *arguments: Any) -> None:
        function = getattr(self._task, method, None)
        if function is not None:
            self._guarded(function, *arguments)

    def _guarded(self, function: Any, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise callable_failed(self.spec, function, "no message", error) from error

"""A test driver: a whole application, planned and run in memory in milliseconds, by the same task code that Spark runs.

>>> from airflow_samza import count, stream_application
>>> @stream_application("page-views")
... def page_views(app):
...     views = app.input_stream("page-views", schema="member_id bigint, country string, dwell_ms int")
...     (views.where("dwell_ms > 1000")
...           .partition_by("country", id="by-country")
...           .aggregate("country", views=count(), id="per-country")
...           .send_to(app.output_stream("views-per-country")))
>>> driver = TestDriver(page_views).pipe("page-views", [
...     {"member_id": 1, "country": "NL", "dwell_ms": 1500},
...     {"member_id": 2, "country": "NL", "dwell_ms": 20},
...     {"member_id": 3, "country": "NL", "dwell_ms": 2000},
... ])
>>> driver.run().output("views-per-country")
[Row(country='NL', views=2)]
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.application.loader import load_application
from airflow_samza.application.windows import duration_ms
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.errors import InvalidApplication, SamzaError, SchemaError, UnknownName
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.planner.plan import ExecutionPlan, Stage
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.topic_contents import TopicContent
from airflow_samza.schema import Row, Schema
from airflow_samza.systems.memory import MemorySystem
from airflow_samza.systems.system import ControlEnvelope, Envelope, Publication, StreamSpec, SystemStreamPartition
from airflow_samza.task.conform import Conformer
from airflow_samza.task.messages import MessageReader, MessageWriter, ShapeError
from airflow_samza.task.not_yet import refuse_not_yet
from airflow_samza.task.pruning.topics import reduce_topics
from airflow_samza.task.report import TaskReport
from airflow_samza.task.run_loop import TaskInput, run_task
from airflow_samza.task.stage_program import check_application, compile_stage
from airflow_samza.task.table_store import TableStore

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


class TestDriver:
    """Runs an application in this process: planned by the real planner, every stage in turn, every task after the other.

    ``config`` adds Samza keys; ``partitions`` is the count of every input whose count the application does not declare, one number or a
    mapping by stream id. Messages are piped in, :meth:`run` processes all of them as one bounded run, and what came out is read with
    :meth:`output`. What only Spark can run, and what cannot run yet, is refused with a sentence. Whole messages go through intermediate
    streams, so that they can be looked at; ``reduced`` sends only what is read, as stages on Spark do.
    """

    __test__ = False  # for pytest: a tool, not a test

    def __init__(
        self,
        application: str | StreamApplication | type[StreamApplication],
        *,
        config: Mapping[str, str] | None = None,
        partitions: int | Mapping[str, int] = 1,
        reduced: bool = False,
    ) -> None:
        self.spec: ApplicationSpec = load_application(application).spec(config)
        self._config = dict(config or {})
        self._partitions = partitions
        self._reduces = reduced
        self._contents: dict[str, TopicContent] = {}
        self._piped: dict[str, list[tuple[int | None, pa.RecordBatch]]] = {}
        self._schemas: dict[str, Schema] = {}
        self._now_ms = int(_EPOCH.timestamp() * 1000)
        self._plan: ExecutionPlan | None = None
        self._system = MemorySystem()
        self._reports: dict[str, list[TaskReport]] = {}
        self._stores: dict[str, list[TableStore]] = {}
        self._known: dict[str, Schema] = {}

    # -- what goes in --------------------------------------------------------------------------------------------------

    def pipe(self, stream: str, messages: Iterable[Any] | pa.Table | pa.RecordBatch, *, partition: int | None = None) -> TestDriver:
        """Adds messages to an input or side input: dataclass instances, dicts, Rows or Arrow data.

        They go to ``partition``, or each to the partition of its key, or in turn to all where the stream has no key.
        """
        inputs = {**self.spec.inputs, **self.spec.side_inputs}
        if stream not in inputs:
            raise UnknownName(
                f"Application {self.spec.name!r} has no input {stream!r}.",
                hint=f"Its inputs are {', '.join(sorted(inputs)) or 'none'}.",
                name=stream,
            )
        batch = self._batch(inputs[stream], messages)
        if partition is not None and not 0 <= partition < self._count(inputs[stream]):
            raise InvalidApplication(
                f"Messages for {stream!r} are piped to partition {partition}; it has {self._count(inputs[stream])}.",
                hint="Partitions count from 0; say partitions= for the driver.",
                stream=stream,
                partition=partition,
            )
        if batch is not None:
            self._piped.setdefault(stream, []).append((partition, batch))
        return self

    def table(self, table: str, rows: Iterable[Any] | pa.Table | pa.RecordBatch) -> TestDriver:
        """Fills a pushed table, by piping the rows into its side input."""
        descriptor = self.spec.table(table)
        if len(descriptor.side_inputs) != 1:
            raise InvalidApplication(
                f"Table {table!r} is fed by {len(descriptor.side_inputs)} side inputs, so rows cannot be put into it directly.",
                hint="A local table is written by the application; pipe into the side inputs of others.",
                table=table,
            )
        return self.pipe(descriptor.side_inputs[0], rows)

    def _batch(self, stream: StreamDescriptor, messages: Any) -> pa.RecordBatch | None:
        import pyarrow as pa

        if isinstance(messages, pa.RecordBatch):
            messages = pa.Table.from_batches([messages])
        if isinstance(messages, pa.Table):
            schema = stream.schema or self._schemas.setdefault(stream.stream_id, Schema.of(messages.schema))
            batches = messages.combine_chunks().to_batches()
            return Conformer(schema, f"what is piped into {stream.stream_id!r}").conform(batches[0]) if batches else None
        if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable) or dataclasses.is_dataclass(messages):
            raise InvalidApplication(
                f"pipe got {messages!r:.100} for {stream.stream_id!r}, which is no list of messages.",
                hint="Give a list of dataclass instances, dicts or Rows, or a pyarrow.Table.",
                stream=stream.stream_id,
            )
        rows = list(messages)
        if not rows:
            return None
        known = stream.schema or self._schemas.get(stream.stream_id)
        schema = known or self._schemas.setdefault(stream.stream_id, _inferred(rows, stream.stream_id))
        try:
            return MessageWriter(schema).write(rows)
        except ShapeError as error:
            raise SchemaError(
                f"Message {error.index} piped into {stream.stream_id!r} is {rows[error.index]!r:.200}: {error.why}.",
                hint=f"The columns are {schema.ddl()}.",
                stream=stream.stream_id,
            ) from None

    # -- the clock -----------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> datetime.datetime:
        """The time that tasks see (``context.now_ms()``), in UTC; it stands still until it is set or advanced."""
        return datetime.datetime.fromtimestamp(self._now_ms / 1000, datetime.timezone.utc)

    @clock.setter
    def clock(self, now: datetime.datetime) -> None:
        if now.tzinfo is None:
            now = now.replace(tzinfo=datetime.timezone.utc)
        self._now_ms = round(now.timestamp() * 1000)

    def advance(self, duration: str | int) -> TestDriver:
        """Moves the clock on, by text (``"5 minutes"``) or ms."""
        self._now_ms += duration_ms(duration)
        return self

    # -- running -------------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> ExecutionPlan:
        """The plan; made when first asked for."""
        if self._plan is None:
            streams = {**self.spec.side_inputs, **self.spec.inputs}
            metadata = {stream_id: self._count(stream) for stream_id, stream in streams.items()}
            self._plan = ExecutionPlanner(self._config, metadata).plan(self.spec)
        return self._plan

    def _count(self, stream: StreamDescriptor) -> int:
        if stream.broadcast:
            return 1
        if stream.partitions is not None:
            return stream.partitions
        return self._partitions if isinstance(self._partitions, int) else self._partitions.get(stream.stream_id, 1)

    def run(self) -> TestDriver:
        """Runs the application over all that was piped in so far, from the beginning to the end."""
        plan = self.plan
        refuse_not_yet(self.spec, plan)
        self._known = {**self._schemas, **self._empty_schemas()}
        compiled = check_application(self.spec, plan, self._known)
        self._contents = reduce_topics(self.spec, plan, compiled) if self._reduces else {}
        self._system = MemorySystem()
        self._reports, self._stores = {}, {}
        for stream in {**self.spec.side_inputs, **self.spec.inputs}.values():
            self._publish_input(stream)
        for stage in plan.stages:
            self._run_stage(stage)
        return self

    def _empty_schemas(self) -> dict[str, Schema]:
        for stream in self.spec.inputs.values():
            if stream.schema is None and stream.stream_id not in self._schemas:
                raise SchemaError(
                    f"Nothing is piped into {stream.stream_id!r}, and its columns are not declared.",
                    hint="Declare schema= of the input, or pipe messages in.",
                    stream=stream.stream_id,
                )
        return {}

    def _publish_input(self, stream: StreamDescriptor) -> None:
        import pyarrow as pa

        count = self._count(stream)
        schema = stream.schema or self._schemas.get(stream.stream_id)
        if schema is None:  # a side input that nobody filled and nobody described: its table is empty
            return
        spec = StreamSpec(stream.stream_id, count, schema.ddl(), stream.key)
        self._system.create(spec.name, count, spec.schema)
        producer = self._system.producer(spec, f"piped-{stream.stream_id}")
        turn = 0
        for partition, batch in self._piped.get(stream.stream_id, ()):
            if partition is not None or count == 1:
                producer.write(partition or 0, batch)
                continue
            if not stream.key:  # in turn, as files come
                for place in range(count):
                    chosen = [row for row in range(batch.num_rows) if (row + turn) % count == place]
                    producer.write(place, batch.take(pa.array(chosen, pa.int64())))
                turn += batch.num_rows
                continue
            for place, part in split_by_partition(batch, partition_array(batch, stream.key, count), count):
                producer.write(place, part)
        self._system.publish(spec, Publication("piped", "1.1", 0, {0: producer.finish()}))

    def _run_stage(self, stage: Stage) -> None:
        program = compile_stage(self.spec, self.plan, stage.stage_id, self._known, self._contents)
        specs = {}
        for stream_id in stage.outputs:
            planned = self.plan.stream(stream_id)
            specs[stream_id] = StreamSpec(stream_id, planned.partitions, None, self.spec.stream(stream_id).key)
            schema = program.streams.get(stream_id)
            self._system.create(stream_id, max(planned.partitions, 1), schema.ddl() if schema is not None else None)
        staged: dict[str, dict[int, Any]] = {stream_id: {} for stream_id in stage.outputs}
        ends: dict[str, list[EndOfStreamMessage]] = {stream_id: [] for stream_id in stage.outputs}
        for task in range(stage.task_count):
            producers = {s: self._system.producer(spec, f"{stage.stage_id}-{task}") for s, spec in specs.items()}
            tables: dict[str, TableStore] = {}
            try:
                report = run_task(
                    program,
                    task,
                    [source for stream in stage.inputs for source in self._inputs(stream, task, program.reads.get(stream))],
                    producers,
                    side_inputs=[source for stream in stage.side_inputs for source in self._inputs(stream, task)],
                    tables=tables,
                    clock=lambda: self._now_ms,
                )
            except SamzaError:
                for producer in producers.values():
                    producer.abort()
                raise
            self._reports.setdefault(stage.stage_id, []).append(report)
            for table_id, store in tables.items():
                self._stores.setdefault(table_id, []).append(store)
            for stream_id, producer in producers.items():
                staged[stream_id][task] = producer.finish()
                end = report.outputs[stream_id].end_of_stream
                if end is not None and stream_id in self.spec.intermediates:  # only they carry control messages (C1)
                    ends[stream_id].append(end)
        for stream_id, spec in specs.items():
            publication = Publication(f"test/{stage.stage_id}", "1.1", 0, staged[stream_id], tuple(ends[stream_id]))
            self._system.publish(spec, publication)

    def _inputs(self, stream_id: str, task: int, columns: Sequence[str] | None = None) -> list[TaskInput]:
        if self._system.find(stream_id) is None:
            return []
        planned = self.plan.stream(stream_id)
        partitions = range(max(planned.partitions, 1)) if planned.broadcast else [task] if task < planned.partitions else []
        return [TaskInput(stream_id, partition, self._envelopes(stream_id, partition, columns)) for partition in partitions]

    def _envelopes(self, stream_id: str, partition: int, columns: Sequence[str] | None) -> Iterable[Envelope]:
        consumer = self._system.consumer(StreamSpec(stream_id))
        bounded = stream_id in self.spec.intermediates or self.spec.stream(stream_id).bounded
        for envelope in consumer.read(SystemStreamPartition("memory", stream_id, partition), None, columns):
            if isinstance(envelope, ControlEnvelope) and not bounded and isinstance(envelope.message, EndOfStreamMessage):
                slice_end = dataclasses.replace(envelope.message, final=False)  # SEMANTICS C9
                envelope = dataclasses.replace(envelope, message=slice_end)
            yield envelope

    # -- what comes out ------------------------------------------------------------------------------------------------

    def output(self, stream: str, *, partition: int | None = None) -> list[Any]:
        """The messages of an output or intermediate stream, partition by partition: dataclass instances or Rows."""
        table = self.output_table(stream, partition=partition)
        schema = Schema.of(table.schema)
        declared = self._declared(stream)
        reader = MessageReader(declared if declared is not None and declared.fields == schema.fields else schema)
        return [message for batch in table.to_batches() for message in reader.read(batch)]

    def output_table(self, stream: str, *, partition: int | None = None) -> pa.Table:
        """The same as an Arrow table."""
        import pyarrow as pa

        written = {**self.spec.outputs, **self.spec.intermediates}
        if stream not in written:
            raise UnknownName(
                f"Application {self.spec.name!r} has no output {stream!r}.",
                hint=f"It writes {', '.join(sorted(written)) or 'nothing'}.",
                name=stream,
            )
        topic = self._system.find(stream)
        if topic is None:
            raise InvalidApplication(f"Output {stream!r} is asked for before the application ran.", hint="Call run() first.", stream=stream)
        partitions = range(topic.partitions) if partition is None else [partition]
        consumer = self._system.consumer(StreamSpec(stream))
        envelopes = (e for p in partitions for e in consumer.read(SystemStreamPartition("memory", stream, p)))
        batches = [envelope.batch for envelope in envelopes if not isinstance(envelope, ControlEnvelope)]
        declared = self._declared(stream)
        schema = declared.to_arrow() if declared is not None else topic.schema if topic.schema is not None else pa.schema([])
        return pa.Table.from_batches([pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches], schema=schema)

    def _declared(self, stream: str) -> Schema | None:
        resolved = check_application(self.spec, self.plan, self._known)
        descriptor = self.spec.stream(stream)
        if descriptor.schema is not None:
            return descriptor.schema
        for compiled in resolved.values():
            written = getattr(compiled.spec, "stream", None)
            if compiled.inputs and written is not None and written.stream_id == stream:
                return compiled.inputs[0]
        return None

    def table_rows(self, table: str) -> list[Any]:
        """The rows of a table as the last run left it, task by task."""
        self.spec.table(table)
        return [row for store in self._stores.get(table, ()) for row in MessageReader(store.schema).read(store.rows)]

    def reports(self, stage: str | None = None) -> Sequence[TaskReport]:
        """What each task of a stage (or of all) did in the last run."""
        if stage is not None:
            self.plan.stage(stage)
            return tuple(self._reports.get(stage, ()))
        return tuple(report for reports in self._reports.values() for report in reports)


def _inferred(rows: Sequence[Any], stream: str) -> Schema:
    import pyarrow as pa

    first = rows[0]
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        return Schema.of(type(first))
    if not isinstance(first, Mapping | Row):
        raise SchemaError(
            f"The messages piped into {stream!r} are of type {type(first).__name__}.",
            hint="Give dataclass instances, dicts or Rows, or a pyarrow.Table.",
            stream=stream,
        )
    try:
        return Schema.of(pa.Table.from_pylist([dict(row) for row in rows]).schema)
    except (pa.ArrowException, TypeError, ValueError, SchemaError) as error:
        raise SchemaError(
            f"The columns of what is piped into {stream!r} cannot be told: {error}", hint="Declare schema= of the input.", stream=stream
        ) from None

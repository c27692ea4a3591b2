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

import datetime
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from airflow_samza.application.application import ApplicationSpec, StreamApplication
from airflow_samza.application.descriptors import StreamDescriptor, TableDescriptor
from airflow_samza.application.loader import load_application
from airflow_samza.application.rejections import checked_calls, did_you_mean, listed
from airflow_samza.application.times import duration_ms
from airflow_samza.errors import InvalidApplication, SchemaError, StageError, UnknownName
from airflow_samza.partitioner import partition_array, split_by_partition
from airflow_samza.planner.plan import ExecutionPlan
from airflow_samza.planner.planner import ExecutionPlanner
from airflow_samza.runs.records.data_interval import micros_of
from airflow_samza.runs.records.run_plan import TopicContent
from airflow_samza.runs.tables.pins import as_of_joins
from airflow_samza.schema import Schema
from airflow_samza.systems.memory.system import MemorySegmentWriter, MemorySystem, WireForm
from airflow_samza.systems.system import ControlEnvelope, Publication, StreamSpec, SystemStreamPartition, is_unreadable
from airflow_samza.task.messages.change_events import ChangeReader
from airflow_samza.task.messages.messages import MessageReader
from airflow_samza.task.program.pruning.topics import reduce_topics
from airflow_samza.task.program.stage_program import check_application, compile_stage
from airflow_samza.task.report import TaskReport
from airflow_samza.testing.piped_messages import is_raw, piped_batches
from airflow_samza.testing.stage_epochs import StageEpochs, TableVersionHere

_EPOCH = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


@checked_calls
class TestDriver:
    """A driver for tests: plans an application, and runs it in this process, without Spark.

    Pipe messages in, run, and compare the output. :meth:`run` is one run over all that was piped in; :meth:`catch_up`
    is one scheduled run; :meth:`step` runs continuously, until :meth:`drain` or :meth:`stop`. What only Spark can run
    (``transform``, ``from_dataframe``, some SQL functions) is rejected.

    >>> from airflow_samza import stream_application
    >>> @stream_application("page-views")
    ... def page_views(app):
    ...     views = app.input_stream("page-views", schema="member_id bigint, dwell_ms int")
    ...     views.where("dwell_ms > 1000").send_to(app.output_stream("long-views"))
    >>> driver = TestDriver(page_views)
    >>> driver = driver.pipe("page-views", [{"member_id": 1, "dwell_ms": 1500}, {"member_id": 2, "dwell_ms": 20}])
    >>> driver.run().output("long-views")
    [Row(member_id=1, dwell_ms=1500)]

    :param application: The application, its class, or its name ``"package.module:attribute"``.
    :param config: Configuration keys, over those of the application.
    :param partitions: The partition count of inputs that declare none: a number, or a mapping by stream id (others have
        1).
    :param reduced: If true, only the columns that are read go through intermediate streams, as on Spark; if false,
        whole messages do, so that :meth:`output` shows them.
    :param intermediate_serde: A serde by which messages of intermediate streams are turned into bytes, for
        :meth:`output_bytes`.
    """

    __test__ = False  # for pytest: a tool, not a test

    def __init__(
        self,
        application: str | StreamApplication | type[StreamApplication],
        *,
        config: Mapping[str, str] | None = None,
        partitions: int | Mapping[str, int] = 1,
        reduced: bool = False,
        intermediate_serde: str | None = None,
    ) -> None:
        self.spec: ApplicationSpec = load_application(application).spec(config)
        self._config = dict(config or {})
        self._partitions = partitions
        self._reduces = reduced
        self._intermediate_serde = intermediate_serde
        self._contents: dict[str, TopicContent] = {}
        self._piped: dict[str, list[tuple[int | None, pa.RecordBatch]]] = {}
        self._versions: dict[str, list[TableVersionHere]] = {}
        self._schemas: dict[str, Schema] = {}
        self._now_ms = int(_EPOCH.timestamp() * 1000)
        self._plan: ExecutionPlan | None = None
        self._system = MemorySystem()
        self._published: dict[str, int] = {}
        self._turns: dict[str, int] = {}
        self._stages: list[StageEpochs] = []
        self._running = False
        self._runs = 0
        self._all_schemas: dict[str, Schema] = {}

    # -- what goes in --------------------------------------------------------------------------------------------------

    def pipe(
        self, stream: str, messages: Iterable[Any] | pa.Table | pa.RecordBatch, *, partition: int | None = None
    ) -> TestDriver:
        """Add messages to an input or a side input, and return the driver.

        :param stream: The stream's id.
        :param messages: Dataclass instances, dicts, Rows, or Arrow data. An input with ``on_error=`` also takes
            anything else, as a message that cannot be read. A stream with a serde takes ``bytes`` as they are.
        :param partition: The partition. By default that of each message's key; without a key messages go to all
            partitions in turn, ``bytes`` to partition 0.
        """
        inputs = {**self.spec.inputs, **self.spec.side_inputs}
        if stream not in inputs:
            raise UnknownName(
                f"Application {self.spec.name!r} has no input {stream!r}.",
                hint=f"{did_you_mean(stream, inputs)}Its inputs are {listed(sorted(inputs))}.",
                name=stream,
            )
        batches = piped_batches(inputs[stream], messages, self._schemas)
        if partition is not None and not 0 <= partition < self._count(inputs[stream]):
            raise InvalidApplication(
                f"Messages for {stream!r} are piped to partition {partition}; it has {self._count(inputs[stream])}.",
                hint="Partitions count from 0; say partitions= for the driver.",
                stream=stream,
                partition=partition,
            )
        self._piped.setdefault(stream, []).extend((partition, batch) for batch in batches)
        return self

    def table(
        self,
        table: str,
        rows: Iterable[Any] | pa.Table | pa.RecordBatch,
        *,
        valid_from: datetime.datetime | None = None,
    ) -> TestDriver:
        """Fill a pushed table, and return the driver.

        :param table: The table's id.
        :param rows: The rows, as for :meth:`pipe`.
        :param valid_from: The time from which on a version is valid that has these rows and no others, for joins as of
            event times. By default the rows are valid at any time.
        """
        descriptor = self.spec.table(table)
        if len(descriptor.side_inputs) != 1:
            raise InvalidApplication(
                f"Table {table!r} is fed by {len(descriptor.side_inputs)} side inputs, so "
                "rows cannot be put into it directly.",
                hint="A local table is written by the application; pipe into the side inputs of others.",
                table=table,
            )
        stream_id = descriptor.side_inputs[0]
        if valid_from is None and stream_id not in self._versions:
            return self.pipe(stream_id, rows)
        return self._add_version(descriptor, stream_id, rows, valid_from)

    def _add_version(
        self,
        table: TableDescriptor,
        stream_id: str,
        rows: Iterable[Any] | pa.Table | pa.RecordBatch,
        valid_from: datetime.datetime | None,
    ) -> TestDriver:
        if valid_from is None or stream_id in self._piped:
            raise InvalidApplication(
                f"Table {table.table_id!r} has rows with valid_from and rows without.",
                hint="Give valid_from of all of its versions, or of none.",
                table=table.table_id,
            )
        if not table.is_pushed or all(join.table.table_id != table.table_id for join in as_of_joins(self.spec)):
            raise InvalidApplication(
                f"Table {table.table_id!r} has rows with valid_from, and no join looks versions of a pushed table up "
                "in it.",
                hint='Leave valid_from out, or join the pushed table with as_of="event time".',
                table=table.table_id,
            )
        stream = self.spec.side_inputs[stream_id]
        batches = list(piped_batches(stream, rows, self._schemas))
        moment = valid_from if valid_from.tzinfo is not None else valid_from.replace(tzinfo=datetime.timezone.utc)
        self._versions.setdefault(stream_id, []).append(TableVersionHere(micros_of(moment), batches))
        return self

    # -- the clock -----------------------------------------------------------------------------------------------------

    @property
    def clock(self) -> datetime.datetime:
        """Return the time that tasks see, in UTC; it stands still until it is set or advanced."""
        return datetime.datetime.fromtimestamp(self._now_ms / 1000, datetime.timezone.utc)

    @clock.setter
    def clock(self, now: datetime.datetime) -> None:
        if now.tzinfo is None:
            now = now.replace(tzinfo=datetime.timezone.utc)
        self._now_ms = round(now.timestamp() * 1000)

    def advance(self, duration: str | int) -> TestDriver:
        """Move the clock on, and return the driver.

        :param duration: The length of time: ms, or a text such as ``"5 minutes"``.
        """
        self._now_ms += duration_ms(duration)
        return self

    # -- running -------------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> ExecutionPlan:
        """Return the plan, which is made on first use."""
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

    def run(
        self, *, mode: str = "staged", epoch_messages: int | None = None, shuffle: random.Random | None = None
    ) -> TestDriver:
        """Run the application over all that was piped in so far, and return the driver.

        An unbounded input ends as an input range does: nothing is flushed (rule C9).

        :param mode: ``"staged"``: one stage after the other, in one epoch; ``"pipelined"``: all stages at the same
            time, in several epochs.
        :param epoch_messages: The greatest number of messages that a task reads in an epoch.
        :param shuffle: A random generator that draws the order of the stages in each round.
        """
        if mode not in ("staged", "pipelined"):
            raise InvalidApplication(
                f"mode={mode!r} is not a mode of the test driver.",
                hint='It runs "staged" or "pipelined"; step(), drain() and stop() run an application continuously.',
                value=mode,
            )
        return self._end(self._ends_of_slices, epoch_messages, shuffle, new=True, staged=mode == "staged")

    def step(self, *, epoch_messages: int | None = None, shuffle: random.Random | None = None) -> TestDriver:
        """Run the application continuously over what was piped in since the last step, and return the driver.

        Unbounded inputs stay open. Windows and timers that are due, by the watermark or by the clock, give their
        results.

        :param epoch_messages: The greatest number of messages that a task reads in an epoch.
        :param shuffle: A random generator that draws the order of the stages in each round.
        """
        self._open()
        self._work(self._stages, lambda stream: self._ends_of_slices(stream) or None, epoch_messages, shuffle)
        return self

    def drain(self, *, epoch_messages: int | None = None, shuffle: random.Random | None = None) -> TestDriver:
        """End a continuous run for good, and return the driver.

        What was piped in is processed, all inputs end, windows and joins are flushed.

        :param epoch_messages: The greatest number of messages that a task reads in an epoch.
        :param shuffle: A random generator that draws the order of the stages in each round.
        """
        return self._end(lambda stream: True, epoch_messages, shuffle)

    def stop(self, *, epoch_messages: int | None = None, shuffle: random.Random | None = None) -> TestDriver:
        """End a continuous run for now, and return the driver.

        What was piped in is processed, nothing is flushed, and the next :meth:`step` continues from the state.

        :param epoch_messages: The greatest number of messages that a task reads in an epoch.
        :param shuffle: A random generator that draws the order of the stages in each round.
        """
        return self._end(self._ends_of_slices, epoch_messages, shuffle)

    def catch_up(self, *, epoch_messages: int | None = None, shuffle: random.Random | None = None) -> TestDriver:
        """Do one scheduled run over unbounded inputs, and return the driver.

        It reads from the end of the former run to the latest offset, and keeps its state for the next one.

        :param epoch_messages: The greatest number of messages that a task reads in an epoch.
        :param shuffle: A random generator that draws the order of the stages in each round.
        """
        return self.stop(epoch_messages=epoch_messages, shuffle=shuffle)

    def _end(
        self,
        ends: Callable[[str], bool | None],
        epoch_messages: int | None,
        shuffle: random.Random | None,
        *,
        new: bool = False,
        staged: bool = False,
    ) -> TestDriver:
        self._open(new=new)
        for stages in [[stage] for stage in self._stages] if staged else [self._stages]:
            self._work(stages, ends, epoch_messages, shuffle, alone=staged)
        left = [stage.stage.stage_id for stage in self._stages if not stage.ended]
        if left:
            raise StageError(
                f"The stage {left[0]!r} does not end: it has nothing more to read, and waits.",
                hint="Look at its chooser: does it wait for a stream to reach its head?",
                stage=left[0],
            )
        self._running = False
        return self

    def _ends_of_slices(self, stream: str) -> bool:
        return self.plan.stream(stream).bounded

    def _open(self, *, new: bool = False) -> None:
        """Begin a run, unless one is going on; ``new``: from the beginning, with nothing kept."""
        if new or not self._stages:
            plan = self.plan
            self._reject_unknown_columns()
            self._all_schemas = dict(self._schemas)
            compiled = check_application(self.spec, plan, self._all_schemas)
            self._contents = reduce_topics(self.spec, plan, compiled) if self._reduces else {}
            self._system = MemorySystem()
            self._published, self._turns, self._stages, self._runs = {}, {}, [], 0
        self._publish_inputs()
        if self._running and not new:
            return
        starts = {stage.stage.stage_id: stage.starts() for stage in self._stages}
        self._stages = [
            StageEpochs(
                compile_stage(self.spec, self.plan, stage.stage_id, self._all_schemas, self._contents),
                self._system,
                lambda: self._now_ms,
                self._runs,
                starts.get(stage.stage_id),
                self._intermediate_serde,
                self._versions,
            )
            for stage in self.plan.stages
        ]
        self._running = True
        self._runs += 1

    def _work(
        self,
        stages: Sequence[StageEpochs],
        ends: Callable[[str], bool | None],
        epoch_messages: int | None,
        shuffle: random.Random | None,
        *,
        alone: bool = False,
    ) -> None:
        """Run epochs of stages until none has anything to do."""
        moved = True
        while moved:
            turn = list(stages)
            if shuffle is not None:
                shuffle.shuffle(turn)
            moved = True in [stage.run(ends, epoch_messages, alone=alone) for stage in turn if not stage.ended]

    def _reject_unknown_columns(self) -> None:
        for stream in self.spec.inputs.values():
            if stream.schema is None and stream.stream_id not in self._schemas:
                raise SchemaError(
                    f"Nothing is piped into {stream.stream_id!r}, and its columns are not declared.",
                    hint="Declare schema= of the input, or pipe messages in.",
                    stream=stream.stream_id,
                )

    def _publish_inputs(self) -> None:
        """Make visible what was piped in since the last call."""
        for stream in {**self.spec.side_inputs, **self.spec.inputs}.values():
            schema = stream.read_schema or self._schemas.get(stream.stream_id)
            if schema is None:  # a side input that nobody filled and nobody described: its table is empty
                continue
            count = self._count(stream)
            spec = StreamSpec(stream.stream_id, count, schema.ddl(), stream.key)
            self._system.make(spec.name, count, spec.schema, form=WireForm.of(stream))
            piped = self._piped.get(stream.stream_id, [])
            former = self._published.get(stream.stream_id, 0)
            if former == len(piped):
                continue
            producer = self._system.producer(spec, f"piped-{stream.stream_id}")
            for partition, batch in piped[former:]:
                self._publish_batch(stream, count, producer, partition, batch)
            self._system.publish(spec, Publication("piped", "1.1", former, {0: producer.finish()}))
            self._published[stream.stream_id] = len(piped)

    def _publish_batch(
        self,
        stream: StreamDescriptor,
        count: int,
        producer: MemorySegmentWriter,
        partition: int | None,
        batch: pa.RecordBatch,
    ) -> None:
        if is_unreadable(batch) or is_raw(batch):
            producer.write_as_it_is(partition or 0, batch)
            return
        if partition is not None or count == 1:
            producer.write(partition or 0, batch)
            return
        if stream.key:
            # Events lie by the key of the rows that are inside of them.
            keyed = batch if stream.events is None else ChangeReader(stream, "what is piped").changed(batch).rows
            places = partition_array(keyed, stream.key, count)
        else:  # in turn, as files come
            turn = self._turns.get(stream.stream_id, 0)
            places = pa.array(range(turn, turn + batch.num_rows), pa.int64()).to_numpy() % count
            self._turns[stream.stream_id] = turn + batch.num_rows
        for place, part in split_by_partition(batch, places, count):
            producer.write(place, part)

    # -- what comes out ------------------------------------------------------------------------------------------------

    def output(self, stream: str, *, partition: int | None = None) -> list[Any]:
        """Return the messages of an output or intermediate stream, in the order of partitions.

        They are instances of the stream's dataclass, otherwise Rows.

        :param stream: The stream's id.
        :param partition: Only this partition.
        """
        table = self.output_table(stream, partition=partition)
        schema = Schema.of(table.schema)
        declared = self._declared(stream)
        reader = MessageReader(declared if declared is not None and declared.fields == schema.fields else schema)
        return [message for batch in table.to_batches() for message in reader.read(batch)]

    def output_bytes(self, stream: str) -> list[bytes]:
        """Return the bytes of a stream with a serde, in the order of partitions, control messages included.

        :param stream: The stream's id.
        """
        sent = self._system.sent_bytes(self._topic_written(stream))
        if sent is None:
            raise InvalidApplication(
                f"The stream {stream!r} has no serde, and no bytes.",
                hint="Declare serde= of it, or look at its messages with output().",
                stream=stream,
            )
        return sent

    def output_table(self, stream: str, *, partition: int | None = None) -> pa.Table:
        """Return the messages of a stream as an Arrow table.

        :param stream: The stream's id.
        :param partition: Only this partition.
        """
        topic = self._topic_written(stream)
        consumer = self._system.consumer(StreamSpec(topic))
        partitions = range(consumer.topic.partitions) if partition is None else [partition]
        envelopes = (e for p in partitions for e in consumer.read(SystemStreamPartition("memory", topic, p)))
        batches = [envelope.batch for envelope in envelopes if not isinstance(envelope, ControlEnvelope)]
        declared = self._declared(stream)
        schema = (
            declared.to_arrow()
            if declared is not None
            else consumer.schema
            if consumer.schema is not None
            else pa.schema([])
        )
        if batches and batches[0].num_columns < len(schema):  # reduced ones
            schema = pa.schema([schema.field(name) for name in batches[0].schema.names])
        return pa.Table.from_batches(
            [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in batches], schema=schema
        )

    def _topic_written(self, stream: str) -> str:
        written = {**self.spec.outputs, **self.spec.intermediates}
        if stream not in written:
            raise UnknownName(
                f"Application {self.spec.name!r} has no output {stream!r}.",
                hint=f"{did_you_mean(stream, written)}It writes {', '.join(sorted(written)) or 'nothing'}.",
                name=stream,
            )
        name = next((stage.topic(stream) for stage in self._stages if stream in stage.stage.outputs), stream)
        if self._system.identity(StreamSpec(name)) is None:
            raise InvalidApplication(
                f"Output {stream!r} is asked for before the application ran.", hint="Call run() first.", stream=stream
            )
        return name

    def _declared(self, stream: str) -> Schema | None:
        writers = (stage for stage in self._stages if stream in stage.stage.outputs)
        return self.spec.stream(stream).schema or next(writers).program.streams.get(stream)

    def table_rows(self, table: str) -> list[Any]:
        """Return the rows of a table after the last run, in the order of tasks.

        :param table: The table's id.
        """
        self.spec.table(table)
        stores = [tables[table] for stage in self._stages for tables in stage.tables if table in tables]
        return [row for store in stores for row in MessageReader(store.schema).read(store.rows)]

    def reports(self, stage: str | None = None) -> Sequence[TaskReport]:
        """Return the report of each task for its last epoch: messages in and out, operators, metrics.

        :param stage: Only tasks of this stage.
        """
        if stage is not None:
            self.plan.stage(stage)
        return tuple(
            report for epochs in self._stages if stage in (None, epochs.stage.stage_id) for report in epochs.reports
        )

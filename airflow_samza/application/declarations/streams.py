"""Checks of the arguments of stream declarations: the one way to a StreamDescriptor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypedDict

from airflow_samza.application.columns import Columns, declared_columns, optional_columns
from airflow_samza.application.declarations.change_events import changed_schema
from airflow_samza.application.declarations.path_templates import TIMES, path_fields, wrong_in_path
from airflow_samza.application.declarations.serdes import checked_serde
from airflow_samza.application.descriptors import (
    CHANGE_TYPE,
    ChangeEvents,
    ErrorPolicy,
    Expectation,
    StreamDescriptor,
    StreamRole,
)
from airflow_samza.application.event_times import SystemTime, time_column
from airflow_samza.application.operator_checks import checked_doc, checked_id, former_id
from airflow_samza.application.rejections import did_you_mean, listed, reject, reject_unknown
from airflow_samza.application.source_location import SourceLocation
from airflow_samza.application.watermarks import WatermarkStrategy, bounded_delay, watermark_strategy
from airflow_samza.config import INPUTS_BOUNDED, MAX_PARTITIONS, Config
from airflow_samza.errors import ConfigError
from airflow_samza.schema import Schema
from airflow_samza.secrecy import gives_away

_WORDS = {StreamRole.INPUT: "input stream", StreamRole.OUTPUT: "output stream", StreamRole.SIDE_INPUT: "side input"}
_SLICES = ("timestamp", "checkpoint")

MOST_INTERVALS = 10_000
"""The most data intervals that a run reads: a plan lists the files of each."""


SECRETS_BELONG_ELSEWHERE = "Keep secrets in the connection that the environment binds to the system's name."


class StreamOptions(TypedDict, total=False):
    """Arguments of a stream that is read, beside id and schema."""

    system: str | None
    """The system in which the stream is. By default the application's default system."""
    key: Columns | None
    """The columns by which the stream is already partitioned. By default it is taken as not partitioned by a key."""
    partitioner: str | None
    """The rule from key to partition. By default that of the system: ``"kafka"`` for topics of Kafka, otherwise
    ``"samza"``.
    """
    partitions: int | None
    """The partition count, where the system does not know it (files)."""
    bounded: bool
    """If true, a run reads the stream to its end; if false, runs continue where the last one stopped. If it is left
    out, a run may say it: ``job.inputs.bounded``, or ``streams.<stream>.samza.bounded``. If no run does, it is true;
    with ``slice="checkpoint"``, and for a shared stream, false.
    """
    timestamp: str | SystemTime | None
    """The event-time column (``timestamp``, ``date``, or ``bigint`` in ms since 1970), or
    ``system_time("read_at")``: the time at which a task reads the message.
    """
    max_delay: str | int | timedelta | None
    """The greatest delay of messages, as a length of time: the watermark is the greatest event time so far minus
    this. Short for ``watermarks=bounded_delay(…)``.
    """
    watermarks: object
    """The strategy that makes watermarks: :func:`bounded_delay`, :func:`punctuated`, a function of an event time
    (ms), or a class with ``on_event_time(ms)`` or ``on_batch(earliest_ms, latest_ms)``.
    """
    path: str | None
    """The files to read, as a template over the data interval: ``"{data_interval_start:%Y/%m/%d/%H}/*.json"``.

    Times follow UTC, or the zone behind a ``|``: ``"{ds|Europe/Amsterdam}/*.json"``.
    """
    format: str | None
    """The format of the stream in its system (``"parquet"``, ``"json"``, ``"csv"``, …). By default that of the
    binding, or of the files.
    """
    table: str | None
    """The table to read, where the system has tables (kinds ``iceberg``, ``delta`` and ``spark``): ``"web.views"``.
    Short for the option ``table``.
    """
    serde: str | type | None
    """The decoder of messages that are bytes: ``"json"``, ``"string"``, ``"bytes"``, ``"avro:<schema file>"``, a
    number such as ``"long"``, ``"registry:avro"``, or a class of yours as ``"package.module:Class"``. Systems
    that keep columns reject it.
    """
    slice: str | None
    """The part that a run reads: ``"timestamp"`` (the messages of the data interval) or ``"checkpoint"`` (what
    arrived since the last run). By default all, or what ``path`` finds.
    """
    intervals: int | None
    """The number of data intervals that a run reads, the last of which is its own: ``90`` of a daily run is the last
    90 days. ``path`` names the files of each interval. By default 1.
    """
    changes: bool | ChangeEvents
    """If true, the messages are the rows of the table that were inserted, deleted and updated since the last run. They
    have ``_change_type``, ``_commit_version`` and ``_commit_timestamp`` as further columns. For kinds ``iceberg`` and
    ``delta``, with ``slice="checkpoint"``. Of any system, :func:`change_events` or :func:`debezium` says in which form
    its messages are changes of rows. Default: ``False``
    """
    broadcast: bool
    """If true, every task reads the whole stream. Default: ``False``"""
    bootstrap: bool
    """If true, tasks read the stream to its latest offset before any other input. Default: ``False``"""
    priority: int | None
    """The priority among the inputs of a task, a whole number; the highest is read first. By default 0, of a
    bootstrap stream 2147483647.
    """
    on_error: object
    """The treatment of messages that cannot be read, or do not fit the schema: ``"fail"`` (the stage fails),
    ``"drop"``, or ``dead_letter(app.output_stream("bad"))``. Default: ``"fail"``
    """
    expect: Sequence[Expectation | str] | None
    """The facts that must be true of each message that is read: a list of :func:`not_null` and conditions in SQL, such
    as ``"amount >= 0"``. By default a run that reads another message fails, and publishes nothing.
    """
    options: Mapping[str, object] | None
    """Options of the system for this stream, such as ``{"header": False}`` for CSV."""
    renamed_from: str | None
    """The former id of the stream: a run reads on from where runs had read it under that id."""
    doc: str | None
    """A description for people, which the page in Airflow shows."""


class PushedTableOptions(TypedDict, total=False):
    """Arguments of a pushed table, beside id, key and schema."""

    partitions: int | None
    """The partition count of the pushes, which must be that of the streams that are joined with the table. Needed
    before the first push; later pushes keep it.
    """
    system: str | None
    """The log that holds the pushes. By default the default system if it is a log, otherwise the log under the root."""
    partitioner: str
    """The rule from key to partition. Default: ``"samza"``"""
    processor: Callable[..., Any] | str | None
    """A factory ``(config, metrics) -> SideInputsProcessor``, or its name ``"package.module:factory"``. By default
    each pushed row is a row of the table.
    """
    renamed_from: str | None
    """The former id of the table, under which its rows are found."""
    doc: str | None
    """A description for people, which the page in Airflow shows."""
    from_table: str | None
    """The table of Iceberg or Delta that it is, in the system ``system``: nothing is pushed, and a version is a
    snapshot.
    """
    options: Mapping[str, object] | None
    """Options of ``from_table``, such as ``{"ref": "monthly"}``."""
    expect: Sequence[object] | None
    """Facts that must hold of the rows of a push before anybody reads them. This is a list of :func:`not_null`,
    :func:`rows`, :func:`fresh`, and conditions in SQL such as ``"age >= 0"``. By default a push that does not meet one
    is rejected.
    """


def check_words(arguments: Mapping[str, object], where: str, options: type = StreamOptions) -> None:
    """Reject a parameter that does not exist, with the one that was meant."""
    words = [*options.__annotations__, "schema"]
    for word in arguments:
        if word not in words:
            reject_unknown(word, words, where)


def bounded_by_run(id: str, more: StreamOptions, config: Config, *, shared: bool = False) -> None:
    """Set ``bounded`` and ``slice`` of an input as the run's configuration says, where its declaration leaves it open.

    An unbounded input is read by what arrived since the last run, a bounded one to its end, or over the data interval.
    """
    asked, is_own_key = config.bounded(id), id in config.bounded_streams()
    if asked is None:
        return
    fixed = _why_fixed(more)
    if fixed and is_own_key:
        raise ConfigError(
            f"streams.{id}.samza.bounded is {str(asked).lower()}, and the declaration of the input {id!r} says it "
            f"already: it has {fixed}.",
            hint=f"Remove the key, or leave {fixed.partition('=')[0]}= out of the declaration.",
            key=f"streams.{id}.samza.bounded",
            stream=id,
        )
    if not fixed:
        more["bounded"] = asked
        if asked and more.get("slice") == "checkpoint":
            more["slice"] = None
        elif not asked and not shared:
            more["slice"] = "checkpoint"


def check_bounded(config: Config, application: str, inputs: Mapping[str, StreamDescriptor]) -> None:
    """Reject keys about boundedness that no input of an application follows."""
    unknown = next((stream_id for stream_id in config.bounded_streams() if stream_id not in inputs), None)
    if unknown is not None:
        raise ConfigError(
            f"streams.{unknown}.samza.bounded is set, and the application {application!r} has no input {unknown!r}.",
            hint=f"{did_you_mean(unknown, inputs)}Its inputs are {listed(sorted(inputs))}.",
            key=f"streams.{unknown}.samza.bounded",
            stream=unknown,
        )
    if inputs and config.inputs_bounded is False and all(stream.bounded for stream in inputs.values()):
        fixed = next(iter(inputs.values()))
        raise ConfigError(
            f"{INPUTS_BOUNDED} is false, and every input of the application {application!r} has an end by its "
            f"declaration, such as {fixed.stream_id!r}.",
            hint="Leave bounded=True, intervals= and times in path= out of the declaration of an input that a run may "
            "follow, or remove the key.",
            key=INPUTS_BOUNDED,
            stream=fixed.stream_id,
        )


def _why_fixed(more: Mapping[str, Any]) -> str:
    """Return the argument of an input that says whether it is bounded, and "" where none does."""
    if more.get("bounded") is not None:
        return f"bounded={more['bounded']!r}"
    if more.get("intervals") is not None:
        return f"intervals={more['intervals']!r}"
    if more.get("changes") is True:
        return "changes=True"
    path = more.get("path")
    if isinstance(path, str) and wrong_in_path(path) is None and any(one.name in TIMES for one in path_fields(path)):
        return f"path={path!r}"
    return ""


def declared_stream(
    id: str,
    role: StreamRole,
    *,
    system: str | None = None,
    schema: object = None,
    key: Columns | None = None,
    partitioner: str | None = None,
    partitions: int | None = None,
    bounded: bool | None = None,
    timestamp: str | SystemTime | None = None,
    max_delay: str | int | timedelta | None = None,
    watermarks: object = None,
    path: str | None = None,
    format: str | None = None,
    table: str | None = None,
    serde: str | type | None = None,
    slice: str | None = None,
    intervals: int | None = None,
    changes: bool | ChangeEvents = False,
    broadcast: bool = False,
    bootstrap: bool = False,
    priority: int | None = None,
    shared: bool = False,
    reader: Callable[..., Any] | None = None,
    on_error: object = None,
    options: Mapping[str, object] | None = None,
    topic: str | None = None,
    renamed_from: str | None = None,
    doc: str | None = None,
    expect: Sequence[Expectation | str] | None = (),
    publish: str | None = None,
) -> StreamDescriptor:
    """Return the descriptor of a stream; contradictions are rejected here."""
    stream_id = checked_id(id, _WORDS[role])
    where = f"{_WORDS[role]} {stream_id!r}"
    shape = declared_columns(schema)
    events = changes if isinstance(changes, ChangeEvents) else None
    if events is not None:
        shape = changed_schema(events, shape, where, of_input=role is StreamRole.INPUT)
        changes = False
        if slice == "timestamp" and events.images is not None:
            reject(
                f'{where} has changes=debezium(…) and slice="timestamp", and its time is inside of the events',
                hint='Read what came since the last run (slice="checkpoint"), or leave slice= out.',
                stream=stream_id,
            )
    read = shape if events is None or shape is None else events.events(shape)
    columns = optional_columns(key, shape, where)
    time = None if timestamp is None else time_column(timestamp, shape, where)
    strategy = _strategy(max_delay, watermarks, time, where)
    _check_slice(slice, time, where)
    if bounded is None:
        bounded = slice != "checkpoint"  # what came since the last run is a part of an unbounded input
    elif bounded is True and slice == "checkpoint":
        reject(
            f'{where} is bounded and has slice="checkpoint"',
            hint="What came since the last run is no end: leave bounded= out, or leave slice= out and read all of it "
            "in every run.",
            stream=stream_id,
        )
    if path is not None:
        _check_path(path, where)
    if intervals is not None:
        _check_intervals(intervals, path, slice, where, is_input=role is StreamRole.INPUT and not shared)
    if changes is True:
        _check_changes(slice, shape, where)
    for name, text in (("format", format), ("partitioner", partitioner), ("table", table)):
        if text is not None and (not isinstance(text, str) or not text.strip()):
            reject(f"{where} has {name}={text!r}", hint=f"Write the {name}'s name as a text.", stream=stream_id)
    flags = {"bounded": bounded, "broadcast": broadcast, "bootstrap": bootstrap, "shared": shared, "changes": changes}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            more = ", change_events(…) or debezium(…)" if name == "changes" else ""
            reject(f"{where} has {name}={flag!r}", hint=f"Write True or False{more}.", stream=stream_id)
    if priority is not None and (isinstance(priority, bool) or not isinstance(priority, int)):
        reject(
            f"{where} has priority={priority!r}", hint="Write a whole number; higher is read first.", stream=stream_id
        )
    if broadcast and columns:
        reject(
            f"{where} is broadcast and has a key",
            hint="Every task reads all of a broadcast stream: leave key= out.",
            stream=stream_id,
        )
    return StreamDescriptor(
        stream_id=stream_id,
        role=role,
        system=None if system is None else checked_id(system, "system"),
        schema=shape,
        key=columns,
        partitioner=partitioner or "",
        partitions=checked_partitions(partitions, where),
        bounded=bounded,
        timestamp=time,
        watermarks=strategy,
        path=path,
        format=format,
        serde=checked_serde(serde, _inside(read, options), where, stream_id, read=role is not StreamRole.OUTPUT),
        slice_by=slice,
        intervals=intervals,
        changes=bool(changes),
        events=events,
        broadcast=broadcast,
        bootstrap=bootstrap,
        priority=priority,
        shared=shared,
        reader=reader,
        on_error=on_error if isinstance(on_error, ErrorPolicy) else None,
        options=options_of(options if table is None else options_with(options, "table", table, where)),
        topic=topic,
        renamed_from=former_id(renamed_from, stream_id, _WORDS[role]),
        doc=checked_doc(doc, where),
        expect=tuple(each for each in expect or () if isinstance(each, Expectation)),
        waits_for_approval=_waits_for_approval(publish, options, where),
        location=SourceLocation.of_caller(),
    )


AFTER_APPROVAL, AT_ONCE = "after approval", "at once"
"""The moments at which an output is published (``publish=``)."""


def _waits_for_approval(publish: object, options: Mapping[str, object] | None, where: str) -> bool:
    """Return whether an output waits for an approval before it is published."""
    if publish not in (None, AT_ONCE, AFTER_APPROVAL):
        reject(
            f"{where} has publish={publish!r}, which is not known",
            hint=f'Write publish="{AFTER_APPROVAL}", or leave it out: it is published when its stage has ended.',
        )
    if publish == AFTER_APPROVAL and "branch" in (options or {}):
        reject(
            f'{where} has branch= and publish="{AFTER_APPROVAL}", and both keep it back',
            hint="Leave one of them out: a branch can be read before it is published.",
        )
    return publish == AFTER_APPROVAL


def checked_partitions(partitions: object, where: str) -> int | None:
    """Return a partition count from 1 to 65,536, or None: the system knows."""
    if partitions is None:
        return None
    if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= MAX_PARTITIONS:
        reject(
            f"{where} has partitions={partitions!r}",
            hint=f"Write a whole number from 1 to {MAX_PARTITIONS:,}, or leave it out when the system knows the count.",
            value=repr(partitions),
        )
    return partitions


def options_of(options: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    """Options as pairs of texts, sorted, as descriptors hold them (True and False as Java writes them)."""
    if options is not None and not isinstance(options, Mapping):
        reject(f"options is {type(options).__name__}", hint='Give a dict: options={"mergeSchema": "true"}.')
    secret = next((str(name) for name, value in (options or {}).items() if gives_away(str(name), value)), None)
    if secret is not None:
        reject(
            f"The option {secret!r} looks like a secret, and options in code are written into plans",
            hint=SECRETS_BELONG_ELSEWHERE,
            option=secret,
        )
    return tuple(
        sorted(
            (str(name), str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in (options or {}).items()
        )
    )


def options_with_mode(options: Mapping[str, object] | None, mode: object, where: str) -> dict[str, str]:
    """Return the options of an output with its mode."""
    if not isinstance(mode, str) or not mode.strip():
        reject(f"{where} has mode={mode!r}", hint='Write the mode as a text: mode="append".')
    return options_with(options, "mode", mode, where)


def check_upsert(key: object, expected: Sequence[Expectation], *, shared: bool, where: str) -> None:
    """Reject an output that is upserted without a key, that others read as a stream, or that expects unique keys."""
    if key is None:
        reject(
            f'{where} has mode="upsert" and no key=, by which rows would be replaced',
            hint='Name the columns by which a row is known: key="member_id".',
        )
    if shared:
        reject(
            f'{where} has mode="upsert" and is shared, and a stream has no rows that could be replaced',
            hint="Leave one of them out: readers of a shared stream get the changes as messages.",
        )
    unique = next((one for one in expected if one.kind == "unique"), None)
    if unique is not None:
        reject(
            f'{where} has mode="upsert" and expects {unique.text}, and messages of one key are no error there: '
            "the last one counts",
            hint="Leave it out: the table has one row of each key.",
            expectation=unique.text,
        )


def options_with(options: Mapping[str, object] | None, name: str, value: object, where: str) -> dict[str, str]:
    """Return options with one that has a parameter of its own; the option and the parameter may not differ."""
    if not isinstance(value, str | bool) or value == "":
        reject(f"{where} has {name}={value!r}", hint="Write a text (True or False for create=).")
    pairs = dict(options_of(options))
    value = dict(options_of({name: value}))[name]
    if pairs.get(name, value) != value:
        reject(
            f"{where} has {name}={value!r}, and the option {name}={pairs[name]!r}",
            hint="The parameter is short for the option: write one of the two.",
        )
    return {**pairs, name: value}


def _inside(shape: Schema | None, options: Mapping[str, object] | None) -> Schema | None:
    """Return the columns that come from messages' bytes: options such as ``key_column`` name what comes beside them."""
    if shape is None or not isinstance(options, Mapping):
        return shape
    beside = {str(value) for name, value in options.items() if str(name).endswith("_column")}
    return Schema(tuple(field for field in shape.fields if field.name not in beside))


def _strategy(
    max_delay: str | int | timedelta | None, watermarks: object, timestamp: str | None, where: str
) -> WatermarkStrategy | None:
    if max_delay is not None and watermarks is not None:
        reject(
            f"{where} has max_delay and watermarks",
            hint="max_delay= is short for watermarks=bounded_delay(…): give one of the two.",
        )
    if max_delay is None and watermarks is None:
        return None
    strategy = bounded_delay(max_delay) if max_delay is not None else watermark_strategy(watermarks, where)
    if timestamp is None:
        parameter = "max_delay" if max_delay is not None else "watermarks"
        reject(f"{where} has {parameter} and no timestamp", hint='Name the event-time column: timestamp="at".')
    return strategy


def _check_slice(slice: object, timestamp: str | None, where: str) -> None:
    if slice is None:
        return
    if slice not in _SLICES:
        reject(
            f"{where} has slice={slice!r}",
            hint='It is "timestamp", "checkpoint", or left out (all of it, or what path= finds).',
        )
    if slice == "timestamp" and timestamp is None:
        reject(f"{where} is sliced by its timestamp and names none", hint='Name the event-time column: timestamp="at".')


def _check_intervals(intervals: object, path: str | None, slice: object, where: str, *, is_input: bool) -> None:
    if isinstance(intervals, bool) or not isinstance(intervals, int) or not 1 <= intervals <= MOST_INTERVALS:
        reject(
            f"{where} has intervals={intervals!r}",
            hint=f"Write how many data intervals a run reads, a whole number from 1 to {MOST_INTERVALS:,}.",
        )
    if not is_input:
        reject(f"{where} has intervals=, which is for inputs of files", hint="Leave it out.")
    if slice is not None:
        reject(
            f"{where} has intervals={intervals} and slice={slice!r}",
            hint="Give one of the two: intervals= reads the files that path= names for each data interval.",
        )
    if path is None or not any(field.name in TIMES for field in path_fields(path)):
        reject(
            f"{where} has intervals={intervals}, and its path= names no time: it has the same files for each of them",
            hint='Name the data interval in it: path="{data_interval_start:%Y/%m/%d}/*.parquet".',
        )


def _check_changes(slice: object, shape: Schema | None, where: str) -> None:
    if slice != "checkpoint":
        reject(
            f"{where} has changes=True and {'no slice=' if slice is None else f'slice={slice!r}'}, and changes are "
            "those since the last run",
            hint='Write slice="checkpoint", too; or leave changes= out, and the rows of the table are read.',
        )
    if shape is not None and CHANGE_TYPE not in shape.names:
        reject(
            f"{where} has changes=True, and its schema= has no column {CHANGE_TYPE}, so that nobody could tell inserts "
            "from deletes",
            hint=f"Add {CHANGE_TYPE} string to the schema, or leave schema= out and get all columns of the table.",
        )


def _check_path(path: object, where: str) -> None:
    if not isinstance(path, str) or not path.strip():
        reject(
            f"{where} has path={path!r}", hint='Write a path or a template: path="{data_interval_start:%Y/%m/%d/%H}".'
        )
    if "{{" in path or "}}" in path:
        reject(
            f"{where} has path={path!r}, a Jinja template, which is not rendered here",
            hint='Use single braces: path="{data_interval_start:%Y/%m/%d/%H}".',
            value=path,
        )
    try:
        names = [field.name for field in path_fields(path) if field.name is not None]
    except ValueError as error:
        reject(f"{where} has path={path!r}, which is no template: {error}", hint="Close every brace.", value=path)
    for name in names:
        if not name or not name[0].isalpha():
            reject(
                f"{where} has path={path!r} with a field without a name",
                hint="Name what goes there: {data_interval_start:%Y-%m-%d}.",
                value=path,
            )
    wrong = wrong_in_path(path)
    if wrong is not None:
        reject(f"{where} has path={path!r}, which {wrong[0]}", hint=wrong[1], value=path)

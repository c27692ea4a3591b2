"""``airflow-samza topics``: lists, shows, reads, checks and expires the topics of a log."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from airflow_samza.application.rejections import did_you_mean, listed
from airflow_samza.application.times import duration_ms
from airflow_samza.cli.options import SAY_YES, SYSTEMS, Json, Place, Yes, at_place
from airflow_samza.cli.terminal import columns, json_line, moment, say, say_json
from airflow_samza.control.messages import to_json
from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.figures import size
from airflow_samza.systems.bindings import bind_log, is_log, log_under
from airflow_samza.systems.filesystems.pace import Looks
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.filesystem import Filesystem
    from airflow_samza.systems.log.consumer import LogConsumer
    from airflow_samza.systems.log.system import LogSystem

FOLLOW_SECONDS = 0.5
"""The pause between two looks for new commits of a followed topic: each lists a folder and reads a file or two."""

NEWEST_PRODUCERS = 10

topics = typer.Typer(help="List, read, check and expire topics.", no_args_is_help=True)

OF = "--of"
Of = Annotated[
    str | None,
    typer.Option(
        OF, metavar="SYSTEM", help="The system of the topics, a log or Kafka. Default: the log under the root."
    ),
]
Topic = Annotated[
    str, typer.Argument(metavar="TOPIC", help="The topic's name, as `topics list` shows it.", show_default=False)
]


@topics.command("list", epilog="Example: airflow-samza topics list page-views")
@at_place(SYSTEMS)
def list_topics(
    place: Place,
    matching: Annotated[str, typer.Argument(metavar="[PART]", help="Only topics whose name contains this text.")] = "",
    of: Of = None,
    as_json: Json = False,
) -> None:
    """List topics: partitions, messages, bytes, last commit, expiry."""
    from airflow_samza.systems.log.topic_facts import list_facts

    log = _log(place, of)
    if as_json:
        say_json(list_facts(log, matching))
        return
    say(_list_text(log, matching, list_facts(log, matching)))


@topics.command(epilog="Example: airflow-samza topics show TOPIC")
@at_place(SYSTEMS)
def show(place: Place, topic: Topic, of: Of = None, as_json: Json = False) -> None:
    """Show a topic: schema, offsets of each partition, writers."""
    from airflow_samza.systems.log.topic_facts import show_facts

    facts = show_facts(_log(place, of), topic)
    if as_json:
        typer.echo(json_line(facts))
        return
    say(_show_text(topic, facts))


@topics.command(epilog="Example: airflow-samza topics tail TOPIC -n 5 --follow")
@at_place(SYSTEMS)
def tail(
    place: Place,
    topic: Topic,
    of: Of = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", metavar="K", help="Only this partition.")
    ] = None,
    count: Annotated[int, typer.Option("-n", metavar="N", help="The number of messages of each partition.")] = 10,
    control: Annotated[
        bool, typer.Option("--control", help="Also print control messages (end-of-stream, watermarks).")
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for new messages and print them, until Ctrl-C.")
    ] = False,
) -> None:
    """Print the last messages of a topic as JSON lines."""
    from airflow_samza.systems.log.index import LogIndex
    from airflow_samza.systems.topic_rejections import check_partition

    log = _log(place, of)
    if count < 0:
        raise ConfigError(f"-n {count} is not a number of messages.", hint="Give 0 or more.", key="-n", value=count)
    log_topic = log.topic(topic)
    if partition is not None:
        check_partition(topic, log_topic.partitions, partition)
    chosen = range(log_topic.partitions) if partition is None else [partition]
    index = LogIndex(log_topic)
    starts = {number: _start_of_tail(index, number, count, control) for number in chosen}
    consumer = log.consumer(StreamSpec(topic))
    looks = Looks(log.filesystem.pace)
    try:
        while True:
            heads = consumer.head
            # The partitions one after the other: between partitions a topic knows no order.
            for number in chosen:
                for line in _lines(consumer, log.name, topic, number, starts[number], heads[number], control):
                    looks.news()
                    typer.echo(line)
                starts[number] = max(starts[number], heads[number])
            if not follow:
                return
            time.sleep(looks.pause(FOLLOW_SECONDS))
            consumer.refresh()
    finally:
        consumer.close()


@topics.command(epilog="Example: airflow-samza topics fsck TOPIC")
@at_place(SYSTEMS)
def fsck(
    place: Place,
    topic: Annotated[str | None, typer.Argument(metavar="[TOPIC]", help="The topic. Default: all.")] = None,
    of: Of = None,
    as_json: Json = False,
) -> None:
    """Read every byte of a topic and report what is damaged, missing or left behind.

    Changes nothing; exit code 1 when rows are lost.
    """
    from airflow_samza.cli.fsck_command import Look, look_facts, look_lines, published, topic_findings
    from airflow_samza.runs.records.folders import run_folders

    log = _log(place, of)
    names = [topic] if topic is not None else log.topics()
    files = place.environment.files
    publications = published(files, log, run_folders(files))
    sound = True
    for name in names:
        look = Look("topic", name, tuple(topic_findings(log, name, publications.get(name, ()))))
        typer.echo(json_line(look_facts(look)) if as_json else "\n".join(look_lines(look)))
        sound = sound and look.sound
    if not names and not as_json:
        say(_none_under(log))
    if not sound:
        raise typer.Exit(1)


@topics.command(epilog="Example: airflow-samza topics expire TOPIC --older-than '7 days'")
@at_place(SYSTEMS)
def expire(
    place: Place,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="[TOPIC]", help="The topic to expire. Default: none, only delete what has expired."),
    ] = None,
    of: Of = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Expire only messages of TOPIC that are older, for example '7 days'."
        ),
    ] = None,
    yes: Yes = False,
) -> None:
    """Delete expired topics. With TOPIC, expire that topic first, or its older messages."""
    log = _log(place, of)
    if older_than is not None and topic is None:
        raise ConfigError(
            "--older-than needs a topic.",
            hint="Write: topics expire TOPIC --older-than '7 days'.",
            key="--older-than",
            value=older_than,
        )
    if topic is not None:
        from airflow_samza.systems.log.segment_store import store_of

        log_topic = log.topic(topic)
        store_of(log_topic)  # a topic whose messages lie elsewhere is deleted there
        _reject_push_stream(log, topic, place)
        _reject_topic_of_open_run(topic, place)
        what = (
            f"the messages of {topic!r} that are older than {older_than}"
            if older_than
            else f"the whole topic {topic!r}"
        )
        before = None if older_than is None else time.time_ns() // 1_000_000 - duration_ms(older_than)
        if not yes and not typer.confirm(f"Expire {what}? This cannot be undone.", err=True):
            raise TopicError("Nothing was expired.", hint=SAY_YES, stream=topic)
        say(_expire(log_topic, before))
    say(_sweep(log, place.environment.files))


def _reject_push_stream(log: LogSystem, topic: str, place: Place) -> None:
    """Reject expiring rows of a pushed table: its versions name rows by offset, and would lose them silently."""
    from airflow_samza.runs.tables.versions import newest

    current = newest(place.environment.files, log.name, topic)
    if current is not None:
        raise TopicError(
            f"The topic {topic!r} holds the versions of table {current.table!r}, of which {current.number} is current.",
            hint="keep_versions of its pushes says how many stay; 'topics expire' without a topic deletes the rows of "
            "the others.",
            stream=topic,
        )


def _reject_topic_of_open_run(topic: str, place: Place) -> None:
    """Reject expiring messages that another stage of an open run has still to read, or reads again in a retry."""
    from airflow_samza.runs.upkeep.retention import OpenTopics

    run = OpenTopics(place.environment.files).open_run(topic)
    if run is not None:
        raise TopicError(
            f"The topic {topic!r} lies between stages of the run {run.run_id!r} of {run.application!r}, which is open.",
            hint=f"End that run first: mark its tasks as failed in Airflow, or airflow-samza cancel {run.application} "
            f"{run.run_id}. A run whose command was killed ends when it is resumed (airflow-samza run … --run-id "
            f"{run.run_id}) and interrupted with Ctrl-C.",
            stream=topic,
            run=run.run_id,
        )


def _log(place: Place, of: str | None) -> LogSystem:
    environment = place.environment
    if of is None:
        return log_under(environment.root)
    binding = environment.systems.get(of)
    if binding is None or not is_log(binding):
        logs = sorted(name for name, bound in environment.systems.items() if is_log(bound))
        raise ConfigError(
            f"There is no log {of!r} in {environment.origin}.",
            hint=f"{did_you_mean(of, logs)}Its systems of kind log or kafka are: {listed(logs)}.",
            key=OF,
            value=of,
        )
    return bind_log(of, binding, environment.root)


def _list_text(log: LogSystem, matching: str, facts: Iterable[Mapping[str, Any]]) -> str:
    """Return a line per topic: partitions, messages, bytes, the last commit, and when it expires.

    A damaged topic says so in its line.
    """
    rows: list[list[object]] = []
    for row in facts:
        name = row["topic"]
        if "damaged" in row:
            rows.append([name, 0, 0, 0, "damaged", "", f"airflow-samza topics fsck {name}"])
            continue
        counts = [row["partitions"], row["messages"], row["control"], size(row["bytes"])]
        rows.append([name, *counts, moment(row["last_commit"]), moment(row["expires"])])
    if not rows:
        return _none_under(log) if not matching else f"No topic's name holds {matching!r}."
    return columns(["TOPIC", "PARTITIONS", "MESSAGES", "CONTROL", "SIZE", "LAST COMMIT", "EXPIRES"], rows)


def _show_text(name: str, topic_facts: Mapping[str, Any]) -> str:
    """Return the description of one topic: schema, partitions with their offsets, and writers."""
    commits = topic_facts["commits"]
    lines = [
        f"Topic      {name}",
        f"Where      {topic_facts['path']}",
        f"Schema     {topic_facts['schema'] or 'not known yet: nothing was declared or written'}",
        f"Commits    {topic_facts['number']:,} ({len(commits):,} that readers see one by one)",
        f"Size       {size(topic_facts['bytes'])}",
    ]
    if topic_facts["expires"] is not None:
        lines.append(f"Expires    {moment(topic_facts['expires'])}")
    heading = ["PARTITION", "OLDEST", "NEXT", "MESSAGES", "CONTROL"]
    lines += ["", columns(heading, [list(partition.values()) for partition in topic_facts["partitions"]])]
    newest = commits[-NEWEST_PRODUCERS:]
    if newest:
        written = [
            list({**commit, "at": moment(commit["at"]), "bytes": size(commit["bytes"])}.values()) for commit in newest
        ]
        heading = ["COMMIT", "AT", "MESSAGES", "SIZE", "CONTROL", "GENERATION", "EPOCH", "WRITTEN BY"]
        lines += ["", columns(heading, written)]
        if len(newest) < len(commits):
            lines.append(f"… and {len(commits) - len(newest):,} earlier ones")
    return "\n".join(lines)


def _lines(
    consumer: LogConsumer, system: str, name: str, partition: int, start: int, end: int, control: bool
) -> Iterator[str]:
    if start >= end:
        return
    for envelope in consumer.read(SystemStreamPartition(system, name, partition), OffsetRange(start, end)):
        if isinstance(envelope, MessageRun):
            for place, row in enumerate(envelope.batch.to_pylist()):
                yield json_line({"partition": partition, "offset": envelope.offset + place, "message": row})
        elif control:
            kind = type(envelope.message).__name__.removesuffix("Message")
            yield json_line(
                {
                    "partition": partition,
                    "offset": envelope.offset,
                    "control": {"kind": kind, **to_json(envelope.message)},
                }
            )


def _start_of_tail(index: Any, partition: int, count: int, control: bool) -> int:
    """Return the offset from which ``count`` messages follow; control messages count only when they are shown."""
    from airflow_samza.systems.log.index import Run

    left = count
    start = index.head[partition]
    for entry in reversed(index.entries(partition)):
        if left <= 0:
            break
        if isinstance(entry, Run):
            taken = min(left, entry.rows)
            start = entry.end - taken
            left -= taken
        elif control:
            start = entry.offset
            left -= 1
    return int(start)


def _expire(topic: Any, before: int | None) -> str:
    """Expire the commits of a topic from before a moment, or the whole topic at once; report what was done."""
    from airflow_samza.systems.log import maintenance as log_maintenance

    if before is None:
        log_maintenance.mark_expired(topic, time.time_ns() // 1_000_000)
        return f"The topic {topic.name!r} is expired."
    commits = log_maintenance.expire(topic, before)
    return f"The first {commits:,} commits of {topic.name!r} are expired; its offsets stay what they are."


def _sweep(log: LogSystem, root: Filesystem) -> str:
    """Delete what is due and no open run under the root needs, and report it."""
    from airflow_samza.runs.upkeep.retention import sweep_log
    from airflow_samza.systems.log.maintenance import GRACE_MS

    swept = sweep_log(root, log)
    lines = [f"Deleted the topic {name}." for name in swept.topics]
    lines.append(f"Deleted {len(swept.topics):,} topics, and {swept.files:,} files ({size(swept.bytes)}) of others.")
    if not swept.topics and not swept.files and not swept.later:
        lines = [f"Nothing is due. Files that nobody names any more are kept for {GRACE_MS // 60_000} minutes."]
    lines += [
        f"Left alone, because it is damaged: {name} (airflow-samza topics fsck {name})"
        for name in sorted(swept.damaged)
    ]
    lines += [f"Left for the next time: {sentence}" for sentence in swept.later]
    return "\n".join(lines)


def _none_under(log: LogSystem) -> str:
    """Return the line for a log without topics."""
    return f"There is no topic under {log.filesystem.root}."

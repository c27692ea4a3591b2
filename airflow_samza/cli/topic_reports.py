"""Reports of ``airflow-samza topics list | show | tail`` on the topics of a log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from airflow_samza.cli.terminal import columns, json_line, moment
from airflow_samza.control.messages import to_json
from airflow_samza.errors import ConfigError
from airflow_samza.figures import size
from airflow_samza.systems.filesystems.pace import Looks
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemStreamPartition

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.filesystem import Filesystem
    from airflow_samza.systems.log.consumer import LogConsumer
    from airflow_samza.systems.log.system import LogSystem

FOLLOW_SECONDS = 0.5
"""The pause between two looks for new commits of a followed topic: each lists a folder and reads a file or two."""

NEWEST_PRODUCERS = 10


def list_text(log: LogSystem, matching: str = "") -> str:
    """Return a line per topic: partitions, messages, bytes, the last commit, and when it expires.

    A damaged topic says so in its line.
    """
    from airflow_samza.systems.log.topic_facts import list_facts

    rows: list[list[object]] = []
    for row in list_facts(log, matching):
        name = row["topic"]
        if "damaged" in row:
            rows.append([name, 0, 0, 0, "damaged", "", f"airflow-samza topics fsck {name}"])
            continue
        counts = [row["partitions"], row["messages"], row["control"], size(row["bytes"])]
        rows.append([name, *counts, moment(row["last_commit"]), moment(row["expires"])])
    if not rows:
        return none_under(log) if not matching else f"No topic's name holds {matching!r}."
    return columns(["TOPIC", "PARTITIONS", "MESSAGES", "CONTROL", "SIZE", "LAST COMMIT", "EXPIRES"], rows)


def show_text(log: LogSystem, name: str) -> str:
    """Return the description of one topic: schema, partitions with their offsets, and writers."""
    from airflow_samza.systems.log.topic_facts import show_facts

    topic_facts = show_facts(log, name)
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


def tail(
    log: LogSystem,
    name: str,
    *,
    partition: int | None,
    count: int,
    control: bool,
    follow: bool,
    tell: Callable[[str], None],
) -> None:
    """Print the last ``count`` messages of each partition (of one, or of all) as JSON lines.

    ``follow`` goes on with what is added.
    """
    if count < 0:
        raise ConfigError(f"-n {count} is not a number of messages.", hint="Give 0 or more.", key="-n", value=count)
    topic = log.topic(name)
    from airflow_samza.systems.log.index import LogIndex
    from airflow_samza.systems.topic_rejections import check_partition

    if partition is not None:
        check_partition(name, topic.partitions, partition)

    chosen = range(topic.partitions) if partition is None else [partition]
    index = LogIndex(topic)
    starts = {number: _start_of_tail(index, number, count, control) for number in chosen}
    consumer = log.consumer(StreamSpec(name))
    looks = Looks(log.filesystem.pace)
    try:
        while True:
            heads = consumer.head
            # The partitions one after the other: between partitions a topic knows no order.
            for number in chosen:
                for line in _lines(consumer, log.name, name, number, starts[number], heads[number], control):
                    looks.news()
                    tell(line)
                starts[number] = max(starts[number], heads[number])
            if not follow:
                return
            time.sleep(looks.pause(FOLLOW_SECONDS))
            consumer.refresh()
    finally:
        consumer.close()


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


def moment_before(age: str | None) -> int | None:
    """Return the moment (ms since 1970, UTC) that lies ``age`` (such as ``7 days``) before now."""
    from airflow_samza.application.times import duration_ms

    return None if age is None else time.time_ns() // 1_000_000 - duration_ms(age)


def expire(topic: Any, before: int | None) -> str:
    """Expire the commits of a topic from before a moment, or the whole topic at once; report what was done."""
    from airflow_samza.systems.log import maintenance as log_maintenance

    if before is None:
        log_maintenance.mark_expired(topic, time.time_ns() // 1_000_000)
        return f"The topic {topic.name!r} is expired."
    commits = log_maintenance.expire(topic, before)
    return f"The first {commits:,} commits of {topic.name!r} are expired; its offsets stay what they are."


def sweep(log: LogSystem, root: Filesystem) -> str:
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


def none_under(log: LogSystem) -> str:
    """Return the line for a log without topics."""
    return f"There is no topic under {log.filesystem.root}."

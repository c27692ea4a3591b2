"""Writing of topics of the log.

A try at a task stages one segment, and what tasks have staged is published as one commit. The log writes by it, and so
do the systems that keep its bookkeeping.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_samza.errors import TopicError
from airflow_samza.systems.log import commits as log_commits
from airflow_samza.systems.log.records import Commit, Segment
from airflow_samza.systems.log.segment_store import store_of
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.topic_rows import arrow_schema

if TYPE_CHECKING:
    from airflow_samza.systems.log.segments import SegmentWriter


def stage(topic: Topic, writer: str, schema: str | None = None, *, durable: bool = False) -> SegmentWriter:
    """Return a producer that stages the output of one try at a task in one segment."""
    # A try that starts anew under its old name must not write into a file that may be committed.
    name = f"{quote(writer, safe='-_.~+=@,:')[:180]}-{uuid.uuid4().hex[:8]}"
    return store_of(topic).writer(topic, name, arrow_schema(topic.schema or schema), durable=durable)


def publish_segments(
    topic: Topic,
    producer: str,
    generation: str,
    epoch: int,
    staged: Sequence[Mapping[str, Any]],
    control: Sequence[Any] = (),
    *,
    once: bool = False,
    slot: OutputSlot | None = None,
    root: str = "",
) -> dict[str, Any]:
    """Commit what producers staged.

    Facts: ``commit`` (its number), ``rows``, ``bytes``, ``control``, ``offsets`` ([from, to) per partition),
    ``duplicate``.
    """
    store = store_of(topic)
    segments = store.as_committed([Segment.from_json(one) for one in staged if one.get("segment")])
    schema = next((str(description["schema"]) for description in staged if description.get("schema")), None)
    for description in staged:
        if description.get("schema") and not log_commits.same_columns(str(description["schema"]), str(schema)):
            raise TopicError(
                f"Tasks wrote different columns to {topic.name!r}: ({schema}) and ({description['schema']}).",
                hint="Declare the stream's schema, so that every task writes the same.",
                stream=topic.name,
            )
    commit = log_commits.append_commit(
        topic,
        producer,
        generation,
        epoch,
        segments,
        control,
        once=once,
        schema=schema,
        check=lambda: store.before_commit(topic, segments, control),
        slot=slot,
        root=root,
    )
    duplicate = commit is None
    if commit is None:
        commit = _published(topic, producer, generation, epoch)
    added = commit.rows_by_partition
    return {
        "topic": topic.name,
        "commit": commit.number,
        "rows": commit.rows,
        "bytes": commit.bytes,
        "control": len(commit.control),
        "offsets": [[end - rows - len(commit.control), end] for end, rows in zip(commit.next, added, strict=True)],
        "duplicate": duplicate,
    }


def _published(topic: Topic, producer: str, generation: str, epoch: int) -> Commit:
    for commit in reversed(list(log_commits.read_commits(topic, 0))):
        if (commit.producer, commit.generation, commit.epoch) == (producer, generation, epoch):
            return commit
    raise topic.damaged(
        topic.commit_path(0), f"and its followers do not hold epoch {epoch} of {producer}, which is published"
    )

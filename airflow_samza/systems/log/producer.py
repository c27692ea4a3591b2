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
from airflow_samza.schema import Schema
from airflow_samza.systems.log import commits as log_commits
from airflow_samza.systems.log.records import Commit, Segment
from airflow_samza.systems.log.segment_store import store_of
from airflow_samza.systems.log.topic import Topic
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.topic_rows import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class LogProducer:
    """Producer that stages the output of one try at a task in one segment."""

    def __init__(self, topic: Topic, writer: str, schema: str | None = None, *, durable: bool = False) -> None:
        self._topic = topic
        # A try that starts anew under its old name must not write into a file that may be committed.
        name = f"{quote(writer, safe='-_.~+=@,:')[:180]}-{uuid.uuid4().hex[:8]}"
        declared = arrow_schema(topic.schema or schema)
        self._writer = store_of(topic).writer(topic, name, declared, durable=durable)

    @property
    def takes_dictionaries(self) -> bool:
        """True where dictionary-encoded columns stay so."""
        return self._writer.takes_dictionaries

    def write(self, partition: int, batch: pa.RecordBatch) -> None:
        """Append user messages to a partition."""
        self._writer.write(partition, batch)

    def write_keyed(self, batch: pa.RecordBatch, key_columns: Sequence[str]) -> None:
        """Append user messages, each to the partition of its key."""
        self._writer.write_keyed(batch, key_columns)

    def finish(self) -> dict[str, Any]:
        """Close the segment; its description names the file, its batches with partition and rows, and the totals."""
        try:
            segment = self._writer.finish()
        except BaseException:
            self.abort()
            raise
        schema = None if self._writer.schema is None else Schema.of(self._writer.schema).ddl()
        if segment is None:
            return {"segment": None, "total_rows": 0, "bytes": 0, "schema": schema}
        return {**segment.to_json(), "total_rows": sum(segment.rows), "schema": schema}

    def abort(self) -> None:
        """Delete what was staged."""
        self._writer.abort()


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

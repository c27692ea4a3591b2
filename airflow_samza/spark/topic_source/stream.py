"""Topics as streams of Spark: ``spark.readStream.format("samza")``, and the end of a query that reads a run's section.

An offset of a stream says how far each partition was read, and as of which commit of the topic. So a batch that
Spark plans again after a restart has the rows that it had, and what a writer has replaced since is noticed
(decision 128).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from airflow_samza.errors import ConfigError, TopicError
from airflow_samza.spark.topic_source.options import EARLIEST, LATEST, count, flag, named_topic, offsets, option
from airflow_samza.spark.topic_source.reading import TopicPartition, TopicView, rows_of
from airflow_samza.systems.log.topic import reject_other
from airflow_samza.systems.output_slots import run_of

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2, whose queries take all that is there, and which a source cannot tell otherwise
    LIMITS_BATCHES = False

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stand for what this Spark does not know."""

else:
    LIMITS_BATCHES = True

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.streaming.query import StreamingQuery

_NEW_CHECKPOINT = "Start the query with another checkpointLocation (and an empty sink), which reads anew what is there"

Offset = dict[str, Any]
"""An offset of a stream as Spark keeps it, with ``offsets`` by partition."""


class SamzaStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Stream of one topic, or of the section of one run; every Spark partition is one topic partition."""

    def __init__(self, options: Mapping[str, str], columns: Sequence[str]) -> None:
        self._options = dict(options)
        self._columns = tuple(columns)
        self._most = count(options, "maxOffsetsPerTrigger")
        self._fails_on_replaced = flag(options, "failOnReplaced", default=True)
        self._target: TopicView | None = None
        """Of a query with the trigger availableNow: what was there when it began."""
        if option(options, "endingOffsets") is not None:
            raise ConfigError(
                "The option endingOffsets is set, and a stream has no ending offsets.",
                hint="Read up to an offset with spark.read; the trigger availableNow ends a stream at what is there, "
                "and the option section at the end of a run's section.",
                key="endingOffsets",
            )
        if self._most is not None and not LIMITS_BATCHES:
            raise ConfigError(
                f"The option maxOffsetsPerTrigger is {self._most}, and only Spark from 4.2 on asks a data source in "
                "Python for less than all.",
                hint="Leave it out, or use pyspark 4.2.",
                key="maxOffsetsPerTrigger",
                value=str(self._most),
            )
        self._start = self._starting(TopicView.of(options))

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        """Return where a query without a checkpoint begins."""
        return self._start

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:  # noqa: N802 - Spark's name
        """Return how far the next batch may read; ``start`` itself where nothing is new."""
        view = self._target if self._target is not None else TopicView.of(self._options)
        if start is None:
            return self._offset(view, [end for _, end in view.offsets])
        self._reject_other(start)
        before = _places(start["offsets"])
        heads = view.reached(before)
        if LIMITS_BATCHES and isinstance(limit, ReadMaxRows):
            heads = _limited(before, heads, limit.max_rows)
        if heads == before:
            return start
        return self._offset(view, heads, start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return how many offsets a batch takes at most."""
        return ReadAllAvailable() if self._most is None else ReadMaxRows(self._most)

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        """Return the newest offsets, for the query's progress."""
        view = TopicView.of(self._options)
        return self._offset(view, [end for _, end in view.offsets])

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a query that reads what is there now."""
        self._target = TopicView.of(self._options)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the ranges of a batch; reject one of which messages are gone, or were replaced after they were read.

        Both are as of the commit of ``end``, also where Spark plans a batch again.
        """
        self._reject_other(start, end)
        self._reject_replaced(start, end)
        writers = end.get("writers")
        first, read, reached = _places(end["first"]), _places(start["offsets"]), _places(end["offsets"])
        if writers is not None:  # what lies before its section is not of it
            begun = [one > other for one, other in zip(read, _places(start["first"]), strict=True)]
            read = [
                place if is_begun else max(place, begin)
                for place, begin, is_begun in zip(read, first, begun, strict=True)
            ]
        slice_: dict[str, Any] = {
            "kind": "log",
            "partitions": len(reached),
            "offsets": [[min(begin, stop), stop] for begin, stop in zip(first, reached, strict=True)],
            "commit": int(end["commit"]),
            "topic": end["topic"] or None,
        }
        if writers is not None:
            slice_["sections"] = [
                {"run": run_of(name), "producer": name, "generation": generation}
                for name, generation in writers.items()
            ]
        system, stream = named_topic(self._options)
        batch = [
            TopicPartition(partition, begin, stop, slice_)
            for partition, (begin, stop) in enumerate(zip(read, reached, strict=True))
        ]
        with closing(system.consumer(stream, slice_)) as consumer:
            for one in batch:
                consumer.reject_expired(
                    one.partition, one.start, one.end, f"{_NEW_CHECKPOINT}; runs keep what is read often."
                )
        return [one for one in batch if one.end > one.start]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the user messages of a range as Arrow batches."""
        assert isinstance(partition, TopicPartition)
        return rows_of(self._options, self._columns, partition)

    def _starting(self, view: TopicView) -> Offset:
        text = option(self._options, "startingOffsets") or EARLIEST
        ranges = view.offsets
        if text == LATEST:
            places = [end for _, end in ranges]
        elif text == EARLIEST:
            places = [first for first, _ in ranges]
        else:
            given = offsets(self._options, "startingOffsets", len(ranges), f"{EARLIEST}, {LATEST} or ")
            places = [
                min(max(given.get(partition, first), first), end) for partition, (first, end) in enumerate(ranges)
            ]
        return self._offset(view, places, {"first": _by_partition(places)})

    def _offset(self, view: TopicView, reached: Sequence[int], start: Mapping[str, Any] | None = None) -> Offset:
        """Return the offset of a view; ``first``: where the reading began, of a section where that begins."""
        begun = _by_partition([first for first, _ in view.offsets]) if view.sections else (start or {}).get("first")
        writers = view.writers
        return {
            "offsets": _by_partition(reached),
            "first": begun if begun is not None else _by_partition([0] * len(reached)),
            "commit": int(view.slice["commit"]),
            "topic": view.slice.get("topic") or "",
            **({} if writers is None else {"writers": writers}),
            "ended": view.is_complete and all(a >= b for a, (_, b) in zip(reached, view.offsets, strict=True)),
        }

    def _reject_other(self, *read: Offset) -> None:
        system, stream = named_topic(self._options)
        topic = system.topic(stream.name)
        for offset in read:
            reject_other(topic, offset["topic"], f"{_NEW_CHECKPOINT}.")

    def _reject_replaced(self, start: Offset, end: Offset) -> None:
        """Reject a batch behind messages that were replaced after an earlier batch had them."""
        if not self._fails_on_replaced:
            return
        system, stream = named_topic(self._options)
        read = _places(start["offsets"])
        began = [min(both) for both in zip(_places(start["first"]), read, strict=True)]
        replaced = system.superseded(stream, start, began, read)
        writers = start.get("writers")
        mine = [one for one in replaced if writers is None or one.producer in writers]
        if not mine:
            return
        what = mine[0]
        raise TopicError(
            f"The run {run_of(what.by)!r} has replaced messages of the topic {stream.name!r} that this query has read "
            f"(partition {what.partition}, offset {what.offset}): it would read them twice.",
            hint=f'{_NEW_CHECKPOINT}; or, if the sink takes a message twice, set .option("failOnReplaced", "false").',
            stream=stream.name,
            run=run_of(what.by),
        )


def await_end(query: StreamingQuery, timeout: float | None = None, every: float = 0.2) -> bool:
    """Wait until a query has read the sections of its sources to their ends, and stop it; return whether it has ended.

    The query's failure is raised. ``timeout`` in seconds; a query without the option ``section`` never ends so.

    >>> # query = frame.writeStream.option("checkpointLocation", folder).toTable("totals")
    >>> # await_end(query)
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while not query.awaitTermination(cast(int, every)):  # parts of a second are taken, too
        if _has_ended(query):
            query.stop()
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
    return True


def _has_ended(query: StreamingQuery) -> bool:
    progress = query.lastProgress
    if progress is None:
        return False
    ends = []
    for source in progress["sources"]:
        offset = source["endOffset"]
        read = json.loads(offset) if isinstance(offset, str) else offset
        if isinstance(read, dict) and "writers" in read:
            ends.append(bool(read["ended"]))
    return bool(ends) and all(ends)


def _places(by_partition: Mapping[str, int]) -> list[int]:
    """Return what an offset says of each partition."""
    return [int(by_partition[str(partition)]) for partition in range(len(by_partition))]


def _by_partition(places: Sequence[int]) -> dict[str, int]:
    return {str(partition): place for partition, place in enumerate(places)}


def _limited(start: Sequence[int], heads: Sequence[int], most: int) -> list[int]:
    """Return the offsets behind a batch of at most so many, in proportion to what each partition has.

    >>> _limited([0, 0, 5], [100, 300, 5], 40)
    [10, 30, 5]
    >>> _limited([0, 0], [2, 2], 1)
    [1, 0]
    """
    left = [head - first for first, head in zip(start, heads, strict=True)]
    total = sum(left)
    if total <= most:
        return list(heads)
    shares = [most * one // total for one in left]
    rest = most - sum(shares)
    for partition in sorted(range(len(left)), key=lambda place: shares[place] - left[place]):
        if rest and shares[partition] < left[partition]:
            shares[partition] += 1
            rest -= 1
    return [first + share for first, share in zip(start, shares, strict=True)]

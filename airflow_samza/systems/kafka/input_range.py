"""Input range of a topic, fixed once: per partition the offsets [from, to) that a run reads, as JSON.

A position on Kafka is a topic's identity, a partition and an offset (decision 85). A range ends at the latest *stable*
offset: behind it are messages of open transactions, which may still be aborted.

By time, ``first_at`` is a lower bound, always: no message before it is of the asked time or a later one. It is no upper
bound where producers set the times: messages may come in any order of time, and the markers of transactions count with
the brokers' clock. So such a range goes on to the latest stable offset, and readers leave out what is not of the
interval. Where brokers set the times (``message.timestamp.type=LogAppendTime``) they never decrease, and the range ends
with the interval. The Kafka system fixes it, and the trigger on new messages counts by it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.systems.kafka.brokers import Brokers, Topic
from airflow_samza.systems.kafka.columns import expects_expiry
from airflow_samza.systems.kafka.failures import expired
from airflow_samza.systems.system import StreamSpec
from airflow_samza.systems.topic_rejections import first_expired

_log = logging.getLogger(__name__)

TIMES = "times"
"""Under what a range by time names its bounds (ms since 1970)."""


def fix_range(brokers: Brokers, stream: StreamSpec) -> dict[str, Any]:
    """Return the range of all that there is, or of the stream's interval."""
    topic = brokers.topic(stream.name)
    brokers.check_count(topic, stream.partitions)
    range_: dict[str, Any] = {"kind": "kafka", "partitions": topic.partitions, "topic": topic.identity}
    if stream.interval is None:
        ends = brokers.latest_stable(topic)
        starts = brokers.oldest(topic)
    else:
        times = [-(-micros // 1000) for micros in stream.interval]
        range_[TIMES] = times
        starts, ends = _of_times(brokers, topic, times[0], times[1])
    # Between the questions messages may be deleted.
    return {**range_, "offsets": [[min(start, end), end] for start, end in zip(starts, ends, strict=True)]}


def without_expired(brokers: Brokers, stream: StreamSpec, range_: Mapping[str, Any]) -> dict[str, Any]:
    """Return a range without offsets that are gone; they are an error where the stream does not go on behind them."""
    offsets = []
    for partition, ((start, end), first) in enumerate(
        zip(range_["offsets"], brokers.oldest(brokers.topic(stream.name)), strict=True)
    ):
        oldest = min(first, end)
        if start < oldest:
            pass_by(stream, partition, start, oldest)
        offsets.append([max(start, oldest), end])
    return {**range_, "offsets": offsets}


def missing_messages(brokers: Brokers, stream: StreamSpec, range_: Mapping[str, Any]) -> str | None:
    """Return what of a range that was read once cannot be read again, as a part of a sentence; None: it is there."""
    topic = brokers.topic(stream.name)
    if range_.get("topic") not in (None, topic.identity):
        return f"the topic {stream.name!r} was created again"
    return first_expired(range_.get("offsets") or (), brokers.oldest(topic))


def pass_by(stream: StreamSpec, partition: int, start: int, oldest: int) -> None:
    """Log that offsets are gone, where the stream goes on behind them; else this is an error."""
    error = expired(stream.name, partition, start, oldest)
    if not expects_expiry(stream):
        raise error
    _log.warning("%s on_expired is skip: reading goes on behind them.", error.sentence)


def _warn_of_gaps(topic: Topic, starts: Sequence[int], oldest: Sequence[int]) -> None:
    """Log where messages of an interval may have been deleted: it begins with the first ones that are left."""
    partitions = [
        str(partition)
        for partition, (start, first) in enumerate(zip(starts, oldest, strict=True))
        if start == first > 0
    ]
    if partitions:
        _log.warning(
            "Messages of the data interval may be gone from %r: in partition%s %s it begins at the oldest message that "
            "retention has left.",
            topic.name,
            "s" if len(partitions) > 1 else "",
            ", ".join(partitions),
        )


def _of_times(brokers: Brokers, topic: Topic, first: int, end: int) -> tuple[list[int], list[int]]:
    latest = brokers.latest_stable(topic)
    starts = [_not_beyond(at, last) for at, last in zip(brokers.first_at(topic, first), latest, strict=True)]
    _warn_of_gaps(topic, starts, brokers.oldest(topic))
    if starts == latest or not brokers.stamps_on_append(topic):
        return starts, latest
    ends = [_not_beyond(at, last) for at, last in zip(brokers.first_at(topic, end), latest, strict=True)]
    return starts, ends


def _not_beyond(at: int | None, latest: int) -> int:
    return latest if at is None else min(at, latest)


@dataclass(frozen=True)
class TopicNews:
    """Offsets [from, to) per partition of the topic with this identity, which nobody was told of yet.

    ``messages`` counts offsets: markers of transactions, and what compaction has deleted, among them.
    """

    topic: str
    identity: str
    offsets: tuple[tuple[int, int], ...]

    @property
    def messages(self) -> int:
        """The number of offsets."""
        return sum(end - start for start, end in self.offsets)

    @property
    def position(self) -> dict[str, Any]:
        """The position behind the news, from which the next ones are asked for; JSON."""
        return {"topic_id": self.identity, "ends": [end for _, end in self.offsets]}

    def to_dict(self) -> dict[str, Any]:
        """Return the news for an event; JSON."""
        offsets = [list(bounds) for bounds in self.offsets]
        return {"topic": self.topic, "topic_id": self.identity, "messages": self.messages, "offsets": offsets}


def topic_news(brokers: Brokers, name: str, position: Mapping[str, Any] | None) -> TopicNews:
    """Return the news of a topic behind a position of it; of all that it has, where there is no such position.

    Messages of open transactions are no news yet. A topic that was created again is another one.
    """
    topic = brokers.topic(name)
    ends, oldest = brokers.latest_stable(topic), brokers.oldest(topic)
    announced = list(position["ends"]) if position is not None and position["topic_id"] == topic.identity else []
    announced += [0] * (topic.partitions - len(announced))  # partitions that were added
    starts = [max(start, first) for start, first in zip(announced, oldest, strict=True)]
    return TopicNews(
        name, topic.identity, tuple((min(start, end), end) for start, end in zip(starts, ends, strict=True))
    )

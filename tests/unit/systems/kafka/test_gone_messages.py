"""Messages of an input range that cannot be read again: retention has deleted them, or the topic is another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_samza.systems.kafka.input_range import missing_messages
from airflow_samza.systems.system import StreamSpec


def brokers(*oldest: int, identity: str = "t1") -> Any:
    topic = SimpleNamespace(identity=identity, partitions=len(oldest))
    return SimpleNamespace(topic=lambda name: topic, oldest=lambda of: list(oldest))


@pytest.mark.parametrize(
    ("oldest", "offsets", "says"),
    [
        ((0, 0), [[0, 5], [0, 3]], None),
        ((5, 3), [[5, 9], [3, 3]], None),
        ((0, 9), [[0, 5], [3, 3]], None),  # nothing was read of the second partition
        ((0, 9), [[0, 5], [1, 3]], "its messages from offset 1 to 3 of partition 1 are not there any more"),
        ((2, 9), [[0, 5], [1, 3]], "its messages from offset 0 to 2 of partition 0 are not there any more"),
        ((0, 0, 7), [[0, 5], [1, 3]], None),  # a partition that has come since
    ],
)
def test_the_first_messages_that_are_gone_are_named(
    oldest: tuple[int, ...], offsets: list[list[int]], says: str | None
) -> None:
    assert missing_messages(brokers(*oldest), StreamSpec("views"), {"topic": "t1", "offsets": offsets}) == says


def test_a_topic_that_was_created_again_has_none_of_them() -> None:
    found = missing_messages(brokers(0, identity="t2"), StreamSpec("views"), {"topic": "t1", "offsets": [[0, 5]]})
    assert found == "the topic 'views' was created again"

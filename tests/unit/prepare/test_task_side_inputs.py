"""Offsets from which a task reads its side inputs on, and when it builds their table again (rules S3–S5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from airflow_samza import quoting
from airflow_samza.errors import MessageError
from airflow_samza.storage.offsets_file import Place
from tests.support.side_input_tasks import SideInputTask, Topics

A, B = ("A", 0), ("B", 0)


def starts(read: Mapping[Place, int], there: Mapping[Place, tuple[int, int]]) -> dict[Place, int]:
    """Return the first offset read of each place; the table has the offsets up to those of ``read``."""
    task = SideInputTask(Topics(there, []), there.keys(), {})
    for place, last in read.items():
        task.has_read(place, last)
    return {(source.stream_id, source.partition): source.start for source in task.inputs()}


@pytest.mark.parametrize(
    ("read", "there", "expected"),
    [
        pytest.param({A: 41}, {A: (0, 100)}, {A: 42}, id="behind what was read"),
        pytest.param({A: 41}, {A: (0, 43), B: (7, 9)}, {A: 42, B: 7}, id="a new topic throws nothing away"),
        pytest.param({A: 41}, {A: (0, 43), B: (7, 7)}, {A: 42, B: 7}, id="a quiet topic throws nothing away"),
        pytest.param({}, {A: (5, 9)}, {A: 5}, id="without a store at the oldest offset"),
        pytest.param({A: 3, B: 9}, {A: (5, 9), B: (0, 10)}, {A: 5, B: 0}, id="messages expired unread"),
        pytest.param({A: 4}, {A: (5, 9)}, {A: 5}, id="just before the oldest offset nothing was missed"),
        pytest.param({A: 4, B: 9}, {A: (5, 9), B: (0, 12)}, {A: 5, B: 10}, id="and other topics are not read again"),
        pytest.param({A: 41}, {A: (0, 3)}, {A: 0}, id="a topic that was made anew"),
    ],
)
def test_a_table_is_read_on_unless_it_may_have_missed_messages(
    read: Mapping[Place, int], there: Mapping[Place, tuple[int, int]], expected: Mapping[Place, int]
) -> None:
    assert starts(read, there) == expected


class Failing:
    """A processor that takes no message."""

    def __init__(self, config: Any, metrics: Any) -> None:
        """Need nothing."""

    def process(self, message: Any, store: Any) -> Any:
        raise ValueError("no")


def test_a_processor_that_fails_first_in_a_process_shows_no_message_where_none_may_be_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quoting, "_hidden", False)
    task = SideInputTask(Topics({A: (0, 1)}, [(A, 0)]), {A}, {"job.messages.shown": "false"}, Failing)
    with pytest.raises(MessageError, match=r"on the message \(not shown\) of 'A'"):
        task.tables.fill(task.inputs())

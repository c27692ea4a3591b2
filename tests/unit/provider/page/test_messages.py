"""Messages and figures of topics that are not ours, as the page shows them: brokers tell offsets only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.control.messages import WatermarkMessage
from airflow_samza.errors import StorageUnavailable
from airflow_samza.provider.page import messages
from airflow_samza.provider.page.answer import NotFound
from airflow_samza.provider.page.messages import Message, Messages, read_messages
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.provider.page.topics import RunTopic, topic_answer, topic_detail
from airflow_samza.runs.records.run_plan import BoundStream
from airflow_samza.secrecy import HIDDEN
from airflow_samza.systems.system import (
    ControlEnvelope,
    Envelope,
    MessageRun,
    OffsetRange,
    StreamMetadata,
    StreamSpec,
    SystemStreamPartition,
    UnreadableRun,
)
from tests.support.page_here import Page

PLACE = SystemStreamPartition("events", "clicks", 0)
DECLARED = "n bigint, email string"


class Strangers:
    """A system with one topic that is not ours: its messages, of one partition, and what was read of it."""

    def __init__(self, *envelopes: Envelope, oldest: int = 0, head: int | None = None) -> None:
        self.envelopes = envelopes
        end = max((envelope.offset + envelope.messages for envelope in envelopes), default=oldest)
        self.found: dict[str, StreamMetadata] = {
            "clicks": StreamMetadata(1, (oldest,), (end if head is None else head,), DECLARED)
        }
        self.read_ranges: list[tuple[int, int]] = []
        self.closed = 0

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        return self.found

    def consumer(self, stream: StreamSpec) -> Any:
        return self

    def read(self, ssp: SystemStreamPartition, offsets: OffsetRange) -> Iterator[Envelope]:
        self.read_ranges.append((offsets.start, offsets.end))
        for envelope in self.envelopes:
            first = max(offsets.start - envelope.offset, 0)
            count = min(offsets.end - envelope.offset, envelope.messages) - first
            if count > 0:
                yield envelope.slice(first, count) if isinstance(envelope, MessageRun) else envelope

    def close(self) -> None:
        self.closed += 1


def topic(page: Page, system: Any, schema: str | None = DECLARED) -> RunTopic:
    page.plan()
    bound = BoundStream("clicks", "input", "events", StreamSpec("clicks", schema=schema))
    return RunTopic(OpenedRun(page.airflow.plans[-1]), bound, "input", "kafka", system, None, 1)


def declared(first: int, *numbers: int) -> MessageRun:
    rows = [{"n": n, "email": f"{n}@b.fr"} for n in numbers]
    return MessageRun(PLACE, first, pa.RecordBatch.from_pylist(rows))


def undeclared(first: int, *values: bytes | None, headers: str | None = None) -> MessageRun:
    rows = [{"key": b"k", "value": value, "timestamp": 5, "headers": headers} for value in values]
    schema = pa.schema(
        [("key", pa.binary()), ("value", pa.binary()), ("timestamp", pa.int64()), ("headers", pa.string())]
    )
    return MessageRun(PLACE, first, pa.RecordBatch.from_pylist(rows, schema))


def read(page: Page, system: Strangers, first: int | None = 0, most: int = 10, *, control: bool = True) -> Messages:
    return read_messages(topic(page, system), 0, first, most, control)


def shown(found: Messages) -> list[tuple[int, Any]]:
    return [(message.offset, message.value.get("n", message.control)) for message in found.messages]


# -- which messages ----------------------------------------------------------------------------------------------------


def test_messages_come_from_an_offset_on(page: Page) -> None:
    system = Strangers(declared(0, 0, 1, 2, 3, 4))
    found = read(page, system, 1, 2)
    assert (shown(found), found.next_offset) == ([(1, 1), (2, 2)], 3)
    assert (found.oldest, found.head, found.note) == (0, 5, None)
    assert system.closed == 1


def test_without_an_offset_the_last_ones_come(page: Page) -> None:
    found = read(page, Strangers(declared(0, 0, 1, 2, 3, 4)), None, 2)
    assert (shown(found), found.next_offset) == ([(3, 3), (4, 4)], 5)


def test_of_a_topic_with_few_messages_all_come(page: Page) -> None:
    found = read(page, Strangers(declared(3, 0, 1), oldest=3), None, 10)
    assert shown(found) == [(3, 0), (4, 1)]


def test_an_offset_that_has_expired_gives_the_oldest_messages_and_says_so(page: Page) -> None:
    found = read(page, Strangers(declared(3, 0, 1), oldest=3), 1)
    assert (shown(found), found.note) == ([(3, 0), (4, 1)], "What is before offset 3 is expired.")


@pytest.mark.parametrize("first", [2, 7])
def test_behind_the_head_nothing_is_read(page: Page, first: int) -> None:
    system = Strangers(declared(0, 0, 1))
    found = read(page, system, first)
    assert (found.messages, found.next_offset, system.read_ranges) == ([], 2, [])


def test_brokers_are_read_in_growing_windows_until_there_are_enough(page: Page) -> None:
    system = Strangers(declared(0, 0), declared(20, 1), declared(100, 2))
    found = read(page, system, 0, 2)
    assert shown(found) == [(0, 0), (20, 1)]
    assert system.read_ranges == [(0, 2), (2, 6), (6, 14), (14, 30)]
    assert found.next_offset == 21


def test_offsets_without_messages_at_the_end_are_passed_over(page: Page) -> None:
    found = read(page, Strangers(declared(0, 0), head=9), 0, 5)
    assert (shown(found), found.next_offset) == ([(0, 0)], 9)


def test_control_messages_may_be_left_out(page: Page) -> None:
    system = Strangers(
        declared(0, 0), ControlEnvelope(PLACE, 1, WatermarkMessage("task-0", 1, timestamp=5)), declared(2, 1)
    )
    assert shown(read(page, system)) == [(0, 0), (1, "Watermark"), (2, 1)]
    assert shown(read(page, system, control=False)) == [(0, 0), (2, 1)]


def test_control_messages_among_the_messages_are_bounded(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "CONTROL_SHOWN", 2)
    system = Strangers(*(ControlEnvelope(PLACE, n, WatermarkMessage("task-0", 1, timestamp=n)) for n in range(5)))
    found = read(page, system)
    assert ([message.offset for message in found.messages], found.next_offset) == ([0, 1], 2)


def test_a_partition_that_is_not_there_is_one_sentence(page: Page) -> None:
    with pytest.raises(NotFound) as raised:
        read_messages(topic(page, Strangers()), 1, None, 10, True)
    assert raised.value.problem.sentence == "The topic has 1 partitions; there is no partition 1."


# -- what is shown of them ---------------------------------------------------------------------------------------------


def value_of(page: Page, run: MessageRun, schema: str | None = None) -> dict[str, Any]:
    found = read_messages(topic(page, Strangers(run), schema), 0, 0, 10, True)
    message: Message = found.messages[0]
    return message.value


@pytest.mark.parametrize(
    ("value", "open_", "masked"),
    [
        (b'{"n": 1, "email": "a@b.fr"}', {"n": 1, "email": "a@b.fr"}, {"n": 1, "email": HIDDEN}),
        (b"a@b.fr", "a@b.fr", HIDDEN),
        (b'"a@b.fr"', '"a@b.fr"', HIDDEN),
        (b"\xff", "/w==", HIDDEN),
        (None, None, None),
    ],
)
def test_messages_without_declared_columns_are_json_text_or_bytes_and_hidden_where_no_column_can_be_told(
    page: Page, monkeypatch: pytest.MonkeyPatch, value: bytes | None, open_: Any, masked: Any
) -> None:
    assert value_of(page, undeclared(0, value)) == {"key": "k", "value": open_, "timestamp": 5, "headers": None}
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    assert value_of(page, undeclared(0, value)) == {"key": HIDDEN, "value": masked, "timestamp": 5, "headers": None}


def test_headers_are_hidden_where_columns_are_masked(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    assert value_of(page, undeclared(0, b"{}", headers="h"))["headers"] == "h"
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    assert value_of(page, undeclared(0, b"{}", headers="h"))["headers"] == HIDDEN


def test_declared_columns_are_shown_as_they_are_but_for_masked_ones(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert value_of(page, declared(0, 7), DECLARED) == {"n": 7, "email": "7@b.fr"}
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    found = read(page, Strangers(declared(0, 7)))
    assert (found.messages[0].value, found.masked) == ({"n": 7, "email": HIDDEN}, ["email"])


def test_a_message_that_cannot_be_read_is_shown_with_its_error_and_its_text_only_without_masks(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = UnreadableRun.of(PLACE, 0, ["a@b.fr"], ["no JSON"])
    assert value_of(page, run, DECLARED) == {"error": "no JSON", "text": "a@b.fr"}
    monkeypatch.setenv("AIRFLOW__SAMZA__PAGE_MASKED_COLUMNS", "email")
    assert value_of(page, run, DECLARED) == {"error": "no JSON", "text": HIDDEN}


# -- figures of topics -------------------------------------------------------------------------------------------------


def test_the_figures_of_a_topic_of_others_are_its_offsets(page: Page) -> None:
    found = topic_detail(topic(page, Strangers(declared(3, 0, 1), oldest=3)))
    assert (found.topic.offsets, found.topic.messages, found.topic.bytes, found.topic.note) == (2, None, None, None)
    assert [(part.oldest, part.next, part.messages) for part in found.partitions] == [(3, 5, None)]
    assert (found.columns, found.commits, found.commits_total) == (DECLARED, [], 0)


def test_columns_are_declared_where_the_system_knows_none(page: Page) -> None:
    system = Strangers(declared(0, 0))
    system.found["clicks"] = StreamMetadata(1, (0,), (1,))
    assert topic_detail(topic(page, system, "n bigint")).columns == "n bigint"


def test_a_topic_that_is_not_there_has_a_note_in_place_of_figures(page: Page) -> None:
    system = Strangers()
    system.found = {}
    found = topic_answer(topic(page, system))
    assert (found.offsets, found.partitions, found.note) == (None, 1, "The topic 'clicks' is not there.")
    with pytest.raises(NotFound):
        topic_detail(topic(page, system))


def test_a_topic_of_a_system_that_cannot_be_opened_has_a_note(page: Page) -> None:
    assert topic_answer(topic(page, None)).note == "The system 'events' cannot be opened here."


def test_a_topic_whose_brokers_are_away_has_a_note(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(streams: Any) -> Any:
        raise StorageUnavailable("The brokers are away.")

    system = Strangers()
    monkeypatch.setattr(system, "metadata", away)
    assert topic_answer(topic(page, system)).note == "The brokers are away."

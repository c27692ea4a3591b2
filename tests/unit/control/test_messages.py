"""The wire form of control messages (rule C1): the prose cases "wire_format", and whatever else can be wrong."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from airflow_samza.control.messages import (
    ControlMessage,
    EndOfStreamMessage,
    MessageType,
    WatermarkMessage,
    decode,
    encode,
)
from airflow_samza.errors import ControlError


def read(data: bytes) -> ControlMessage | bytes:
    return decode(data, stream="by-member", partition=3, offset=17)


def changed(message: ControlMessage, **fields: object) -> bytes:
    """The wire form of a message with JSON keys changed; ``...`` removes one."""
    data = encode(message)
    body = {**json.loads(data[1:]), **fields}
    return data[:1] + json.dumps({name: value for name, value in body.items() if value is not ...}).encode()


END = EndOfStreamMessage("task-1", 2, stream_id="by-member")


@given(st.binary())
def test_a_users_bytes_are_untouched_behind_the_type_byte(user: bytes) -> None:
    assert encode(user) == b"\x00" + user
    assert read(encode(user)) == user


def test_a_watermark_is_type_one_and_json_with_task_and_timestamp() -> None:
    message = WatermarkMessage("task-1", 4, timestamp=1_700_000_000_123)
    data = encode(message)
    assert data[0] == 1
    assert json.loads(data[1:]) == {"version": 1, "taskName": "task-1", "taskCount": 4, "timestamp": 1_700_000_000_123}
    assert read(data) == message


def test_an_end_of_stream_is_type_two_and_json_with_version_task_and_stream() -> None:
    data = encode(END)
    assert data[0] == 2
    assert json.loads(data[1:]) == {"version": 1, "taskName": "task-1", "taskCount": 2, "streamId": "by-member"}
    assert read(data) == END


def test_seed_fields() -> None:
    """The fields of the document's classes, by the names that they have on the wire."""
    end, watermark = (json.loads(encode(message)[1:]) for message in (END, WatermarkMessage("task-1", 4, timestamp=5)))
    assert set(end) == {"version", "taskName", "taskCount", "streamId"}
    assert set(watermark) == {"version", "taskName", "taskCount", "timestamp"}


def test_the_types_are_user_watermark_and_end_of_stream() -> None:
    assert {kind.value: kind.name.lower() for kind in MessageType} == {0: "user", 1: "watermark", 2: "end_of_stream"}


@pytest.mark.parametrize("data", [bytes([9, 1, 2]), bytes([3]) + b"{}"])
def test_an_unknown_type_byte_names_stream_partition_and_offset(data: bytes) -> None:
    with pytest.raises(ControlError, match=rf"by-member/3 offset 17 has the unknown type byte {data[0]}") as raised:
        read(data)
    assert raised.value.facts == {"stream": "by-member", "partition": 3, "offset": 17}


def test_an_empty_message_fails_cleanly() -> None:
    with pytest.raises(ControlError, match="by-member/3 offset 17 is empty"):
        read(b"")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"version": 2}, "unknown version 2"),
        ({"version": ...}, "no 'version'"),
        ({"taskName": ...}, "no 'taskName'"),
        ({"taskName": 5}, "5 as 'taskName'"),
        ({"taskCount": "2"}, "'2' as 'taskCount'"),
        ({"taskCount": True}, "True as 'taskCount'"),
        ({"streamId": None}, "None as 'streamId'"),
        ({"final": 0}, "0 as 'final'"),
    ],
)
def test_missing_and_ill_typed_fields_are_errors_that_name_the_field(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ControlError, match=said):
        read(changed(END, **fields))


@pytest.mark.parametrize("data", [b"\x02not json", b"\x01[1]", b"\x02"])
def test_a_body_that_is_no_json_object_is_an_error(data: bytes) -> None:
    with pytest.raises(ControlError, match="is not a JSON object"):
        read(data)


def test_unknown_keys_are_ignored_and_optional_ones_default() -> None:
    assert read(changed(END, colour="blue")) == END
    assert read(encode(EndOfStreamMessage("task-1", 2, stream_id="s"))) == EndOfStreamMessage(
        "task-1", 2, stream_id="s", final=True
    )


@given(
    task=st.none() | st.text(),
    count=st.integers(1, 2**31),
    run=st.none() | st.text(),
    final=st.booleans(),
    at=st.integers(-1, 2**62),
)
def test_every_control_message_comes_back_as_it_was(
    task: str | None, count: int, run: str | None, final: bool, at: int
) -> None:
    for message in (EndOfStreamMessage(task, count, run, "s", final), WatermarkMessage(task, count, run, at)):
        assert read(encode(message)) == message

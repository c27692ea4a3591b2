"""Durable records answer damage with one sentence that names the file and what is wrong with it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_samza.errors import RecordUnreadable
from airflow_samza.records import Record, decoder, parse_record


@dataclass(frozen=True)
class Small:
    """A record of a test."""

    count: int
    names: tuple[str, ...] = ()
    by_task: Mapping[str, float] | None = None
    within: Small | None = None

    @classmethod
    @decoder
    def from_dict(cls, data: Mapping[str, Any]) -> Small:
        within = data.get("within")
        return cls(
            data["count"],
            tuple(data["names"]),
            data.get("by_task"),
            cls.from_dict(within) if within is not None else None,
        )


def decoded(text: str) -> Small:
    return Small.from_dict(parse_record(text.encode(), "/samza/small.json"))


def test_a_record_is_read() -> None:
    found = decoded(
        '{"count": 1, "names": ["a"], "by_task": {"0": 1}, "within": {"count": 2, "names": []}, "unknown": 1}'
    )
    assert found == Small(1, ("a",), {"0": 1}, Small(2))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("{", "it is not a JSON object"),
        ("null", "it is not a JSON object"),
        ("[]", "it is not a JSON object"),
        ("\xff\xfe", "it is not a JSON object"),
        ("[" * 100_000, "it is nested too deeply"),
        ("{}", "it has no 'count'"),
        ('{"count": 1}', "it has no 'names'"),
        ('{"count": 1, "names": 7}', "it cannot be understood ('int' object is not iterable)"),
        ('{"count": "1", "names": []}', "its 'count' is of a wrong type (Expected `int`, got `str`)"),
        ('{"count": true, "names": []}', "its 'count' is of a wrong type (Expected `int`, got `bool`)"),
        (
            '{"count": 1, "names": ["a", null]}',
            "its 'names' is of a wrong type (Expected `str`, got `null` - at `$[1]`)",
        ),
        (
            '{"count": 1, "names": [], "by_task": {"0": []}}',
            "its 'by_task' is of a wrong type (Expected `float`, got `array` - at `$[...]`)",
        ),
        ('{"count": 1, "names": [], "within": {}}', "it has no 'count'"),
    ],
)
def test_rejects_a_record_with_its_place_and_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(RecordUnreadable) as caught:
        decoded(text)
    assert caught.value.sentence == f"The record /samza/small.json is damaged: {why}."
    assert "in Airflow clear its plan task, on the command line say run … --again" in caught.value.hint


def test_a_key_that_is_missing_in_the_depths_names_the_file() -> None:
    record = parse_record(b'{"a": {"b": {}}}', "/samza/deep.json")
    with pytest.raises(RecordUnreadable, match=r"The record /samza/deep\.json is damaged: it has no 'c'"):
        record["a"]["b"]["c"]
    assert record.get("x") is None


def test_a_record_is_a_dict_that_copies_and_pickles() -> None:
    record = parse_record(b'{"a": {"b": 1}}', "/samza/deep.json")
    for again in (copy.copy(record), copy.deepcopy(record), pickle.loads(pickle.dumps(record))):
        assert again == {"a": {"b": 1}}
        assert isinstance(again, Record)
        assert again.location == "/samza/deep.json"

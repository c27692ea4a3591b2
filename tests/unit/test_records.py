"""Durable records: one decoder, which reads older formats and answers damage with one sentence that names the file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from airflow_samza.errors import RecordUnreadable
from airflow_samza.records import FORMS, decode, durable, encode, from_plain, plain


@dataclass(frozen=True)
class Part:
    """A part of a record."""

    count: int


@durable(
    "small record",
    3,
    upgrades={1: lambda found: {**found, "names": []}, 2: lambda found: {**found, "names": found["names"] + ["2"]}},
)
@dataclass(frozen=True)
class Small:
    """A record of a test, which was written in two other formats before."""

    count: int
    names: tuple[str, ...] = ()
    by_task: Mapping[int, float] | None = None
    within: Part | None = None


@durable("plain record", later={"added": "before"}, beside=("found",))
@dataclass(frozen=True)
class Plain:
    """A record that has got a key later, and whose value has a field that is found elsewhere."""

    at: Any = None
    added: str = "now"
    ended: frozenset[int] = frozenset()
    found: int = field(default=0, compare=False)


FULL = {"format": 3, "count": 1, "names": ["a"], "by_task": {"0": 1}, "within": {"count": 2}}


def decoded(text: str | Mapping[str, Any]) -> Small:
    return decode(Small, (text if isinstance(text, str) else json.dumps(text)).encode(), "/samza/small.json")


def test_a_record_is_read() -> None:
    assert decoded(FULL) == Small(1, ("a",), {0: 1.0}, Part(2))


def test_keys_that_are_not_known_are_ignored() -> None:
    assert decoded({**FULL, "new": 1, "within": {"count": 2, "new": 1}}) == decoded(FULL)


def test_a_record_says_its_format() -> None:
    assert json.loads(encode(Small(1)))["format"] == 3
    assert decode(Small, encode(Small(1, ("a",), {0: 1.0}, Part(2))), "x") == decoded(FULL)


@pytest.mark.parametrize(
    ("version", "names"), [({}, ("2",)), ({"format": 1}, ("2",)), ({"format": 2}, ("a", "2")), ({"format": 3}, ("a",))]
)
def test_a_record_of_an_older_format_is_read_and_one_without_a_format_is_the_oldest(
    version: dict[str, int], names: tuple[str, ...]
) -> None:
    found = {name: value for name, value in FULL.items() if name != "format"}
    assert decoded({**found, **version}).names == names


def test_rejects_a_newer_format_by_name() -> None:
    with pytest.raises(RecordUnreadable) as caught:
        decoded({**FULL, "format": 4, "names": {"of": "another shape"}})
    assert caught.value.sentence == (
        "The record /samza/small.json is a small record of format 4, and this version of airflow-samza knows no newer "
        "format than 3."
    )
    assert caught.value.hint == (
        "A later version has written it: upgrade airflow-samza here, or finish the run with that version."
    )
    assert caught.value.facts == {"path": "/samza/small.json", "why": "format 4 is newer than 3"}


def test_a_format_without_an_upgrade_from_each_one_before_cannot_be_declared() -> None:
    with pytest.raises(AssertionError, match="format 3 needs upgrades from each format before it"):
        durable("broken", 3, upgrades={1: dict})


def test_a_key_that_came_later_has_the_value_of_before() -> None:
    found = json.loads(encode(Plain()))
    del found["added"]
    assert decode(Plain, json.dumps(found).encode(), "x").added == "before"


def test_a_field_that_is_found_elsewhere_is_no_part_of_the_record() -> None:
    assert "found" not in json.loads(encode(Plain(found=7)))
    assert decode(Plain, json.dumps({**json.loads(encode(Plain())), "found": 7}).encode(), "x").found == 0


def test_what_json_of_python_can_hold_comes_back() -> None:
    for value in (float("inf"), 2**70, "\udcff", [1, None, {"a": True}], 0.1):
        assert decode(Plain, encode(Plain(value)), "x").at == value
    assert decode(Plain, encode(Plain(MappingProxyType({"a": 1}))), "x").at == {"a": 1}
    assert json.loads(encode(Plain(ended=frozenset({3, 1, 2}))))["ended"] == [1, 2, 3]


def test_rejects_to_write_what_is_no_part_of_a_record() -> None:
    with pytest.raises(TypeError, match="a complex is no part of a record"):
        encode(Plain(1j))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("{", "it is not a JSON object"),
        ("null", "it is not a JSON object"),
        ("[]", "it is not a JSON object"),
        ("\xff\xfe", "it is not a JSON object"),
        ("[" * 100_000, "it is nested too deeply"),
        ('{"format": 3}', "it has no 'count'"),
        ({"format": 3, "count": 1}, "it has no 'names'"),
        ({**FULL, "format": "3"}, "its 'format' is '3', which is no format version"),
        ({**FULL, "format": True}, "its 'format' is True, which is no format version"),
        ({**FULL, "format": 0}, "its 'format' is 0, which is no format version"),
        ({**FULL, "names": 7}, "its 'names' is of a wrong type (Expected `array`, got `int`)"),
        (
            {**FULL, "format": 2, "names": 7},
            "it cannot be understood (unsupported operand type(s) for +: 'int' and 'list')",
        ),
        ({**FULL, "count": "1"}, "its 'count' is of a wrong type (Expected `int`, got `str`)"),
        ({**FULL, "count": True}, "its 'count' is of a wrong type (Expected `int`, got `bool`)"),
        ({**FULL, "names": ["a", None]}, "its 'names[1]' is of a wrong type (Expected `str`, got `null`)"),
        ({**FULL, "by_task": {"0": []}}, "its 'by_task[...]' is of a wrong type (Expected `float`, got `array`)"),
        ({**FULL, "by_task": {"a": 1}}, "a key of its 'by_task' is of a wrong type (Expected `int`, got `str`)"),
        ({**FULL, "within": {}}, "it has no 'count' in 'within'"),
    ],
)
def test_rejects_a_damaged_record_with_its_place_and_what_was_expected(text: str | Mapping[str, Any], why: str) -> None:
    with pytest.raises(RecordUnreadable) as caught:
        decoded(text)
    assert caught.value.sentence == f"The record /samza/small.json is damaged: {why}."
    assert "in Airflow clear its plan task, on the command line use run … --again" in caught.value.hint


def test_a_value_that_is_no_record_of_its_own_is_made_the_same_way() -> None:
    assert from_plain(Part, plain(Part(1))) == Part(1)
    assert plain(Small(1, ("a",), {0: 1.0}))["names"] == ["a"]
    assert Part not in FORMS
    with pytest.raises(RecordUnreadable, match="The record of Part is damaged: it has no 'count'"):
        from_plain(Part, {})
    with pytest.raises(RecordUnreadable, match="The record of a note is damaged: it cannot be understood"):
        from_plain(Part, 7, "of a note")

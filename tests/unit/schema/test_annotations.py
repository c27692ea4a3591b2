"""The columns that a dataclass declares: types, what may be null, what is rejected."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Optional

import pytest

from airflow_samza.errors import SchemaError
from airflow_samza.schema import Schema, parse_ddl


@dataclass(frozen=True)
class Place:
    city: str
    zip: int | None = None


@dataclass(frozen=True)
class Everything:
    flag: bool
    number: int
    part: float
    text: str
    raw: bytes
    day: date
    at: datetime
    price: Decimal
    tags: list[str]
    pair: tuple[int, ...]
    counts: dict[str, int]
    place: Place
    small: Annotated[int, "smallint"]
    exact: Annotated[Decimal, "decimal(12,2)"] | None
    perhaps: Optional[str]  # noqa: UP045 (both spellings are read)
    other: str | None = None
    more: list[Place] = field(default_factory=list)


def test_a_dataclass_gives_types_and_nullability() -> None:
    schema = Schema.of(Everything)
    assert schema.python_class is Everything
    assert schema.ddl() == (
        "flag boolean not null, number bigint not null, part double not null, text string not null, raw binary not "
        "null, "
        "day date not null, at timestamp not null, price decimal(38,18) not null, tags array<string> not null, "
        "pair array<bigint> not null, counts map<string,bigint> not null, place struct<city:string,zip:bigint> not "
        "null, "
        "small smallint not null, exact decimal(12,2), perhaps string, other string, more "
        "array<struct<city:string,zip:bigint>> not null"
    )


def test_a_dataclass_is_the_same_after_arrow_and_ddl() -> None:
    schema = Schema.of(Everything)
    assert Schema.of(schema.to_arrow()) == schema
    assert parse_ddl(schema.ddl()) == schema
    assert Schema.of(schema) is schema


@dataclass
class Empty:
    pass


@dataclass
class Strange:
    x: set[int]


@dataclass
class Choice:
    x: int | str


@dataclass
class BareList:
    x: list  # type: ignore[type-arg]


@dataclass
class BareDict:
    x: dict  # type: ignore[type-arg]


@dataclass
class TwoKinds:
    x: tuple[int, str]


@dataclass
class Untold:
    x: Any


@dataclass
class Nowhere:
    x: Absent  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Itself:
    x: Itself | None


@dataclass
class Derived:
    x: int
    y: int = field(init=False, default=0)


@pytest.mark.parametrize(
    "wrong", [Derived, Empty, Strange, Choice, BareList, BareDict, TwoKinds, Untold, Nowhere, Itself]
)
def test_rejects_dataclasses_without_column_types(wrong: type) -> None:
    with pytest.raises(SchemaError) as caught:
        Schema.of(wrong)
    assert caught.value.hint
    assert wrong.__name__ in caught.value.sentence

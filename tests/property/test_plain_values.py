"""Any plain Python value comes back from its text exactly as pickle would bring it; what is not plain says so."""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from airflow_samza.row import Row
from airflow_samza.task.messages.plain_values import NotPlain, from_text, to_text

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(),
    st.complex_numbers(allow_nan=False),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.datetimes(timezones=st.sampled_from([None, timezone.utc])),
)
KEYS = st.one_of(st.text(), st.integers(), st.tuples(st.text(), st.integers()), st.dates())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner, inner),
        st.dictionaries(KEYS, inner),
        st.dictionaries(st.text(), inner).map(Row),
        st.lists(inner, max_size=4).map(lambda items: deque(items, maxlen=4)),
        st.sets(KEYS),
        st.frozensets(KEYS),
        st.dictionaries(KEYS, st.integers()).map(Counter),
    ),
    max_leaves=12,
)


def shown(value: Any) -> Any:
    """A form in which values of other types differ, and NaN equals itself; sets and mappings by what they hold."""
    if isinstance(value, dict):
        return type(value).__name__, [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return type(value).__name__, sorted(repr(item) for item in value)
    if isinstance(value, deque):
        return "deque", value.maxlen, [shown(item) for item in value]
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(item) for item in value]
    return type(value).__name__, repr(value)


@given(VALUES)
def test_a_plain_value_comes_back_as_pickle_brings_it(value: Any) -> None:
    try:
        text = to_text(value)
    except NotPlain:  # the generator may use one list at two places
        return
    assert shown(from_text(text)) == shown(pickle.loads(pickle.dumps(value)))


class Own:
    """Somebody's class."""


@pytest.mark.parametrize(
    "value",
    [
        Own(),
        [Own()],
        OrderedDict(a=1),
        defaultdict(int, a=1),
        datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),
        time(1, fold=1),
        {"a": 10**5000},
        type("Text", (str,), {})("x"),
    ],
    ids=["object", "inside", "ordered", "default", "zone", "fold", "long", "subclass"],
)
def test_what_is_not_plain_says_so(value: Any) -> None:
    with pytest.raises(NotPlain):
        to_text(value)


def test_a_list_at_two_places_is_not_plain() -> None:
    both: list[int] = []
    with pytest.raises(NotPlain, match="occurs twice"):
        to_text({"a": both, "b": both})


def test_a_value_within_itself_is_not_plain() -> None:
    within: list[Any] = []
    within.append(within)
    with pytest.raises(NotPlain):
        to_text(within)


def test_moments_keep_their_zone() -> None:
    values = (
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=timezone.utc),
        date(2026, 1, 1),
        timedelta(1),
        Decimal("1.50"),
    )
    assert from_text(to_text(values)) == values

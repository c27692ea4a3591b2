"""The operators that call Python once per message, whatever the callable returns and however many messages there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_samza import Row, stream_application
from airflow_samza.errors import MessageError
from airflow_samza.task.messages.messages import CHUNK
from airflow_samza.testing import TestDriver

ROW = "n bigint, word string"


def run(change: Callable[[Any], Any], rows: list[dict[str, Any]]) -> list[Row]:
    @stream_application("per-message")
    def application(app: Any) -> None:
        change(app.input_stream("rows", schema=ROW)).send_to(app.output_stream("out"))

    return list(TestDriver(application).pipe("rows", rows).run().output("out"))


def some(count: int) -> list[dict[str, Any]]:
    return [{"n": n, "word": f"w{n % 7}"} for n in range(count)]


@pytest.mark.parametrize(
    "keep",
    [
        lambda row: row.n % 2 == 1,
        lambda row: row.n % 2,
        lambda row: [None, "yes"][row.n % 2],
        lambda row: None if row.n % 2 == 0 else True,
        lambda row: [[], [0]][row.n % 2],
    ],
)
def test_a_filter_takes_truth_as_python_does(keep: Callable[[Row], object]) -> None:
    assert [row.n for row in run(lambda rows: rows.filter(keep), some(9))] == [1, 3, 5, 7]


@pytest.mark.parametrize("kept", [range(CHUNK, 2 * CHUNK + 3), range(2), range(2 * CHUNK, 2 * CHUNK + 3), range(0)])
def test_a_filter_goes_on_behind_many_messages_of_which_it_keeps_none(kept: range) -> None:
    out = run(lambda rows: rows.filter(lambda message: message.n in kept), some(2 * CHUNK + 3))
    assert [row.n for row in out] == [*kept]


def test_filters_and_maps_behind_one_another_see_each_message_once_and_in_order() -> None:
    seen: list[int] = []

    def odd(row: Row) -> bool:
        seen.append(row.n)
        return bool(row.n % 2)

    def doubled(row: Row) -> dict[str, Any]:
        return {**row, "n": 2 * row.n}

    out = run(lambda rows: rows.filter(odd).filter(lambda row: row.n % 3).map(doubled, schema=ROW), some(3 * CHUNK + 5))
    assert seen == list(range(3 * CHUNK + 5))
    assert out == [{"n": 2 * n, "word": f"w{n % 7}"} for n in range(3 * CHUNK + 5) if n % 2 and n % 3]


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_flat_map_takes_any_iterable_of_any_length(kind: Callable[[Any], Any]) -> None:
    counts = [0, 1, 2 * CHUNK + 3, 0, CHUNK]

    def times(row: Row) -> Any:
        return kind([Row(row, word=f"{place}") for place in range(counts[row.n])])

    out = run(lambda rows: rows.flat_map(times, schema=ROW), some(5))
    assert [(row.n, row.word) for row in out] == [
        (n, f"{place}") for n, count in enumerate(counts) for place in range(count)
    ]


@pytest.mark.parametrize("bad", [0, CHUNK - 1, CHUNK, 2 * CHUNK + 17])
def test_flat_map_names_the_message_of_a_result_that_does_not_fit(bad: int) -> None:
    def three(row: Row) -> Iterator[Any]:
        yield row
        yield Row(row, n="x") if row.n == bad else row
        yield row

    with pytest.raises(MessageError, match=rf"returned Row\(n='x', word='w\d'\) .*on the message Row\(n={bad}, "):
        run(lambda rows: rows.flat_map(three, schema=ROW), some(2 * CHUNK + 20))


@pytest.mark.parametrize("bad", [0, CHUNK - 1, CHUNK + 1])
def test_map_names_the_message_whose_result_does_not_fit(bad: int) -> None:
    def change(row: Row) -> Any:
        return {**row, "word": 5} if row.n == bad else row

    with pytest.raises(MessageError, match=rf"\(word is 5, which is no string\), on the message Row\(n={bad}, "):
        run(lambda rows: rows.filter(lambda row: True).map(change, schema=ROW), some(CHUNK + 9))

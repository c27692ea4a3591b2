"""The declaration of an application: each declared thing is in it, and no body of a callable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_samza import StreamTask, count, max_, stream_application, sum_, task_application, tumbling
from airflow_samza.planner.declaration import declaration, declared_differences, first_of
from airflow_samza.planner.planner import plan_shape

SCHEMA = "country string, cents bigint, at timestamp"


def described(describe: Callable[[Any], None], **more: Any) -> Any:
    return stream_application("shop", **more)(describe).spec()


def shop(
    *,
    key: str = "country",
    aggregation: Any = None,
    condition: str = "cents > 0",
    window: Any = None,
    schema: str = SCHEMA,
    path: str = "sales",
    function: Callable[[Any], Any] = lambda row: row,
    on_error: Any = "fail",
    config: dict[str, str] | None = None,
    more: bool = False,
) -> Any:
    def describe(app: Any) -> None:
        sales = app.input_stream("sales", schema=schema, path=path, format="csv", timestamp="at")
        kept = sales.where(condition).map(function, schema=schema, on_error=on_error)
        parts = kept.partition_by(key, id="parts")
        parts.aggregate(key, id="totals", total=aggregation or sum_("cents")).send_to(app.output_stream("totals"))
        if window is not None:
            parts.window(window, key=key, id="w", n=count()).send_to(app.output_stream("windows"))
        if more:
            kept.send_to(app.output_stream("copy"))

    return described(describe, config=config or {})


def differences(now: Any, then: Any = None) -> tuple[str, ...]:
    then = then if then is not None else shop()
    return declared_differences(declaration(then), declaration(now), plan_shape(then))


def test_equal_applications_declare_the_same() -> None:
    assert differences(shop()) == ()


def test_a_body_of_a_callable_is_no_part_of_it() -> None:
    assert differences(shop(function=lambda row: row + 1)) == ()


@pytest.mark.parametrize(
    ("now", "sentence"),
    [
        ({"aggregation": max_("cents")}, "was total=sum(cents) and is total=max(cents)"),
        ({"condition": "cents > 1"}, "condition of operator shop-1-where-0 was cents > 0 and is cents > 1"),
        ({"key": "cents"}, "key of operator shop-1-partition_by-parts was country and is cents"),
        ({"path": "others"}, "path of stream sales was sales and is others"),
        ({"schema": "country string, cents int, at timestamp"}, "schema of stream sales"),
        ({"on_error": "drop"}, "on error of operator shop-1-map-1"),
        ({"config": {"task.consumer.batch.size": "5"}}, "task.consumer.batch.size was not set and is 5"),
        ({"config": {"my.threshold": "5"}}, "my.threshold was not set and is 5"),
        ({"more": True}, "stream copy is new"),
        ({"window": tumbling("1 hour")}, "operator shop-1-window-w is new"),
    ],
)
def test_names_each_declared_thing_that_differs(now: dict[str, Any], sentence: str) -> None:
    found = differences(shop(**now))
    assert any(sentence in text for text in found), found


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (tumbling("1 hour"), tumbling("1 hour", zone="Europe/Zurich")),
        (tumbling("1 hour"), tumbling("2 hours")),
        (tumbling("1 hour"), tumbling("1 hour", early_every=10)),
    ],
)
def test_tells_windows_apart_in_everything(then: Any, now: Any) -> None:
    assert differences(shop(window=now), shop(window=then))


class Counting(StreamTask):
    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        pass


def test_names_the_stores_of_a_task() -> None:
    def counting(store: str) -> Any:
        def describe(app: Any) -> None:
            app.input_stream("sales", schema=SCHEMA)
            app.store(store, key="string", value="bigint")
            app.task(Counting)

        return task_application("shop")(describe).spec()

    (sentence,) = differences(counting("totals"), counting("counts"))
    assert sentence.startswith("stage sales: stores of operator shop-1-task-task was counts: key=")
    assert " and is totals: key=" in sentence


def test_begins_with_the_stage_in_the_order_of_the_plan() -> None:
    found = differences(shop(aggregation=max_("cents"), condition="cents > 1"))
    assert [text.partition(":")[0] for text in found] == ["stage sales", "stage parts"]


def test_keys_of_places_and_times_to_wait_and_secrets_are_no_part_of_it() -> None:
    assert differences(shop(config={"job.epoch.max.ms": "5", "my.password": "x"})) == ()


def test_shows_three_differences_and_the_number_of_the_others() -> None:
    assert first_of(("a", "b", "c")) == "a; b; c"
    assert first_of(("a", "b", "c", "d", "e")) == "a; b; c; and 2 differences more"

"""Remote tables: distinct keys once, batches, retries, rate, cache, writes in order, errors with names and numbers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_samza import dead_letter, stream_application
from airflow_samza.application.task_application import task_application
from airflow_samza.errors import InvalidApplication, RemoteTableError, SamzaError
from airflow_samza.planner.explain import explain
from airflow_samza.testing import TestDriver


@dataclass(frozen=True)
class Sale:
    sku: str | None
    amount: int


@dataclass(frozen=True)
class Price:
    sku: str
    cents: int | None


@dataclass(frozen=True)
class Priced:
    sku: str | None
    amount: int
    cents: int | None


PRICES = {"a": Price("a", 100), "b": Price("b", 250)}
SALES = [Sale("a", 1), Sale("b", 2), Sale("a", 3), Sale("x", 4), Sale(None, 5)]


def priced(sale: Sale, price: Price | None) -> Priced:
    return Priced(sale.sku, sale.amount, price.cents if price else None)


class Service:
    """A price service that counts its calls, and may fail the first few times."""

    def __init__(self, failures: int = 0, error: Exception | None = None) -> None:
        self.calls: list[Any] = []
        self.failures = failures
        self.error = error or ConnectionError("it is busy")

    def _called(self, what: Any) -> None:
        self.calls.append(what)
        if self.failures:
            self.failures -= 1
            raise self.error

    def read(self, sku: str) -> Price | None:
        self._called(sku)
        return PRICES.get(sku)

    def read_all(self, skus: list[str]) -> Mapping[str, Price]:
        self._called(list(skus))
        return {sku: PRICES[sku] for sku in skus if sku in PRICES}

    async def read_soon(self, sku: str) -> Price | None:
        self._called(sku)
        await asyncio.sleep(0.001)
        return PRICES.get(sku)

    def write(self, sku: str, row: Any) -> None:
        self._called((sku, row))

    def write_all(self, rows: Sequence[tuple[str, Any]]) -> None:
        self._called(list(rows))


def joining(
    reader: Any,
    *,
    how: str = "left",
    function: Any = priced,
    on_error: Any = "fail",
    dead: bool = False,
    schema: Any = Price,
    **options: Any,
) -> TestDriver:
    def describe(app: Any) -> None:
        prices = app.remote_table("prices", key="sku", schema=schema, reader=reader, **options)
        policy = dead_letter(app.output_stream("bad")) if dead else on_error
        joined = app.input_stream("sales", schema=Sale).join(
            prices, function, how=how, id="with-price", on_error=policy
        )
        joined.send_to(app.output_stream("out"))

    return TestDriver(stream_application("shop")(describe))


def writing(
    writer: Any, *, on_error: Any = "fail", schema: Any = Price, stream: Any = Price, **options: Any
) -> TestDriver:
    def describe(app: Any) -> None:
        prices = app.remote_table("prices", key="sku", schema=schema, writer=writer, **options)
        app.input_stream("prices-in", schema=stream).send_to(prices, on_error=on_error)

    return TestDriver(stream_application("shop")(describe))


def metrics_of(driver: TestDriver) -> dict[str, float]:
    return {name: value for report in driver.reports() for name, value in report.metrics.items()}


# -- reading -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["read", "read_soon"])
def test_each_distinct_key_of_a_batch_is_read_once(way: str) -> None:
    service = Service()
    driver = joining(getattr(service, way)).pipe("sales", SALES).run()
    assert [row.cents for row in driver.output("out")] == [100, 250, 100, None, None]
    assert sorted(service.calls) == ["a", "b", "x"]


def test_an_inner_join_leaves_out_what_has_no_row() -> None:
    driver = joining(Service().read, how="inner").pipe("sales", SALES).run()
    assert [row.amount for row in driver.output("out")] == [1, 2, 3]


def test_without_a_function_the_columns_of_the_row_stand_beside_the_messages() -> None:
    driver = joining(Service().read, function=None).pipe("sales", SALES).run()
    assert driver.output("out") == [
        {"sku": sale.sku, "amount": sale.amount, "cents": PRICES[sale.sku].cents if sale.sku in PRICES else None}
        for sale in SALES
    ]


def test_a_reader_of_batches_gets_lists_of_keys() -> None:
    service = Service()
    sales = [Sale(f"k{n}", n) for n in range(5)]
    joining(service.read_all, batch_reads=2).pipe("sales", sales).run()
    assert service.calls == [["k0", "k1"], ["k2", "k3"], ["k4"]]


def test_a_reader_of_batches_may_answer_with_a_list() -> None:
    driver = joining(lambda skus: [PRICES.get(sku) for sku in skus], batch_reads=10).pipe("sales", SALES).run()
    assert [row.cents for row in driver.output("out")] == [100, 250, 100, None, None]


def test_coroutines_are_called_several_at_a_time() -> None:
    most = now = 0

    async def read(sku: str) -> Price | None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return None

    joining(read, concurrency=7).pipe("sales", [Sale(f"k{n}", n) for n in range(40)]).run()
    assert most == 7


# -- retries, time-outs, rate, cache
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["read", "read_soon"])
def test_what_fails_is_tried_again(way: str) -> None:
    service = Service(failures=2)
    driver = joining(getattr(service, way), retries=3, backoff="1 ms").pipe("sales", SALES[:1]).run()
    assert driver.output("out") == [Priced("a", 1, 100)]
    assert service.calls == ["a", "a", "a"]
    assert metrics_of(driver)["remote_retries.prices"] == 2


@pytest.mark.parametrize("way", ["read", "read_soon"])
def test_who_gives_up_says_table_key_and_attempts(way: str) -> None:
    service = Service(failures=100)
    with pytest.raises(
        RemoteTableError,
        match=r"remote table 'prices' .*for the key 'a', after 3 attempts: ConnectionError: it is busy",
    ):
        joining(getattr(service, way), retries=2, backoff="1 ms").pipe("sales", SALES).run()
    assert service.calls == ["a"] * 3, "nobody goes on asking a service that is down"


def test_only_the_errors_named_are_worth_another_try() -> None:
    service = Service(failures=1, error=ValueError("no such sku"))
    with pytest.raises(RemoteTableError, match="at the first attempt: ValueError"):
        joining(service.read, retry_on=(OSError, TimeoutError)).pipe("sales", SALES).run()


def test_a_coroutine_that_takes_too_long_is_tried_again_and_given_up() -> None:
    async def read(sku: str) -> Price | None:
        await asyncio.sleep(30)
        return None

    with pytest.raises(RemoteTableError, match="after 2 attempts: TimeoutError: it gave no result within 5 ms"):
        joining(read, timeout="5 ms", retries=1, backoff="1 ms").pipe("sales", SALES).run()


def test_the_rate_holds_calls_back() -> None:
    service = Service()
    started = time.monotonic()
    joining(service.read, rate="50/second").pipe("sales", [Sale(f"k{n}", n) for n in range(15)]).run()
    assert len(service.calls) == 15
    assert time.monotonic() - started > 0.15, "a burst of five, then ten calls at 20 ms each"


def test_rows_are_cached_from_batch_to_batch() -> None:
    service = Service()
    driver = joining(service.read, cache_rows=100).pipe("sales", SALES).pipe("sales", SALES).run(epoch_messages=5)
    assert sorted(service.calls) == ["a", "b", "x"]
    assert metrics_of(driver).get("remote_cache_hits.prices", 0) > 0


def test_a_cached_row_lives_as_long_as_it_may() -> None:
    service = Service()

    def slowly(sale: Sale, price: Price | None) -> Sale:
        time.sleep(0.02)
        return sale

    sales = (
        joining(service.read, function=slowly, cache_rows=100, cache_ttl="10 ms")
        .pipe("sales", SALES[:1])
        .pipe("sales", SALES[:1])
    )
    sales.run(epoch_messages=1)
    assert service.calls == ["a", "a"]


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_row_of_another_shape_is_named() -> None:
    with pytest.raises(RemoteTableError, match=r"returned .* for the key 'a' .*cents.*; expected: the columns sku"):
        joining(lambda sku: {"sku": sku, "cents": "much"}).pipe("sales", SALES).run()


def test_a_list_of_rows_in_another_order_than_the_keys_is_rejected() -> None:
    with pytest.raises(
        RemoteTableError, match=r"returned Price\(sku='b', cents=250\) for the key 'a' \(a row of another key\)"
    ):
        joining(lambda skus: [PRICES.get(sku) for sku in reversed(skus)], batch_reads=2).pipe("sales", SALES[:2]).run()


def test_an_answer_to_a_batch_that_is_no_answer_is_named() -> None:
    with pytest.raises(RemoteTableError, match="expected: a mapping from key to row, or a list of 3 rows"):
        joining(lambda skus: [None], batch_reads=10).pipe("sales", SALES).run()


def test_messages_whose_row_cannot_be_read_become_dead_letters_and_the_others_go_on() -> None:
    def read(sku: str) -> Price | None:
        if sku == "b":
            raise ConnectionError("gone")
        return PRICES.get(sku)

    driver = joining(read, dead=True, retries=0).pipe("sales", SALES).run()
    assert [row.amount for row in driver.output("out")] == [1, 3, 4, 5]
    (letter,) = driver.output("bad")
    assert (letter["stream"], letter["offset"], letter["operator"]) == ("sales", 1, "shop-1-join-with-price")
    assert "ConnectionError: gone" in letter["error"]


def test_a_join_without_a_function_may_drop_what_cannot_be_read() -> None:
    driver = joining(Service(failures=1).read, function=None, on_error="drop", retries=0).pipe("sales", SALES).run()
    assert [row.amount for row in driver.output("out")] == [2, 4, 5], "both messages of the key that failed are dropped"


# -- writing -----------------------------------------------------------------------------------------------------------


def test_rows_are_written_in_order_and_a_null_value_deletes() -> None:
    service = Service()
    rows = [Price("a", 1), Price("b", 2), Price("a", None), Price("a", 3)]
    writing(service.write).pipe("prices-in", rows).run()
    assert service.calls == [("a", rows[0]), ("b", rows[1]), ("a", None), ("a", rows[3])]


def test_a_writer_of_batches_gets_pairs() -> None:
    service = Service()
    rows = [Price(f"k{n}", n) for n in range(3)]
    writing(service.write_all, batch_writes=2).pipe("prices-in", rows).run()
    assert service.calls == [[("k0", rows[0]), ("k1", rows[1])], [("k2", rows[2])]]


def test_writes_of_one_key_keep_their_order_where_calls_overlap() -> None:
    last: dict[str, int] = {}

    async def write(sku: str, row: Price) -> None:
        await asyncio.sleep(0.001 if row.cents and row.cents % 2 else 0.004)
        assert row.cents == last.get(sku, -1) + 1
        last[sku] = row.cents

    writing(write, concurrency=20).pipe("prices-in", [Price(f"k{n % 4}", n // 4) for n in range(40)]).run()
    assert last == {f"k{n}": 9 for n in range(4)}


def test_a_null_key_is_not_written_but_counted() -> None:
    service = Service()
    driver = writing(service.write, schema="sku string, cents int", stream="sku string, cents int")
    driver.pipe("prices-in", [{"sku": None, "cents": 1}, {"sku": "a", "cents": 2}]).run()
    assert [key for key, _ in service.calls] == ["a"]
    assert metrics_of(driver)["remote_null_keys_ignored.prices"] == 1


def test_a_write_that_fails_names_the_key_and_may_be_dropped() -> None:
    with pytest.raises(
        RemoteTableError, match=r"the writer of the remote table 'prices' .*for the key 'a', after 2 attempts"
    ):
        writing(Service(failures=9).write, retries=1, backoff="1 ms").pipe("prices-in", [Price("a", 1)]).run()
    service = Service(failures=1)
    driver = writing(service.write, retries=0, on_error="drop").pipe("prices-in", [Price("a", 1), Price("b", 2)]).run()
    assert len(service.calls) == 2
    assert metrics_of(driver)["remote_writes.prices"] == 1


def test_a_row_that_was_written_is_read_again() -> None:
    rows: dict[str, Price] = dict(PRICES)

    def describe(app: Any) -> None:
        prices = app.remote_table(
            "prices", key="sku", schema=Price, reader=rows.get, writer=rows.__setitem__, cache_rows=10
        )
        sales = app.input_stream("sales", schema=Sale)
        raised = sales.join(
            prices, lambda sale, price: Price(price.sku, price.cents + sale.amount), schema=Price, id="raise"
        )
        raised.send_to(prices)
        raised.send_to(app.output_stream("out"))

    driver = TestDriver(stream_application("shop")(describe)).pipe("sales", [Sale("a", 1), Sale("a", 2)]).run()
    assert [row.cents for row in driver.output("out")] == [101, 103], "each message sees what those before it wrote"


def test_the_plan_says_that_writes_are_at_least_once() -> None:
    assert "at least once, → table prices" in explain(writing(Service().write).plan)


# -- low-level tasks ---------------------------------------------------------------------------------------------------


def test_a_low_level_task_reads_and_writes_a_remote_table() -> None:
    rows: dict[str, Any] = {"a": {"sku": "a", "cents": 5}}

    class Raising:
        def init(self, context: Any) -> None:
            self.prices = context.get_table("prices")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            sale = envelope.message
            row = self.prices.get(sale.sku)
            if row is None:
                self.prices.delete(sale.sku)
            else:
                self.prices.put(sale.sku, {"sku": row["sku"], "cents": row["cents"] + sale.amount})

    def write(sku: str, row: Any) -> None:
        rows[sku] = row

    @task_application("raising")
    def raising(app: Any) -> None:
        app.input_stream("sales", schema=Sale)
        app.remote_table("prices", key="sku", schema="sku string, cents int", reader=rows.get, writer=write)
        app.task(Raising)

    driver = TestDriver(raising).pipe("sales", [Sale("a", 1), Sale("a", 2), Sale("z", 1)]).run()
    assert rows == {"a": {"sku": "a", "cents": 8}, "z": None}
    assert metrics_of(driver)["remote_writes.prices"] == 3


@pytest.mark.parametrize("way", ["read", "read_soon"])
def test_a_task_that_handles_a_failed_read_reads_on(way: str) -> None:
    service, seen = Service(failures=1), []

    class Reading:
        def init(self, context: Any) -> None:
            self.prices = context.get_table("prices")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            try:
                seen.append(self.prices.get(envelope.message.sku))
            except RemoteTableError as error:
                seen.append(error.facts["key"])

    @task_application("reading-on")
    def reading_on(app: Any) -> None:
        app.input_stream("sales", schema=Sale)
        app.remote_table("prices", key="sku", reader=getattr(service, way), retries=0)
        app.task(Reading)

    TestDriver(reading_on).pipe("sales", [Sale("a", 1), Sale("b", 2)]).run()
    assert seen == ["'a'", PRICES["b"]]


def test_a_task_that_handles_a_failed_write_reads_what_was_written_before_it() -> None:
    rows, seen = {"a": {"sku": "a", "cents": 1}}, []

    def write(sku: str, row: Any) -> None:
        if sku == "b":
            raise ConnectionError("it is busy")
        rows[sku] = row

    class Writing:
        def init(self, context: Any) -> None:
            self.prices = context.get_table("prices")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            seen.append(self.prices.get("a")["cents"])
            with pytest.raises(RemoteTableError):
                self.prices.put_all({sku: {"sku": sku, "cents": 2} for sku in "ab"})
            seen.append(self.prices.get("a")["cents"])

    @task_application("writing-on")
    def writing_on(app: Any) -> None:
        app.input_stream("sales", schema=Sale)
        app.remote_table(
            "prices", key="sku", reader=rows.get, writer=write, retries=0, cache_rows=9, cache_ttl="1 hour"
        )
        app.task(Writing)

    TestDriver(writing_on).pipe("sales", [Sale("a", 1)]).run()
    assert seen == [1, 2]


def touching(act: Callable[[Any], object], **table: Any) -> TestDriver:
    """A low-level task that does something with a remote table for each message."""

    class Touching:
        def init(self, context: Any) -> None:
            self.prices = context.get_table("prices")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            act(self.prices)

    @task_application("touching")
    def application(app: Any) -> None:
        app.input_stream("sales", schema=Sale)
        app.remote_table("prices", key="sku", schema="sku string, cents int", **table)
        app.task(Touching)

    return TestDriver(application).pipe("sales", [Sale("a", 1)])


def test_a_task_cannot_read_a_table_without_a_reader() -> None:
    with pytest.raises(SamzaError, match="The task reads the remote table 'prices', which has no reader") as raised:
        touching(lambda prices: prices.get("a"), writer=lambda sku, row: None).run()
    assert raised.value.hint


def test_a_task_cannot_write_a_table_without_a_writer() -> None:
    with pytest.raises(SamzaError, match="remote table 'prices', which has no writer") as raised:
        touching(lambda prices: prices.put("a", {"sku": "a", "cents": 1}), reader=lambda sku: None).run()
    assert raised.value.hint


# -- what is rejected ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rate": "fast"}, "rate='fast'"),
        ({"retries": -1}, "retries=-1"),
        ({"batch_reads": 0}, "batch_reads=0"),
        ({"concurrency": 4}, "concurrency=4 and no coroutine function"),
        ({"timeout": "1 s"}, "timeout='1 s' and no coroutine function"),
        ({"cache_ttl": "1 s"}, "cache_ttl= and no cache"),
        ({"retry_on": "OSError"}, "retry_on='OSError'"),
        ({"retrys": 3}, "no parameter 'retrys'"),
    ],
)
def test_contradictions_are_rejected_where_they_are_written(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidApplication) as error:
        joining(lambda sku: None, **options)
    assert said in error.value.sentence
    assert "test_remote_tables.py" in error.value.sentence


def test_on_error_of_a_send_is_for_remote_tables() -> None:
    def describe(app: Any) -> None:
        app.input_stream("s", schema=Sale).send_to(app.output_stream("o"), on_error="drop")

    with pytest.raises(InvalidApplication, match="on_error=, which is for remote tables"):
        stream_application("shop")(describe).spec()

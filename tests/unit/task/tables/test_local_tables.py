"""Tables that an application writes: time to live, and what low-level tasks read and write, from epoch to epoch."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import pytest

from airflow_samza import StreamTask, stream_application, task_application
from airflow_samza.errors import SamzaError
from airflow_samza.testing import TestDriver

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)


@dataclass(frozen=True)
class Price:
    item: str
    price: int
    at: datetime.datetime


@dataclass(frozen=True)
class Sale:
    item: str
    at: datetime.datetime


def minute(number: int) -> datetime.datetime:
    return START + datetime.timedelta(minutes=number)


def priced(app: Any, *, timed: bool, bounded: bool = True) -> None:
    time = {"timestamp": "at"} if timed else {}
    prices = app.input_stream("prices", schema=Price, key="item", bounded=bounded, **time)
    sales = app.input_stream("sales", schema=Sale, key="item", bounded=bounded, **time)
    current = app.local_table("current", key="item", schema=Price, ttl="10 minutes")
    prices.send_to(current)
    told = sales.join(
        current, lambda sale, row: {"item": sale.item, "price": row.price}, id="priced", schema="item string, price int"
    )
    told.send_to(app.output_stream("told", schema="item string, price int"))


def driver_of(**how: Any) -> TestDriver:
    return TestDriver(stream_application("prices")(lambda app: priced(app, **how)))


def told(driver: TestDriver) -> list[tuple[str, int]]:
    return [(row["item"], row["price"]) for row in driver.output("told")]


@pytest.mark.parametrize("mode", [{}, {"mode": "pipelined", "epoch_messages": 1}])
def test_by_event_time_a_row_is_found_until_its_time_to_live_is_over(mode: Any) -> None:
    driver = driver_of(timed=True).pipe("prices", [Price("tea", 3, minute(0)), Price("rice", 5, minute(8))])
    driver.pipe(
        "sales", [Sale("tea", minute(9)), Sale("tea", minute(10)), Sale("rice", minute(17)), Sale("rice", minute(18))]
    )
    assert told(driver.run(**mode)) == [("tea", 3), ("rice", 5)]


def test_by_processing_time_a_row_is_found_until_the_clock_has_gone_on() -> None:
    driver = driver_of(timed=False, bounded=False).pipe("prices", [Price("tea", 3, START)]).step()
    driver.advance("9 minutes").pipe("sales", [Sale("tea", START)]).step()
    assert told(driver) == [("tea", 3)]
    driver.advance("1 minute").pipe("sales", [Sale("tea", START)]).step()
    assert told(driver) == [("tea", 3)]
    assert driver.table_rows("current") == []  # and it is not kept


def test_a_table_of_whose_users_only_some_have_event_time_goes_by_the_clock() -> None:
    def describe(app: Any) -> None:
        prices = app.input_stream("prices", schema=Price, key="item", bounded=False, timestamp="at", max_delay="1 hour")
        sales = app.input_stream("sales", schema=Sale, key="item", bounded=False)
        current = app.local_table("current", key="item", schema=Price, ttl="10 minutes")
        prices.send_to(current)
        joined = sales.join(current, lambda sale, row: {"item": sale.item}, id="priced", schema="item string")
        joined.send_to(app.output_stream("told", schema="item string"))

    driver = TestDriver(stream_application("prices")(describe)).pipe("prices", [Price("tea", 3, START)]).step()
    driver.advance("9 minutes").pipe("sales", [Sale("tea", minute(90))]).step()
    assert [row["item"] for row in driver.output("told")] == ["tea"]
    driver.advance("1 minute").pipe("sales", [Sale("tea", START)]).step()
    assert [row["item"] for row in driver.output("told")] == ["tea"]


def test_writing_a_row_again_begins_its_time_to_live_anew() -> None:
    driver = driver_of(timed=True).pipe("prices", [Price("tea", 3, minute(0)), Price("tea", 4, minute(9))])
    assert told(driver.pipe("sales", [Sale("tea", minute(18))]).run()) == [("tea", 4)]


def test_what_is_over_is_not_kept() -> None:
    driver = driver_of(timed=False, bounded=False)
    for number in range(20):
        driver.pipe("prices", [Price(f"item {number}-{each}", 1, START) for each in range(50)]).step().advance(
            "1 minute"
        )
    assert len(driver.table_rows("current")) <= 500


class Counting(StreamTask):
    """Reads, changes and writes a row for each message."""

    def init(self, context: Any) -> None:
        self.table = context.get_table("counts")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        item = envelope.message.item
        former = self.table.get(item)
        if item == "drop":
            for key in ("tea", "nothing"):
                self.table.delete(key)
            return
        self.table.put(item, {"item": item, "n": (former.n if former is not None else 0) + 1})
        collector.send("counted", {"item": item, "n": self.table.get(item).n})


def counting(task: type[Any] = Counting, *, bounded: bool = True) -> TestDriver:
    def describe(app: Any) -> None:
        app.input_stream("sales", schema=Sale, key="item", bounded=bounded)
        app.output_stream("counted", schema="item string, n bigint")
        app.local_table("counts", key="item", schema="item string, n bigint")
        app.task(task)

    return TestDriver(task_application("counting")(describe))


SALES = [Sale(item, START) for item in ["tea", "rice", "tea", "tea", "drop", "rice", "tea", "rice"]]


@pytest.mark.parametrize(
    "mode", [{}, {"mode": "pipelined", "epoch_messages": 1}, {"mode": "pipelined", "epoch_messages": 3}]
)
def test_a_low_level_task_reads_what_it_and_its_former_epochs_wrote(mode: Any) -> None:
    driver = counting().pipe("sales", SALES).run(**mode)
    found = [(row["item"], row["n"]) for row in driver.output("counted")]
    assert found == [("tea", 1), ("rice", 1), ("tea", 2), ("tea", 3), ("rice", 2), ("tea", 1), ("rice", 3)]
    assert sorted((row.item, row.n) for row in driver.table_rows("counts")) == [("rice", 3), ("tea", 1)]


def test_a_low_level_tasks_table_goes_on_in_the_next_run() -> None:
    driver = counting(bounded=False)
    for sale in SALES:
        driver.pipe("sales", [sale]).catch_up()
    assert sorted((row.item, row.n) for row in driver.table_rows("counts")) == [("rice", 3), ("tea", 1)]


class Wrong(StreamTask):
    """Does what its messages say."""

    def init(self, context: Any) -> None:
        self.table = context.get_table("counts")

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        if envelope.message.item == "key":
            self.table.get(7.5)
        if envelope.message.item == "row":
            self.table.put("row", {"item": "row", "n": "many"})
        if envelope.message.item == "other":
            self.table.put("other", {"item": "rice", "n": 1})
        if envelope.message.item == "parts":
            self.table.get(("tea", 1))


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ("key", "is asked for the key 7.5"),
        ("row", "into the table 'counts': "),
        ("other", "puts a row whose key is 'rice' under the key 'other'"),
        ("parts", "is asked for the key ('tea', 1)"),
    ],
)
def test_what_cannot_be_a_key_or_a_row_is_rejected_with_the_line(item: str, words: str) -> None:
    with pytest.raises(SamzaError) as caught:
        counting(Wrong).pipe("sales", [Sale(item, START)]).run()
    assert words in str(caught.value)
    assert "test_local_tables.py" in str(caught.value)


@pytest.mark.parametrize(("changelog", "left"), [(True, 2), (False, 1)])
def test_a_table_without_a_changelog_is_lost_with_the_run(changelog: bool, left: int) -> None:
    def describe(app: Any) -> None:
        sales = app.input_stream("sales", schema=Sale, key="item", bounded=False)
        sales.send_to(app.local_table("sold", key="item", schema=Sale, changelog=changelog))

    driver = TestDriver(stream_application("scratch")(describe)).pipe("sales", [Sale("tea", START)]).catch_up()
    driver.pipe("sales", [Sale("rice", START)]).catch_up()
    assert len(driver.table_rows("sold")) == left


def test_a_table_without_a_changelog_goes_on_from_epoch_to_epoch() -> None:
    def describe(app: Any) -> None:
        sales = app.input_stream("sales", schema=Sale, key="item")
        sales.send_to(app.local_table("sold", key="item", schema=Sale, changelog=False))

    driver = (
        TestDriver(stream_application("scratch")(describe)).pipe("sales", SALES).run(mode="pipelined", epoch_messages=1)
    )
    assert len(driver.table_rows("sold")) == 3


@pytest.mark.parametrize("config", [{}, {"stores.sold.changelog": "sold-changes"}])
def test_what_is_written_to_a_table_is_in_its_changelogs_stream_for_others_to_read(config: dict[str, str]) -> None:
    def describe(app: Any) -> None:
        sales = app.input_stream("sales", schema=Sale, key="item")
        sales.where("item != 'drop'").send_to(
            app.local_table("sold", key="item", schema=Sale, changelog=True if config else "sold-changes")
        )

    driver = TestDriver(stream_application("told")(describe), config=config).pipe("sales", SALES).run()
    assert driver.output("sold-changes") == [sale for sale in SALES if sale.item != "drop"]


@pytest.mark.parametrize("changelog", ["no stream", 7, ""])
def test_a_changelog_that_is_no_stream_is_rejected(changelog: Any) -> None:
    def describe(app: Any) -> None:
        app.local_table("sold", key="item", schema=Sale, changelog=changelog)

    with pytest.raises(SamzaError, match="changelog"):
        stream_application("told")(describe).spec()


@pytest.mark.parametrize("key", [1.5, True, "1", 2**63])
def test_a_key_that_is_only_nearly_one_is_rejected(key: Any) -> None:
    class Asks(StreamTask):
        def init(self, context: Any) -> None:
            self.table = context.get_table("numbers")

        def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
            self.table.get(key)

    @task_application("numbers")
    def app(app: Any) -> None:
        app.input_stream("in", schema="n bigint", key="n")
        app.local_table("numbers", key="n", schema="n bigint, word string")
        app.task(Asks)

    with pytest.raises(SamzaError, match="is asked for the key"):
        TestDriver(app).pipe("in", [{"n": 1}]).run()

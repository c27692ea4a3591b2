"""The page on remote tables: its application runs."""

from __future__ import annotations

from airflow_samza.testing import TestDriver
from tests.support.documentation_pages import executed


def test_the_application_of_the_page_reads_and_writes_the_shop() -> None:
    scope = executed("how-to/remote-tables.md")
    price, sale = scope["Price"], scope["Sale"]
    driver = TestDriver(scope["shop"]).pipe("new-prices", [price("c", 7), price("b", None)])
    driver.pipe("sales", [sale("a", 1), sale("z", 2)]).run()
    assert [(row["sku"], row["cents"]) for row in driver.output("priced")] == [("a", 100), ("z", None)]
    assert {sku: row.cents for sku, row in scope["SHOP"].items()} == {"a": 100, "c": 7}

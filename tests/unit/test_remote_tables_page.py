"""The page on remote tables: its application runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from airflow_samza.testing import TestDriver

PAGE = Path(__file__).parents[2] / "docs/remote-tables.md"


def test_the_application_of_the_page_reads_and_writes_the_shop() -> None:
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    scope: dict[str, Any] = {"__name__": "page"}
    for block in code:
        exec(compile(block, str(PAGE), "exec", dont_inherit=True), scope)
    price, sale = scope["Price"], scope["Sale"]
    driver = TestDriver(scope["shop"]).pipe("new-prices", [price("c", 7), price("b", None)])
    driver.pipe("sales", [sale("a", 1), sale("z", 2)]).run()
    assert [(row["sku"], row["cents"]) for row in driver.output("priced")] == [("a", 100), ("z", None)]
    assert {sku: row.cents for sku, row in scope["SHOP"].items()} == {"a": 100, "c": 7}

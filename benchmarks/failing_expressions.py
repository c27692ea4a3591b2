"""Processor time of expressions that can fail, on Arrow and in Catalyst.

``python -m benchmarks.failing_expressions [ROWS] [ROUNDS]``. They are what `task/expressions/dropped.py` decides about:
without it each of them would run in Catalyst. The same rows go through both, in turn, in one Spark. A condition keeps
one row of a hundred, so that writing counts for little; a select is followed by such a condition.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow_samza import stream_application
from benchmarks.catalyst_beside import ROWS, measure

CONDITIONS = {
    "sum": "(k + 7) % 100 = 3",
    "product": "k * 2 % 200 = 6",
    "cast": "CAST(substring(name, 6) AS bigint) % 100 = 3",
    "division": "1000000 div (k + 1) = 7",
    "choice": "CASE WHEN k > 0 THEN (k + 7) % 100 ELSE 0 END = 3 AND name LIKE 'name%'",
}
SELECTED = {"select": ("k + 1 AS k", "name", "price / (k + 1) AS price")}


def _application(case: str, *, on_arrow: bool) -> Any:
    def describe(app: Any) -> None:
        rows = app.input_stream("rows", system="log", schema=ROWS, partitions=2)
        if condition := CONDITIONS.get(case):
            kept = (
                rows.where(condition, id="kept")
                if on_arrow
                else rows.transform(lambda frame: frame.where(condition), schema=ROWS, id="kept")
            )
        else:
            texts = SELECTED[case]
            selected = (
                rows.select(*texts, id="selected")
                if on_arrow
                else rows.transform(lambda frame: frame.selectExpr(*texts), schema=ROWS, id="selected")
            )
            kept = selected.where("name LIKE '%1_7'", id="kept")
        kept.send_to(app.output_stream("out", system="log"), id="to-out")

    return stream_application(f"failing-{case}-{'arrow' if on_arrow else 'catalyst'}")(describe)


NAMES = tuple(f"{case}_{engine}" for case in (*CONDITIONS, *SELECTED) for engine in ("arrow", "catalyst"))
globals().update({name: _application(name.partition("_")[0], on_arrow=name.endswith("_arrow")) for name in NAMES})


if __name__ == "__main__":
    measure(
        "benchmarks.failing_expressions",
        NAMES,
        *[int(text) for text in (*sys.argv[1:], *("1000000", "3")[len(sys.argv) - 1 :])],
    )

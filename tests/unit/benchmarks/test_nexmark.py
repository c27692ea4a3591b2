"""The benchmark of Nexmark: what PyFlink writes is read as the types of the reference, and the table has everybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.nexmark import CANNOT, MODES, QUERIES, WHO, rows_of, table
from benchmarks.nexmark_events import house
from benchmarks.nexmark_reference import expected
from benchmarks.run import in_one_order


@pytest.mark.parametrize(("query", "line"), [("q5", "{0},{1},{2}"), ("q8", "{0},{1},{2}")])
def test_times_in_text_are_read_as_those_of_the_reference(tmp_path: Path, query: str, line: str) -> None:
    reference = expected(query, house(5000, per_second=100))
    rows = [list(row.values()) for row in reference.to_pylist()]
    texts = [[str(value).replace("+00:00", "") for value in row] for row in rows]
    (tmp_path / "part-0").write_text("\n".join(line.format(*row) for row in texts) + "\n")
    assert rows_of(tmp_path, reference).equals(in_one_order(reference))


def test_a_run_that_cannot_be_is_a_dash() -> None:
    best = {(query, mode, who): 1.5 for query in QUERIES for mode in MODES for who in WHO}
    lines = table({key: seconds for key, seconds in best.items() if (key[2], key[0], key[1]) not in CANNOT})
    assert len(lines) == 2 + len(QUERIES)
    assert sum(line.count("–") for line in lines) == len(CANNOT)

"""The benchmark of Nexmark: what PyFlink writes is read as the types of the reference, and the table has everybody."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from benchmarks import nexmark
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


class Idle:
    """A runtime that runs nothing, and notes its roots."""

    roots: ClassVar[list[str]] = []

    def __init__(self, root: str, bindings: object, **options: object) -> None:
        self.roots.append(root)

    def prepare(self, request: object) -> SimpleNamespace:
        return SimpleNamespace(plan=SimpleNamespace(stages=[]))

    def drain(self, run: object) -> None:
        """Do nothing."""

    def close(self, run: object, wait_seconds: float) -> None:
        """Do nothing."""


def test_rounds_share_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nexmark, "SparkRuntime", Idle)
    monkeypatch.setattr(Idle, "roots", [])
    ours = nexmark.Ours(tmp_path, 1)
    for mode in MODES:
        for number in range(2):
            ours.run("q0", mode, f"q0-{mode}-{number}")
    assert len(set(Idle.roots)) == len(Idle.roots) == 2 * len(MODES)

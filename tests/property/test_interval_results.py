"""Runs over the last days give what a recomputation gives, whatever came late, was rewritten or is missing."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.budgets import share
from tests.support.interval_apps import DAYS, TWICE, WINDOWS, Lake

ACTS = 12
PAGES = ("home", "jobs", "feed", "me")
Rows = list[tuple[str, int | None, float]]


def some_rows(chance: random.Random) -> Rows:
    return [
        (chance.choice(PAGES), chance.choice((None, *range(-2, 60))), chance.uniform(-1e6, 1e6))
        for _ in range(chance.choice((0, 1, 5, 40)))
    ]


def counted(rows: Sequence[tuple[str, int | None, float]]) -> dict[str, tuple[int, int | None]]:
    """Return the count and the sum of ``dwell`` by page, of the rows that the application keeps."""
    kept = defaultdict(list)
    for page, dwell, _ in rows:
        if dwell is None or dwell >= 0:
            kept[page].append(dwell)
    sums = {page: [dwell for dwell in dwells if dwell is not None] for page, dwells in kept.items()}
    return {page: (len(dwells), sum(sums[page]) if sums[page] else None) for page, dwells in kept.items()}


@pytest.mark.random
@pytest.mark.parametrize("seed", range(share(40, 2)))
def test_a_run_gives_what_a_recomputation_gives(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    lake = Lake(tmp_path)
    files: dict[int, dict[str, tuple[int, Rows]]] = defaultdict(dict)
    computed: set[Any] = set()
    for act in range(ACTS):
        day = chance.randrange(1, 9)
        what = chance.choice(("write", "write", "forget", "run", "run", "run"))
        if what == "write":  # a late file, or one that is written anew
            name = chance.choice("abc")
            files[day][name] = act, some_rows(chance)
            lake.write(day, name, files[day][name][1])
        elif what == "forget":
            files.pop(day, None)
            lake.forget(day)
        else:
            days = range(max(day - DAYS + 1, 1), day + 1)
            run = lake.run(day)
            anew = lake.root(f"anew-{act}")
            again = lake.run(day, here=anew)
            assert lake.rows(run) == lake.rows(again)
            rows = [row for each in days for _, of_file in files[each].values() for row in of_file]
            assert {row["page"]: (row["views"], row["dwelt"]) for row in lake.rows(run)} == counted(rows)
            new = {(each, repr(sorted(files[each].items()))) for each in days if files[each]} - computed
            read, _, _ = lake.read(run)
            assert read <= sum(len(of) for each, _ in new for _, of in files[each].values())
            computed |= new


@pytest.mark.parametrize("application", [TWICE, WINDOWS])
def test_backfills_in_any_order_share_what_they_compute(tmp_path: Path, application: str) -> None:
    chance = random.Random(application)
    lake = Lake(tmp_path)
    for day in range(1, 9):
        lake.write(day, "a", [*some_rows(chance), ("home", day, 1.0)])
    days = [4, 5, 6, 7, 8]
    chance.shuffle(days)
    seen: set[int] = set()
    for day in days:
        run = lake.run(day, application)
        window = set(range(day - DAYS + 1, day + 1))
        assert lake.read(run)[1:] == (len(window & seen), len(window - seen))
        seen |= window
        anew = lake.run(day, application, lake.root(f"anew-{day}"))
        for output in ("out", "dwells") if application == TWICE else ("out",):
            assert lake.rows(run, output) == lake.rows(anew, output)

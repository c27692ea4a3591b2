"""Acts × ways in: after any edit, whatever is asked for next and whichever way, a green run has the right rows.

Each cell is equal to a run from scratch, or rejected with a hint whose act leads there (:mod:`tests.support.acts.cells`).
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import tests.support.airflow_home  # noqa: F401
from tests.support.acts.cells import EQUAL, REJECTED, WRONG, Cell, Verdict, applies
from tests.support.acts.report import cells, look, table

SEEDS = (3, 22, 30)
"""Applications of the sample: a looked-up table and days; a window and no interval; a join, and outputs of all kinds."""

NIGHTLY_SEEDS = int(os.environ.get("ACTS_SEEDS", "12"))
"""Applications of which every cell is looked at nightly."""


def sample() -> list[list[Cell]]:
    """Return cells of each application, which have every pair of act, what comes next, and way in between them."""
    candidates = [cell for cell in cells(SEEDS) if applies(cell)]
    random.Random(27).shuffle(candidates)
    missing = {pair for cell in candidates for pair in pairs(cell)}
    found: list[Cell] = []
    for least in (3, 2, 1):
        for cell in candidates:
            if len(pairs(cell) & missing) >= least:
                found.append(cell)
                missing -= pairs(cell)
    found.sort(key=lambda cell: (cell.way, cell.act))
    return [[cell for cell in found if cell.seed == seed] for seed in SEEDS]


def pairs(cell: Cell) -> set[tuple[str, str]]:
    """Return the pairs that a cell has."""
    return {(cell.act, cell.then), (cell.act, cell.way), (cell.then, cell.way)}


SAMPLE = sample()


def check(verdicts: list[Verdict]) -> None:
    wrong = [str(verdict) for verdict in verdicts if verdict.outcome == WRONG]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(verdicts)} cells are wrong:", *wrong])


@pytest.mark.parametrize(
    "sampled",
    [
        pytest.param(SAMPLE[0][::16], id=f"some-of-seed-{SEEDS[0]}"),
        *(
            pytest.param(cells_of_seed, marks=pytest.mark.nightly, id=f"seed-{seed}")
            for seed, cells_of_seed in zip(SEEDS, SAMPLE, strict=True)
        ),
    ],
)
def test_what_comes_after_an_edit_equals_a_run_from_scratch_or_is_rejected_with_the_act_that_helps(
    sampled: list[Cell],
) -> None:
    verdicts = look(sampled)
    check(verdicts)
    counts = Counter(verdict.outcome for verdict in verdicts)
    assert counts[EQUAL] > len(sampled) / 4
    assert counts[REJECTED] > len(sampled) / 10


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1000 + NIGHTLY_SEEDS))
def test_every_cell_of_an_application_is_right(seed: int) -> None:
    verdicts = look(cells([seed]))
    print(table(verdicts))
    check(verdicts)

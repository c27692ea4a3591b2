"""Acts × ways in: after any edit, whatever is asked for next and whichever way, a green run has the right rows.

Each cell is equal to a run from scratch, or rejected with a hint whose act leads there (:mod:`tests.support.acts.cells`).
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest

import tests.support.airflow_home  # noqa: F401
from tests.support.acts.cells import EQUAL, REJECTED, WRONG, Cell, Verdict
from tests.support.acts.edits import ACTS
from tests.support.acts.report import cells, look, table
from tests.support.acts.ways import NEXTS, WAYS

SEEDS = (3, 4, 17, 29)
"""Applications of the sample: between them they have all kinds of nodes."""

CELLS = int(os.environ.get("ACTS_CELLS", "60"))
"""Cells of each application in the sample."""

NIGHTLY_SEEDS = int(os.environ.get("ACTS_SEEDS", "12"))
"""Applications of which every cell is looked at nightly."""


def sample() -> list[list[Cell]]:
    """Return cells of each application: one for each act and way in, in turn for what comes next."""
    rng = random.Random(27)
    wanted = [(act, then, way.name) for act in ACTS for then in NEXTS for way in WAYS if then in way.nexts]
    rng.shuffle(wanted)
    share = len(wanted) // len(SEEDS)
    found = []
    for number, seed in enumerate(SEEDS):
        mine = [Cell(seed, *names) for names in wanted[number * share : (number + 1) * share]]
        found.append(sorted(mine[:CELLS], key=lambda cell: (cell.way, cell.act)))
    return found


def check(verdicts: list[Verdict]) -> None:
    wrong = [str(verdict) for verdict in verdicts if verdict.outcome == WRONG]
    assert not wrong, "\n".join([f"{len(wrong)} of {len(verdicts)} cells are wrong:", *wrong])


@pytest.mark.parametrize("cells", sample(), ids=[f"seed-{seed}" for seed in SEEDS])
def test_what_comes_after_an_edit_equals_a_run_from_scratch_or_is_rejected_with_the_act_that_helps(
    cells: list[Cell],
) -> None:
    verdicts = look(cells)
    check(verdicts)
    counts = Counter(verdict.outcome for verdict in verdicts)
    assert counts[EQUAL] > CELLS / 4
    assert counts[REJECTED] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1000 + NIGHTLY_SEEDS))
def test_every_cell_of_an_application_is_right(seed: int) -> None:
    verdicts = look(cells([seed]))
    print(table(verdicts))
    check(verdicts)

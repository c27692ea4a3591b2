"""The matrix of some seeds: ``python -m tests.support.acts.report FIRST LAST [WORDS]`` prints wrong cells, and counts.

``WORDS`` are in the names of the cells that are looked at: ``"clear plan | pipelined"``.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import tests.support.airflow_home  # noqa: F401
from tests.support.acts.cells import EQUAL, LEFT_OUT, REJECTED, WRONG, Cell, Matrix, Verdict
from tests.support.acts.edits import ACTS
from tests.support.acts.ways import NEXTS, WAYS


def cells(seeds: Iterable[int], words: str = "") -> Iterator[Cell]:
    """Return the cells of some seeds, by seed and way in."""
    for seed in seeds:
        for way in WAYS:
            for act in ACTS:
                for then in NEXTS:
                    cell = Cell(seed, act, then, way.name)
                    if words in str(cell):
                        yield cell


def table(verdicts: Iterable[Verdict]) -> str:
    """Return the counts of cells, by act and by what followed it: equal, rejected, and wrong ones behind ``!``."""
    counts = Counter((verdict.cell.act, verdict.cell.then, verdict.outcome) for verdict in verdicts)
    lines = [f"{'equal/rejected':24}" + "".join(f"{then[:16]:>18}" for then in NEXTS)]
    for act in ACTS:
        texts = []
        for then in NEXTS:
            equal, rejected, wrong = (counts[act, then, outcome] for outcome in (EQUAL, REJECTED, WRONG))
            texts.append(f"{equal}/{rejected}" + (f" !{wrong}" if wrong else "") if equal + rejected + wrong else "-")
        lines.append(f"{act:24}" + "".join(f"{text:>18}" for text in texts))
    by_way = Counter((verdict.cell.way, verdict.outcome) for verdict in verdicts)
    for way in WAYS:
        told = ", ".join(f"{by_way[way.name, outcome]} {outcome}" for outcome in (EQUAL, REJECTED, WRONG))
        lines.append(f"{way.name:24}{told}")
    return "\n".join(lines)


@contextmanager
def place() -> Iterator[Path]:
    """Return a folder, in memory where the machine has such: what is written is synced all the time."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="acts-", dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


@contextmanager
def _silent() -> Iterator[None]:
    """Have nobody make records of logs, which take their time."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def look(which: Iterable[Cell], *, aloud: bool = False) -> list[Verdict]:
    """Return the verdicts on cells, of which those that are left out are missing."""
    found = []
    with place() as folder, _silent(), Matrix(folder).ready() as matrix:
        for cell in which:
            verdict = matrix.check(cell)
            if verdict.outcome == LEFT_OUT:
                continue
            found.append(verdict)
            if aloud and verdict.outcome == WRONG:
                print(verdict, flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Print the matrix of seeds."""
    first, last, *words = arguments
    began, used = time.monotonic(), time.process_time()
    found = look(cells(range(int(first), int(last)), *words), aloud=True)
    seconds, used = time.monotonic() - began, time.process_time() - used
    print(table(found))
    wrong = sum(verdict.outcome == WRONG for verdict in found)
    print(
        f"{len(found)} cells, {wrong} wrong; {len(found) / seconds * 60:,.0f} a minute "
        f"({used / max(len(found), 1) * 1000:.0f} ms of a processor each)"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

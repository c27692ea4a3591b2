"""The report of a benchmark: a table in docs/project/benchmarks.md, between its markers, and a picture beside it.

``python -m benchmarks.report RESULTS.json`` makes both anew from the figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import pictures
from benchmarks.results import OURS, Report, WorkloadResult
from benchmarks.workloads import WORKLOADS, Workload

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "project/benchmarks.md"
PICTURE = DOCS / "images" / "benchmarks.svg"
RESULTS = DOCS / "project/benchmarks.json"


def table(found: Report, workloads: Mapping[str, Workload] = WORKLOADS) -> list[str]:
    """The figures as Markdown, in the order of the workloads."""
    lines = [f"Measured on {found.machine}; {found.day}.", ""]
    lines += [
        "| workload | who | best s | median s | CPU s | memory MiB | ours is faster by | goal |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    results = _in_order(found.workloads, workloads)
    for result in results:
        lines += _rows(result, workloads[result.workload])
    for when in sorted({result.when for result in results if result.when}):
        names = ", ".join(_name(result, results) for result in results if result.when == when)
        lines += ["", f"{names}: measured on {when}."]
    if any(found.cold.values()):
        lines += ["", "From nothing to a result (W1 in a process of its own, Spark started and stopped):", ""]
        lines += ["| who | best s | median s | memory MiB |", "|---|---:|---:|---:|"]
        for name, runs in found.cold.items():
            seconds = sorted(run.seconds for run in runs)
            who = "`airflow-samza run`" if name == OURS else "PySpark, DataFrame"
            lines.append(
                f"| {who} | {seconds[0]:.1f} | {seconds[len(seconds) // 2]:.1f} | "
                f"{max(run.memory for run in runs) / 2**20:,.0f} |"
            )
    return lines


def _in_order(results: Sequence[WorkloadResult], workloads: Mapping[str, Workload]) -> list[WorkloadResult]:
    known = list(workloads)
    return sorted(results, key=lambda result: (known.index(result.workload), result.rows))


def _name(result: WorkloadResult, results: Sequence[WorkloadResult]) -> str:
    sizes = {other.rows for other in results if other.workload == result.workload}
    return result.workload if len(sizes) == 1 else f"{result.workload} of {result.rows:,} rows"


def _rows(result: WorkloadResult, workload: Workload) -> list[str]:
    title = f"**{workload.name}** {workload.what}, {result.rows:,} rows"
    lines = [f"| {title} | **{OURS}** | {_figures(result, OURS)} | | |"]
    for peer in workload.peers:
        if peer.name not in result.runs:
            continue  # it cannot be had on that machine
        ratios = sorted(result.ratios(peer.name))
        ratio = (
            f"**{result.ratio(peer.name):.2f}×** ({ratios[0]:.2f}–{ratios[-1]:.2f}; best runs "
            f"{result.best_ratio(peer.name):.2f}×)"
        )
        lines.append(
            f"| | {peer.what} | {_figures(result, peer.name)} | {ratio} | {f'{peer.goal}×' if peer.goal else ''} |"
        )
    return lines


def _figures(result: WorkloadResult, name: str) -> str:
    best = result.best(name)
    seconds = sorted(run.seconds for run in result.runs[name])
    # A worker that ended meanwhile takes the CPU that it had used before along: then the figure says nothing.
    cpu = f"{best.cpu_seconds:.1f}" if best.cpu_seconds > 0 else "–"
    memory = result.memory(name)  # looked at a few times a second: 0 of those that are done sooner
    shown = f"{memory / 2**20:,.0f}" if memory else "–"
    return f"{best.seconds:.2f} | {seconds[len(seconds) // 2]:.2f} | {cpu} | {shown}"


def between_markers(text: str, name: str, lines: list[str]) -> str:
    """A page with what stands between its markers of that name replaced."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        raise SystemExit(f"The page needs one {begin} and one {end}.")
    return re.sub(
        re.escape(begin) + ".*" + re.escape(end),
        lambda _: "\n".join([begin, "", *lines, "", end]),
        text,
        flags=re.DOTALL,
    )


def write_docs(found: Report) -> None:
    """Writes the table, the picture and the figures themselves; what was not measured now stays as it was."""
    pictures.draw_ratios(write_figures(found, PAGE, RESULTS, WORKLOADS), PICTURE)


def write_figures(
    found: Report, page: Path, results: Path, workloads: Mapping[str, Workload], *, sizes: bool = False
) -> Report:
    """Write the table into a page, and the figures; return them beside those that were not measured now.

    With ``sizes`` figures over another number of rows stay.
    """
    if results.exists():
        found = found.beside(Report.from_dict(json.loads(results.read_text())), sizes=sizes)
        found = dataclasses.replace(found, workloads=_in_order(found.workloads, workloads))
    page.write_text(between_markers(page.read_text(), "figures", table(found, workloads)))
    results.write_text(json.dumps(found.to_dict(), indent=1) + "\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the report from the figures.")
    parser.add_argument("results", type=Path, nargs="?", default=RESULTS)
    write_docs(Report.from_dict(json.loads(parser.parse_args().results.read_text())))


if __name__ == "__main__":
    main()

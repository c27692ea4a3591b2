"""Measures the workloads beside PySpark written by hand, in turn, and writes the report.

``python -m benchmarks.run --data DIR [--workload W1 W2] [--rows 5000000] [--repeat 5] [--write-docs]``. Ours and each
peer take turns (ours, peer, ours, peer …), so that whatever else the machine does hits all of them. Their results are
compared row by row.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from benchmarks.arguments import made_folder
from benchmarks.cold import cold_starts
from benchmarks.contenders import OurRuns, PeerRuns
from benchmarks.gen_data import ensure_data
from benchmarks.machine import describe_load, describe_machine
from benchmarks.measuring import Measured
from benchmarks.peer_process import Missing
from benchmarks.results import OURS, Report, WorkloadResult
from benchmarks.workloads import WORKLOADS, Workload


def measure(
    workload: Workload, data: Path, rows: int, repeat: int, cores: int, work: Path, peers: PeerRuns
) -> WorkloadResult:
    """Runs a workload and its peers in turn; the first round of each warms up and does not count."""
    rows = workload.rows or rows
    ensure_data(data, rows)
    ours = OurRuns(workload, data, rows, work, cores)
    runs: dict[str, list[Measured]] = {OURS: [], **{peer.name: [] for peer in workload.peers}}
    stages: list[dict[str, float]] = []
    try:
        for number in range(repeat + 1):
            for name, measured in list(runs.items()):
                try:
                    result = ours.run() if name == OURS else peers.run(name, rows)
                except Missing as error:
                    print(error, flush=True)
                    del runs[name]
                    continue
                said = {
                    "workload": workload.name,
                    "contender": name,
                    "seconds": round(result.seconds, 3),
                    "warm": number > 0,
                }
                print(json.dumps({**said, "cpu_seconds": round(result.cpu_seconds, 2)}), flush=True)
                if number:
                    measured.append(result)
            stages.append(ours.stages)
    finally:
        ours.close()
    expected = rows_of(ours.output)
    for name in runs.keys() - {OURS}:
        reject_different(workload.name, name, expected, rows_of(peers.out / name))
    best = min(range(repeat), key=lambda place: runs[OURS][place].seconds)
    return WorkloadResult(workload.name, rows, runs, stages[best + 1])


def rows_of(directory: Path) -> pa.Table:
    """The rows of a directory of Parquet files, as :func:`in_one_order` returns them."""
    return in_one_order(pa.concat_tables(pq.read_table(path) for path in sorted(directory.glob("part-*.parquet"))))


def in_one_order(table: pa.Table) -> pa.Table:
    """Return the rows in one order, columns by position; integers, times and texts of any type are alike."""
    table = table.rename_columns([f"c{place}" for place in range(table.num_columns)])
    kinds = [(name, _widest(field.type)) for name, field in zip(table.column_names, table.schema, strict=True)]
    table = table.cast(pa.schema(kinds)).replace_schema_metadata()
    return table.sort_by([(name, "ascending") for name in table.column_names]).combine_chunks()


def _widest(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC")
    return pa.string() if pa.types.is_large_string(kind) or pa.types.is_string_view(kind) else kind


def reject_different(workload: str, peer: str, expected: pa.Table, found: pa.Table) -> None:
    """Ends the benchmark when a peer has another result."""
    if not found.equals(expected):
        raise SystemExit(
            f"{workload}: the output differs from {peer}'s ({expected.num_rows} and {found.num_rows} rows)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the workloads beside PySpark.")
    parser.add_argument("--workload", action="extend", nargs="+", choices=list(WORKLOADS), default=[])
    parser.add_argument("--data", required=True, type=made_folder, help="made there if it is missing")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--cold", type=int, default=3, help="how many cold starts are measured; 0: none")
    parser.add_argument("--results", type=Path, help="where the figures go as JSON")
    parser.add_argument("--write-docs", action="store_true", help="write the table and the picture into docs/")
    arguments = parser.parse_args()
    chosen = [WORKLOADS[name] for name in WORKLOADS if name in (arguments.workload or WORKLOADS)]
    data = arguments.data
    work = Path(tempfile.mkdtemp(prefix="work-", dir=data))
    before, began = psutil.getloadavg()[0], time.monotonic()
    peers = PeerRuns(data, work, arguments.cores)
    try:
        results = [measure(one, data, arguments.rows, arguments.repeat, arguments.cores, work, peers) for one in chosen]
    finally:
        peers.close()
    try:
        colds = cold_starts(data, arguments.rows, arguments.cold, arguments.cores, work)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    found = Report(
        describe_machine(arguments.cores) + describe_load(before, psutil.getloadavg()[0]),
        time.strftime("%Y-%m-%d"),
        results,
        colds,
    )
    if arguments.results:
        arguments.results.write_text(json.dumps(found.to_dict(), indent=1) + "\n")
    print("\n".join(report.table(found)))
    load = f"load average {before:.1f} before, {psutil.getloadavg()[0]:.1f} after"
    print(f"\n{time.monotonic() - began:.0f} s in all, {load}")
    if arguments.write_docs:
        report.write_docs(found)


if __name__ == "__main__":
    main()

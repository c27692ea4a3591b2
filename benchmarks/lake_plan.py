"""Time of a plan over a table of many files, beside what the format's own library takes to list them.

``python -m benchmarks.lake_plan [--files 10000] [--rounds 5] [--kinds iceberg delta] [--write-docs]``. The files are in
the metadata alone: a plan opens none that one task reads whole, and each partition of the table has enough of them for
that. All take turns in one process, so that other work of the machine hits all of them; the first round loads code and
does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.system import ColumnBound, StreamSpec, SystemBinding
from benchmarks.applications import PARTITIONS
from benchmarks.lake import PAGE
from benchmarks.lake_commits import KINDS
from benchmarks.machine import describe_load, describe_machine
from benchmarks.report import between_markers

COMMITS = 10
"""Commits by which the files have come: as many manifests of Iceberg; of Delta the checkpoint has all but the last."""

DAYS = 100
"""Values of the column by which the table is partitioned; of few files fewer."""

OF_A_DAY = 8 * PARTITIONS
"""Files of a day at least: of fewer, each is more than an eighth of a task's share, and would be opened to be cut."""

_COLUMNS = 8
"""Numbers beside the partition's column and the file's own; all have statistics."""

_SIZE = 4_000_000
"""Bytes of a file, as the metadata says."""

_ROWS = 100_000

DAY = (ColumnBound("day", "=", 7),)
"""A condition that leaves one partition."""

LEAST = 8 * OF_A_DAY
"""Files of the smallest table that has this day."""


@dataclass(frozen=True)
class Plan:
    """Seconds that one of them took to plan or list so many files: at the median, with processor time."""

    kind: str
    who: str
    files: int
    seconds: float
    best: float
    cpu_seconds: float


def days_of(files: int) -> int:
    """Return how many partitions a table of so many files has."""
    return min(files // OF_A_DAY, DAYS)


def _rows(number: int, day: int) -> pa.Table:
    columns = {"day": [day], "id": [number], **{f"c{place}": [number + place] for place in range(_COLUMNS)}}
    return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})


def make_iceberg(folder: Path, files: int) -> Any:
    """Make a table of the embedded catalog; return the function that has the library list its files."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
        schema_to_pyarrow,
    )
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    from airflow_samza.systems.iceberg.catalogs import opened_catalog
    from airflow_samza.systems.iceberg.system import IcebergSystem

    settings = IcebergSystem("lake", SystemBinding("iceberg", {"root": str(folder)})).settings
    with opened_catalog(settings, create=True) as catalog:
        catalog.create_namespace_if_not_exists("bench")
        table = catalog.create_table("bench.views", _rows(0, 0).schema)
        with table.update_spec() as spec:
            spec.add_identity("day")
    columns, days = schema_to_pyarrow(table.schema()), days_of(files)
    wanted, ids = compute_statistics_plan(table.schema(), {}), parquet_path_to_id_mapping(table.schema())

    def data_file(number: int) -> DataFile:
        written = pa.BufferOutputStream()
        pq.write_table(_rows(number, number % days).cast(columns), written)
        said = data_file_statistics_from_parquet_metadata(
            pq.read_metadata(pa.BufferReader(written.getvalue())), wanted, ids
        ).to_serialized_dict()
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{table.location()}/data/day={number % days}/{number:08d}-0c8f2a4e-77d1-4b2a-9a55.parquet",
            file_format=FileFormat.PARQUET,
            partition=Record(number % days),
            file_size_in_bytes=_SIZE,
            sort_order_id=None,
            spec_id=table.spec().spec_id,
            equality_ids=None,
            key_metadata=None,
            **{**said, "record_count": _ROWS},
        )
        file.spec_id = table.spec().spec_id
        return file

    for some in _by_commit(files):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for number in some:
                append.append_data_file(data_file(number))

    def listed(where: Sequence[ColumnBound]) -> int:
        with opened_catalog(settings) as catalog:
            scan = catalog.load_table("bench.views").scan(row_filter="day = 7" if where else "true")
            return len(list(scan.plan_files()))

    return listed


def make_delta(folder: Path, files: int) -> Any:
    """Make a table in a folder; return the function that has the library list its files."""
    from deltalake import DeltaTable
    from deltalake.transaction import AddAction

    table = DeltaTable.create(str(folder / "bench" / "views"), schema=_rows(0, 0).schema, partition_by=["day"])
    days = days_of(files)

    def action(number: int) -> AddAction:
        one = {name: values[0] for name, values in _rows(number, number % days).to_pydict().items() if name != "day"}
        said = {"numRecords": _ROWS, "minValues": one, "maxValues": one, "nullCount": dict.fromkeys(one, 0)}
        name = f"day={number % days}/{number:08d}-0c8f2a4e-77d1-4b2a-9a55.parquet"
        return AddAction(name, _SIZE, {"day": str(number % days)}, 0, True, json.dumps(said))

    parts = list(_by_commit(files))
    for place, some in enumerate(parts):
        table.create_write_transaction([action(one) for one in some], "append", table.schema(), ["day"])
        table.update_incremental()
        if place == len(parts) - 2:
            table.create_checkpoint()

    def listed(where: Sequence[ColumnBound]) -> int:
        opened = DeltaTable(str(folder / "bench" / "views"))
        if where:
            return len(opened.file_uris(file_pruning_predicate="day = 7"))
        return int(opened.get_add_actions(flatten=True).num_rows)

    return listed


def _by_commit(files: int) -> Iterator[range]:
    for place in range(COMMITS):
        yield range(place * files // COMMITS, (place + 1) * files // COMMITS)


MAKERS: dict[str, Callable[[Path, int], Any]] = {"iceberg": make_iceberg, "delta": make_delta}


def measure(kind: str, folder: Path, files: int, rounds: int) -> list[Plan]:
    """Return what everybody took who had a turn in each round."""
    listed = MAKERS[kind](folder / "lake", files)
    system, binding = KINDS[kind][0], SystemBinding(kind, {"root": str(folder / "lake")})
    stream = StreamSpec("views", partitions=PARTITIONS, options=(("table", "bench.views"),))
    runtime = SparkRuntime(str(folder / "root"), {"tables": binding})
    numbers = iter(range(1, 1 << 30))

    def plan(application: str) -> int:
        request = RunRequest(f"benchmarks.lake_workloads:{application}", f"run-{next(numbers)}")
        range_ = runtime.prepare(request).stream("views").slice
        return len((range_ or {})["files"])

    def input_range(where: Sequence[ColumnBound]) -> int:
        return len(system("lake", binding).slice_within(stream, where)["files"])

    library = {"iceberg": "pyiceberg", "delta": "deltalake"}[kind]
    turns: dict[str, Callable[[], int]] = {
        "the whole plan": lambda: plan("every_day"),
        "its input range": lambda: input_range(()),
        f"{library}: list of files": lambda: listed(()),
        "the whole plan, of one day": lambda: plan("one_day"),
        "its input range, of one day": lambda: input_range(DAY),
        f"{library}: list of files, of one day": lambda: listed(DAY),
    }
    took: dict[str, list[tuple[float, float]]] = {who: [] for who in turns}
    counts: dict[str, int] = {}
    for number in range(rounds + 1):
        for who, turn in turns.items():
            wall, cpu = time.perf_counter(), time.process_time()
            counts[who] = turn()
            if number:
                took[who].append((time.perf_counter() - wall, time.process_time() - cpu))
    of_one_day = len(range(7, files, days_of(files)))
    expected = {who: of_one_day if who.endswith("of one day") else files for who in turns}
    if counts != expected:
        raise AssertionError(f"files differ: {counts}, and not {expected}")
    return [
        Plan(
            kind,
            who,
            counts[who],
            statistics.median(wall for wall, _ in times),
            min(wall for wall, _ in times),
            statistics.median(cpu for _, cpu in times),
        )
        for who, times in took.items()
    ]


def table(plans: Sequence[Plan], files: int, machine: str) -> list[str]:
    """Return the figures as Markdown."""
    lines = [
        f"A table of {files:,} files, committed by {COMMITS}, with statistics of {_COLUMNS + 1} columns and "
        f"{days_of(files)} partitions; measured on {machine}.",
        "",
        "| table | who | files | best s | median s | CPU s |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for one in plans:
        cells = (one.kind, one.who, f"{one.files:,}", f"{one.best:.2f}", f"{one.seconds:.2f}", f"{one.cpu_seconds:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measure, print the table, and write it into the page where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    if asked.files < LEAST:
        parser.error(f"--files {asked.files} is too few: of less than {LEAST}, a plan would open files to cut them")
    before, plans = os.getloadavg()[0], list[Plan]()
    for kind in asked.kinds:
        with tempfile.TemporaryDirectory(prefix="lake-plan-") as folder:
            (Path(folder) / "lake").mkdir()
            for one in measure(kind, Path(folder), asked.files, asked.rounds):
                plans.append(one)
                print(json.dumps(asdict(one)), flush=True)
    load = describe_load(before, os.getloadavg()[0])
    lines = table(plans, asked.files, f"{describe_machine(2)}{load}; {time.strftime('%Y-%m-%d')}")
    print("\n".join(lines))
    if asked.write_docs:
        PAGE.write_text(between_markers(PAGE.read_text(), "plans", lines))


if __name__ == "__main__":
    main()

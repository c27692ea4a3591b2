"""Processor time of a commit to a table after few epochs and after many, and how much lies beside its data files.

``python -m benchmarks.lake_commits [--epochs 10 100 1000 10000] [--kinds iceberg delta] [--unmerged] [--write-docs]``.
An epoch is a row in a file of its own. Processor time is that of this process alone, so that other work of the machine
has little part in it; the commits that count take turns with commits to a new table, which has the rest of it, too.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.delta.options import AUTO_COMPACT
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.iceberg import expiry
from airflow_samza.systems.iceberg.publishing import FILE_MERGE
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from benchmarks.report import DOCS, between_markers

KINDS: dict[str, tuple[type[IcebergSystem | DeltaSystem], str]] = {
    "iceberg": (IcebergSystem, "metadata"),
    "delta": (DeltaSystem, "_delta_log"),
}
"""The systems, and the folders of a table in which all lies that is not data."""

MERGES = {"iceberg": FILE_MERGE, "delta": AUTO_COMPACT}
"""Properties that say whether small files are merged."""

COUNTED = 100
"""Epochs over which a figure is the average, if there are as many."""

_GENERATION = Generation(1, 1)


@dataclass(frozen=True)
class Cost:
    """Milliseconds of processor time of a commit behind so many epochs, and what lies beside the data files then."""

    kind: str
    epochs: int
    ms: float
    ms_of_new: float
    """Of commits to a new table, taken in turn."""
    files: int
    size: int
    """Bytes."""
    data_files: int
    """Live data files."""
    data_size: int
    """Their bytes."""


class Epochs:
    """The epochs of one stage, which a table that it has made gets."""

    def __init__(self, kind: str, folder: Path, *, merged: bool = True) -> None:
        system, metadata = KINDS[kind]
        self._system = system("lake", SystemBinding(kind, {"root": str(folder)}))
        options = (("table", "web.out"), ("create", "true"), *(() if merged else ((MERGES[kind], "false"),)))
        self._stream = StreamSpec("out", partitions=1, schema="id bigint", written=True, options=options)
        self._system.create([self._stream])
        self._fixed = json.loads(json.dumps(self._system.fix_output(self._stream, None, "bench/run/1")))
        self._metadata = folder / "web/out" / metadata
        self.count = 0

    def add(self) -> float:
        """Write and commit an epoch; return the seconds of processor time that its commit took."""
        producer = self._system.producer(self._stream, writer_name("stage", _GENERATION, self.count, 0), self._fixed)
        producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array([self.count], pa.int64())}))
        publication = Publication("bench/run/stage", str(_GENERATION), self.count, {0: producer.finish()})
        begin = time.process_time()
        self._system.publish(self._stream, publication)
        self.count += 1
        return time.process_time() - begin

    def beside(self) -> tuple[int, int]:
        """Return how many files lie beside the data files, and their size."""
        sizes = [path.stat().st_size for path in self._metadata.rglob("*") if path.is_file()]
        return len(sizes), sum(sizes)

    def data(self) -> tuple[int, int]:
        """Return how many live data files there are, and their size."""
        range_ = self._system.slice(StreamSpec("in", partitions=1, options=(("table", "web.out"),)))
        return len(range_["files"]), range_["bytes"]


def measure(kind: str, folder: Path, epochs: Sequence[int], *, merged: bool = True) -> Iterator[Cost]:
    """Yield the cost behind each of these counts of epochs; ``merged``: small files are merged."""
    for _ in range(2):  # loads code
        Epochs(kind, Path(tempfile.mkdtemp(dir=folder))).add()
    table, began = Epochs(kind, folder / kind, merged=merged), time.perf_counter()
    for upto in sorted(epochs):
        new, ours, others = Epochs(kind, folder / f"{kind}-{upto}", merged=merged), list[float](), list[float]()
        while table.count < upto:
            with _one_a_second((time.perf_counter() - began) / (table.count + 1)):
                seconds = table.add()
            if table.count > upto - COUNTED:
                ours.append(seconds)
                others.append(new.add())
        count = len(ours)
        yield Cost(kind, upto, sum(ours) / count * 1000, sum(others) / count * 1000, *table.beside(), *table.data())


@contextmanager
def _one_a_second(seconds: float) -> Iterator[None]:
    """Have snapshots be young for as many epochs as come in a minute at the usual pace; one takes these ``seconds``."""
    young = expiry.YOUNG_SECONDS
    expiry.YOUNG_SECONDS = young * seconds
    try:
        yield
    finally:
        expiry.YOUNG_SECONDS = young


def table(costs: Sequence[Cost], load: float) -> list[str]:
    """Return the figures of one kind as Markdown."""
    lines = [
        "This is the processor time of a commit, measured with epochs of one row and one file each, which one process "
        f"commits to a folder. Each figure is the average over the last {COUNTED} commits (or as many as there are). "
        f"Commits to a new table took turns with them, on two cores (load {load:.0f}). "
        "*Files* and *size* are those of all that lies beside the data "
        "files, of which there are the live *data files*. `python -m benchmarks.lake_commits` repeats it.",
        "",
        "| epochs | ms a commit | to a new table | files | size | data files |",
        "|---|---|---|---|---|---|",
    ]
    for one in costs:
        cells = (f"{one.epochs:,}", f"{one.ms:.0f}", f"{one.ms_of_new:.0f}", f"{one.files:,}", _size(one.size))
        lines.append(f"| {' | '.join(cells)} | {one.data_files:,} |")
    return lines


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def main() -> None:
    """Measure, print the tables, and write them into the pages where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, nargs="+", default=[10, 100, 1000, 10_000])
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--unmerged", action="store_true", help="small files are not merged")
    parser.add_argument("--write-docs", action="store_true")
    asked = parser.parse_args()
    for kind in asked.kinds:
        costs = []
        with tempfile.TemporaryDirectory(prefix="lake-commits-") as folder:
            for cost in measure(kind, Path(folder), asked.epochs, merged=not asked.unmerged):
                costs.append(cost)
                print(json.dumps(asdict(cost)), flush=True)
        lines = table(costs, os.getloadavg()[1])
        print("\n".join(lines))
        if asked.write_docs:
            page = DOCS / f"how-to/{kind}.md"
            page.write_text(between_markers(page.read_text(), "commits", lines))


if __name__ == "__main__":
    main()

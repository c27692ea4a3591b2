"""A run of five stages that is planned anew after an edit in stage 4: only what has changed, beside all stages.

``python -m benchmarks.edits --work DIR [--rows 2000000] [--rounds 3]``. Every act is a process of its own on the
command line; ``--again`` and ``--again --fresh`` take turns, cold and with a warm runner. Their outputs are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.arguments import made_folder
from benchmarks.machine import describe_load, describe_machine
from benchmarks.warm import end_warm_runners

APPLICATION = """
from airflow_samza import count, stream_application, sum_

SCHEMA = "member bigint, page bigint, country bigint, ms bigint"


def fourth(batch):
    return batch{edit}


@stream_application("edits", config={{"job.intermediate.stream.partitions": "2"}})
def edits(app):
    views = app.input_stream("views", system="data", path="views", format="parquet", schema=SCHEMA)
    members = views.partition_by("member", id="by-member").where("ms >= 0")
    pages = members.partition_by("page", id="by-page").where("ms >= 1")
    countries = pages.partition_by("country", id="by-country").map_batches(fourth, schema=SCHEMA)
    again = countries.partition_by("country", id="by-country-again")
    totals = again.aggregate("country", id="totals", views=count(), ms=sum_("ms"))
    totals.send_to(app.output_stream("totals", system="data", path="totals-{kind}", format="json"))
"""

EDITS = ("", ".slice(0)", ".slice(0, None)")
"""Bodies of the callable that differ, and change no row."""


class Runs:
    """The runs of one kind under a folder."""

    def __init__(self, work: Path, kind: str, warm: bool) -> None:
        self.work, self.kind, self.warm = work, kind, warm
        self.code = work / f"code-{kind}"
        self.code.mkdir()
        self.temporary = work / f"t-{kind}"
        self.temporary.mkdir()

    def write(self, edit: int) -> None:
        """Write the application with an edit of its fourth stage."""
        source = APPLICATION.format(edit=EDITS[edit % len(EDITS)], kind=self.kind)
        (self.code / "edits_app.py").write_text(source)

    def run(self, *options: str) -> float:
        """Run the application in a process of its own; return its seconds."""
        environment = {**os.environ, "TMPDIR": str(self.temporary), "PYTHONPATH": str(self.code)}
        environment["AIRFLOW__SAMZA__WARM_RUNNERS"] = "1" if self.warm else "0"
        command = [
            *(sys.executable, "-c", "from airflow_samza.cli import main; main()", "run", "edits_app:edits"),
            *("--run-id", "one", "--root", str(self.work / f"root-{self.kind}"), "--master", "local[2]"),
            *("--system", f"data=files:{self.work}", *options),
        ]
        began = time.monotonic()
        done = subprocess.run(command, env=environment, cwd=self.work, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr[-3000:])
        return time.monotonic() - began

    @property
    def rows(self) -> list[str]:
        """The rows of the output, sorted."""
        files = sorted((self.work / f"totals-{self.kind}").glob("*.json"))
        return sorted(json.dumps(json.loads(line)) for file in files for line in file.read_text().splitlines())


def write_views(folder: Path, rows: int) -> None:
    """Write the input: four files of views."""
    folder.mkdir()
    random = np.random.default_rng(1)
    for part in range(4):
        count = rows // 4
        columns = {
            "member": random.integers(0, 100_000, count),
            "page": random.integers(0, 10_000, count),
            "country": random.integers(0, 200, count),
            "ms": random.integers(0, 60_000, count),
        }
        pq.write_table(pa.table(columns), folder / f"{part}.parquet")


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=made_folder)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        measure(Path(folder), arguments.rows, arguments.rounds)


def measure(work: Path, rows: int, rounds: int) -> None:
    """Run both kinds in turn, cold and with warm runners, and print their medians."""
    write_views(work / "views", rows)
    before = psutil.getloadavg()[0]
    found: dict[tuple[str, str], list[float]] = {}
    for warm in (False, True):
        name = "warm" if warm else "cold"
        kinds = {"kept": Runs(work, f"{name}-kept", warm), "fresh": Runs(work, f"{name}-fresh", warm)}
        for runs in kinds.values():
            runs.write(0)
            runs.run()
        for number in range(1, rounds + 1):
            for kind, options in (("kept", ["--again"]), ("fresh", ["--again", "--fresh"])):
                kinds[kind].write(number)
                found.setdefault((name, kind), []).append(kinds[kind].run(*options))
            if kinds["kept"].rows != kinds["fresh"].rows:
                raise SystemExit("The outputs differ.")
        if warm:
            for runs in kinds.values():
                end_warm_runners(runs.temporary)
    print(f"{describe_machine(2)}{describe_load(before, psutil.getloadavg()[0])}")
    print(f"{rows:,} rows, five stages, an edit in stage 4; median seconds of {rounds} runs")
    for name in ("cold", "warm"):
        kept, fresh = (statistics.median(found[name, kind]) for kind in ("kept", "fresh"))
        print(f"{name}: only what has changed {kept:.1f} s, all stages {fresh:.1f} s ({fresh / kept:.1f} times)")


if __name__ == "__main__":
    main()

"""Nexmark's queries as applications, beside Spark SQL and PyFlink, over bounded and unbounded events.

``python -m benchmarks.nexmark --work DIR [--events 1000000] [--rounds 1] [--queries q0 …]``. All read the same JSON
lines (PyFlink has no Parquet by itself), in turn, and each result is compared row by row with DuckDB's. Unbounded is
a continuous run that follows the files, several a look, and is drained; of Spark a query of Structured Streaming over
what is available, of PyFlink its streaming mode.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.dataset as ds

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.systems.files.formats.json_values import to_lines
from airflow_samza.systems.system import SystemBinding
from benchmarks.arguments import made_folder
from benchmarks.lake import temporary_folder
from benchmarks.machine import describe_machine
from benchmarks.nexmark_events import house
from benchmarks.nexmark_reference import SQL, expected
from benchmarks.peer_process import Peer, PeerProcess
from benchmarks.results import OURS
from benchmarks.run import in_one_order

QUERIES = [name for name in SQL if name != "q17"]
MODES = ("batch", "streaming")
FILES = 20
DAGS = Path(__file__).parents[1] / "dags"

PEERS = (
    Peer("spark", "Spark SQL", "nexmark_spark.py", arguments=("{cores}", str(FILES // 4))),
    Peer("flink", "PyFlink", "nexmark_flink.py", packages=("apache-flink==2.2.1",), arguments=("{cores}",)),
)

WHO = [OURS, *(peer.name for peer in PEERS)]

CANNOT = {
    ("spark", "q4", "streaming"),  # files take no mean of greatest values, which changes with each bid
    ("flink", "q4", "streaming"),  # its means change with each bid, and files take no changes
    ("flink", "q11", "batch"),  # Flink has no sessions in this mode
}
"""Runs that are not measured, by who, query and mode."""


def write_lines(folder: Path, events: Mapping[str, pa.Table]) -> None:
    """Write each kind of events as JSON lines, in files that follow each other in time; and one of the next day."""
    for name, rows in events.items():
        (folder / name).mkdir(parents=True)
        for part in range(FILES):
            begin, end = part * rows.num_rows // FILES, (part + 1) * rows.num_rows // FILES
            with (folder / name / f"{part:04d}.jsonl").open("wb") as sink:
                for batch in rows.slice(begin, end - begin).to_batches():
                    sink.write(to_lines(batch))
    for name, rows in events.items():
        last = rows.slice(rows.num_rows - 1).set_column(rows.column_names.index("at"), "at", [_a_day_after(rows["at"])])
        (folder / "closing" / name).mkdir(parents=True)
        (folder / "closing" / name / "0000.jsonl").write_bytes(to_lines(last.to_batches()[0]))


def _a_day_after(times: pa.ChunkedArray) -> pa.Array:
    return pa.array([times[-1].as_py() + timedelta(days=1)], times.type)


class Ours:
    """Runs of the applications, each from its plan to its end, on a warm runner."""

    def __init__(self, folder: Path, cores: int) -> None:
        self._bindings = {
            "house": SystemBinding("files", {"root": str(folder / "events")}),
            "results": SystemBinding("files", {"root": str(folder / "out")}),
        }
        self._roots, self._master = folder / "root", f"local[{cores}]"
        self.out = folder / "out" / "result"

    def run(self, query: str, mode: str, run_id: str) -> float:
        """Return the seconds of a run."""
        shutil.rmtree(self.out, ignore_errors=True)
        # A root of its own: a run would continue from the state of one before under the same root.
        root, warm = str(self._roots / run_id), "1,idle=600,runs=1000,memory=9000"
        runtime = SparkRuntime(root, self._bindings, master=self._master, warm_runners=warm)
        application, begin = f"pipelines.nexmark:{query}", time.perf_counter()
        if mode == "batch":
            run = runtime.prepare(RunRequest(application, run_id))
            for stage in run.plan.stages:
                runtime.run_stage(run, stage.stage_id)
        else:
            config = {"unbounded": "true", "files": str(FILES // 4)}
            run = runtime.prepare(RunRequest(application, run_id, mode="continuous", config=config, reuse=False))
            handles = [runtime.submit(run, stage.stage_id) for stage in run.plan.stages]
            runtime.drain(run)
            for handle in handles:
                runtime.wait(handle, timeout=300)
        seconds = time.perf_counter() - begin
        runtime.close(run, wait_seconds=30)
        return seconds


def rows_of(folder: Path, rows: pa.Table) -> pa.Table:
    """Return the rows that somebody has written, with the types of others."""
    files = [str(path) for path in folder.rglob("part-*") if path.suffix != ".crc" and path.stat().st_size]
    if any(file.endswith(".parquet") for file in files):
        return in_one_order(ds.dataset([one for one in files if one.endswith(".parquet")]).to_table())
    kinds = [pa.string() if pa.types.is_timestamp(kind) else kind for kind in rows.schema.types]
    read = csv.ReadOptions(column_names=rows.column_names)
    convert = csv.ConvertOptions(column_types=dict(zip(rows.column_names, kinds, strict=True)))
    found = pa.concat_tables(csv.read_csv(file, read_options=read, convert_options=convert) for file in files)
    columns = [
        _times(column) if pa.types.is_timestamp(kind) else column
        for column, kind in zip(found, rows.schema.types, strict=True)
    ]
    return in_one_order(pa.table(columns, names=rows.column_names))


def _times(texts: pa.ChunkedArray) -> pa.Array:
    plain = [text.replace("Z", "").replace(" ", "T") for text in texts.to_pylist()]
    return pa.array(plain).cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=made_folder, required=True, help="where the peers' environments stay")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--who", nargs="+", choices=WHO, default=WHO)
    parser.add_argument("--queries", nargs="+", choices=QUERIES, default=QUERIES)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by whatever: all that was started ends, too
    sys.path.insert(0, str(DAGS))
    os.environ["PYTHONPATH"] = os.pathsep.join([str(DAGS), os.environ.get("PYTHONPATH", "")])
    before, best = os.getloadavg()[0], dict[tuple[str, str, str], float]()
    with ExitStack() as held:
        folder = Path(tempfile.mkdtemp(prefix="nexmark-", dir=asked.work))
        held.callback(shutil.rmtree, folder, ignore_errors=True)
        events = house(asked.events)
        write_lines(folder / "events", events)
        peers: dict[str, PeerProcess] = {}
        for peer in (peer for peer in PEERS if peer.name in asked.who):
            peers[peer.name] = PeerProcess(peer, asked.work, str(folder / "events"), asked.cores)
            held.callback(peers[peer.name].close)
        held.enter_context(temporary_folder(folder / "t"))
        ours = Ours(folder, asked.cores)
        for query in asked.queries:
            reference = expected(query, events)
            rows = in_one_order(reference)
            turns = [(number, mode, who) for number in range(asked.rounds + 1) for mode in MODES for who in asked.who]
            for number, mode, who in turns:
                if (who, query, mode) in CANNOT:
                    continue
                out = folder / "peers" / f"{who}-{query}-{mode}-{number}"
                if who == OURS:
                    seconds, out = ours.run(query, mode, f"{query}-{mode}-{number}"), ours.out
                else:
                    seconds, _ = peers[who].ask(f"{query}-{mode}", str(out), asked.events)
                if not rows_of(out, reference).equals(rows):
                    raise SystemExit(f"{query} of {who} ({mode}) has other rows than DuckDB.")
                said = {"query": query, "mode": mode, "who": who, "seconds": round(seconds, 2)}
                print(json.dumps({**said, "rows": rows.num_rows, "warm": number > 0}), flush=True)
                if number or not asked.rounds:
                    best[query, mode, who] = min(seconds, best.get((query, mode, who), seconds))
    print("\n".join(table(best)))
    versions = ", ".join(peer.versions for peer in peers.values())
    load = f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after"
    print(f"\n{asked.events:,} events on {describe_machine(asked.cores)}, {versions}, {load}.")


def table(best: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Return the seconds of the best runs as Markdown."""
    ways = [(who, mode) for mode in MODES for who in WHO]
    lines = ["| query | " + " | ".join(f"{who}, {mode}" for who, mode in ways) + " |", "|---|" + "---:|" * len(ways)]
    for query in dict.fromkeys(query for query, _, _ in best):
        cells = [best.get((query, mode, who)) for who, mode in ways]
        lines.append(f"| {query} | " + " | ".join("–" if one is None else f"{one:.2f}" for one in cells) + " |")
    return lines


if __name__ == "__main__":
    main()

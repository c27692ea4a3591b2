"""The join as of event times beside the plain join with the same table, PySpark and DuckDB, in turn.

``python -m benchmarks.temporal_join --work DIR [--rows 2000000] [--rounds 5]``. A topic of a month of views, and a
pushed table of members (a tenth as many as views): a full push, and for each further day an incremental one that
changes a tenth of them. The plain join finds the newest version, the one as of event times that of each view's time.
Beside them stand, with the same result, a hand-written join in PySpark (``lead`` gives each row the end of its time,
and the join has a condition on it), and DuckDB's ``ASOF JOIN`` as a bound. Ours and PySpark run in one session of
``local[2]``, DuckDB has two threads; all write Parquet, and PySpark and DuckDB read the views and the versions' rows
from it. Seconds of a round are those from the plan to the end. ``--cold``: no host keeps a table, or its versions, from
round to round.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza import stream_application
from airflow_samza.partitioner import partition_array
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.table_version import DELETED, FULL, INCREMENTAL, TableVersion, now
from airflow_samza.schema import Schema
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from benchmarks.arguments import made_folder
from benchmarks.machine import describe_load, describe_machine
from tests.support.one_session import Runs, open_session

VIEWS = "member_id bigint, page bigint, at timestamp"
PROFILES = "member_id bigint, tier string, score double"
PARTITIONS = 4
DAYS = 30
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TOPIC = StreamSpec("profiles-push", PARTITIONS, f"{PROFILES}, {DELETED} boolean", ("member_id",))


def _application(name: str, **said: Any) -> Any:
    def describe(app: Any) -> None:
        views = app.input_stream("views", schema=VIEWS, key="member_id", timestamp="at", partitions=PARTITIONS)
        profiles = app.pushed_table("profiles", key="member_id", schema=PROFILES, partitions=PARTITIONS)
        joined = views.join(profiles, how="left", id="with-profile", **said)
        joined.send_to(app.output_stream(name, system="results", format="parquet"))

    return stream_application(f"bench-{name}", default_system="log")(describe)


plain = _application("plain")
as_of = _application("as-of", as_of="event time")


def put_views(log: LogSystem, file: Path, rows: int) -> None:
    """Write the views into a topic by member, and into a file for the others."""
    random = np.random.default_rng(7)
    members = random.integers(0, rows // 10, rows)
    times = np.sort(random.integers(0, DAYS * 86_400_000_000, rows)) + int(START.timestamp()) * 1_000_000
    table = pa.table(
        {"member_id": members, "page": np.arange(rows), "at": pa.array(times, pa.timestamp("us", "UTC"))},
    )
    log.append("views", table, key=["member_id"], partitions=PARTITIONS)
    pq.write_table(table, file, row_group_size=100_000)


def push(log: LogSystem, rows_file: Path, members: int) -> None:
    """Push a version for each day as the job of a push does, and write their rows to a file for the others."""
    log.create([TOPIC])
    random = np.random.default_rng(1)
    schema = Schema.of(str(TOPIC.schema)).to_arrow()
    tiers = pa.array(["gold", "silver", "bronze", "none"])
    sections: tuple[tuple[str, str], ...] = ()
    everything = []
    for day in range(DAYS):
        ids = np.arange(members) if day == 0 else np.sort(random.choice(members, members // 10, replace=False))
        columns = [
            pa.array(ids),
            tiers.take(pa.array(random.integers(0, 4, len(ids)))),
            pa.array(random.random(len(ids))),
            pa.array(np.zeros(len(ids), bool)),
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        section = (f"pushes/profiles/{day}", "1.1")
        places, staged = _partitions(ids), {}
        for partition in range(PARTITIONS):
            producer = log.producer(TOPIC, f"{day}-{partition}")
            producer.write_keyed(batch.filter(pa.array(places == partition)), ["member_id"])
            staged[partition] = producer.finish()
        log.publish(TOPIC, Publication(*section, 0, staged))
        sections += (section,)
        written = log.slice(TOPIC)
        begins = START + timedelta(days=day)
        version = TableVersion(
            number=day + 1,
            push_id=str(day),
            kind=INCREMENTAL if day else FULL,
            sections=sections,
            offsets=tuple((int(first), int(end)) for first, end in written["offsets"]),
            commits=written["commit"],
            rows=members,
            bytes=0,
            schema=PROFILES,
            key=("member_id",),
            pushed_at=now(),
            table="profiles",
            base=day or None,
            interval=((begins - timedelta(days=1)).isoformat(), begins.isoformat()),
        )
        versions.add(log.filesystem, "log", TOPIC.name, version)
        valid = pa.array(np.full(len(ids), int(begins.timestamp()) * 1_000_000), pa.timestamp("us", "UTC"))
        everything.append(pa.Table.from_batches([batch.drop_columns([DELETED])]).append_column("valid_from", valid))
    pq.write_table(pa.concat_tables(everything), rows_file)


def by_spark(session: Any, work: Path, out: Path) -> None:
    """Join by hand: each row is valid until the next one of its key begins."""
    from pyspark.sql import Window, functions

    rows = session.read.parquet(str(work / "rows.parquet"))
    until = functions.lead("valid_from").over(Window.partitionBy("member_id").orderBy("valid_from"))
    rows = rows.withColumn("valid_until", until).withColumnRenamed("member_id", "id")
    views = session.read.parquet(str(work / "views.parquet"))
    is_valid = (views.at >= rows.valid_from) & (rows.valid_until.isNull() | (views.at < rows.valid_until))
    joined = views.join(rows, (views.member_id == rows.id) & is_valid, "left")
    joined.drop("id", "valid_from", "valid_until").write.parquet(str(out))


def by_duckdb(work: Path, out: Path) -> None:
    """Join with the statement that is made for it."""
    out.mkdir()
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.execute(
            f"COPY (SELECT views.*, tier, score FROM '{work}/views.parquet' views "
            f"ASOF LEFT JOIN '{work}/rows.parquet' changes "
            "ON views.member_id = changes.member_id AND views.at >= changes.valid_from) "
            f"TO '{out}/all.parquet'"
        )


def _partitions(members: Any) -> Any:
    return np.asarray(partition_array(pa.record_batch({"member_id": pa.array(members)}), ["member_id"], PARTITIONS))


def _result(folder: Path) -> Any:
    """Return the count of rows, and sums that show which row each of them has found."""
    with duckdb.connect() as connection:
        return connection.sql(
            f"SELECT count(*), sum(page), sum(hash(page, tier, score)) FROM read_parquet('{folder}/**/*.parquet')"
        ).fetchall()[0]


def measure(work: Path, rows: int, rounds: int, *, cold: bool) -> None:
    """Print the seconds of each, the medians of the rounds, in turn."""
    log = LogSystem("log", SystemBinding("log", {"root": str(work / "root")}))
    put_views(log, work / "views.parquet", rows)
    push(log, work / "rows.parquet", rows // 10)
    importlib.import_module("benchmarks.temporal_join")  # by its name, under which workers find it
    session = open_session(work / "session", "benchmarks.temporal_join", {"spark.sql.shuffle.partitions": "4"})

    def ours(name: str) -> Callable[[Path], None]:
        def run(folder: Path) -> None:
            folder.mkdir(parents=True)
            runs = Runs(session, work / "root", {"results": SystemBinding("files", {"root": str(folder)})})
            host = folder / "host" if cold else work / "host"
            config = {"job.store.local.dir": str(host)}
            runs.one_by_one(runs.prepare(f"benchmarks.temporal_join:{name}", folder.parent.name, config=config))

        return run

    def peer(folder: Path) -> None:
        with session.stage_session({}, own=False) as spark:
            by_spark(spark, work, folder)

    ways: dict[str, Callable[[Path], None]] = {
        "plain": ours("plain"),
        "as_of": ours("as_of"),
        "PySpark": peer,
        "DuckDB": lambda folder: by_duckdb(work, folder),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        results = {}
        for name, way in ways.items():
            folder = work / f"round-{number}" / name
            folder.parent.mkdir(exist_ok=True)
            began = time.perf_counter()
            way(folder)
            if number:  # the first round warms Java up
                seconds[name].append(time.perf_counter() - began)
            results[name] = _result(folder)
        assert results["as_of"] == results["PySpark"] == results["DuckDB"], results
        assert results["plain"][:2] == results["as_of"][:2]
        shutil.rmtree(work / f"round-{number}")
    ratio = statistics.median(a / p for a, p in zip(seconds["as_of"], seconds["plain"], strict=True))
    for name, found in seconds.items():
        print(f"{name:8} {statistics.median(found):.2f} s ({min(found):.2f}–{max(found):.2f})", flush=True)
    print(f"as of event times: {ratio:.2f} times the plain join (median of {rounds} pairs)", flush=True)
    session.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=made_folder)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cold", action="store_true")
    asked = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        measure(Path(folder), asked.rows, asked.rounds, cold=asked.cold)
    print(describe_machine(2) + describe_load(before, os.getloadavg()[0]))


if __name__ == "__main__":
    main()

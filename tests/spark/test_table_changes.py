"""Changes of tables as messages on a real Spark: read by its workers, filtered by Catalyst, run after run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake, iceberg_lake, table_apps
from tests.support.one_session import Runs, open_session
from tests.support.topic_rows import topic_rows

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
APPLICATION = f"{table_apps.__name__}:changed_by_catalyst"


@pytest.mark.spark
@pytest.mark.extended
def test_changes_of_tables_of_both_kinds_lead_to_their_rows(tmp_path: Path) -> None:
    rows = pa.Table.from_pylist([{"n": n, "text": "new"} for n in range(6)], SCHEMA)
    iceberg = iceberg_lake.table_of(tmp_path / "iceberg", SCHEMA)
    delta_lake.table_of(tmp_path / "delta", SCHEMA, configuration={"delta.enableChangeDataFeed": "true"})
    place = str(tmp_path / "delta/web/views")
    session = open_session(tmp_path / "session", table_apps.__name__)
    try:
        runs = {
            kind: Runs(
                session, tmp_path / f"{kind}-root", {"tables": SystemBinding(kind, {"root": str(tmp_path / kind)})}
            )
            for kind in ("iceberg", "delta")
        }
        for turn in range(2):
            if turn:
                iceberg.delete("n in (0, 1)")
                DeltaTable(place).update({"text": "'old'"}, predicate="n < 2")
                DeltaTable(place).delete("n = 5")
            else:
                iceberg.append(rows)
                write_deltalake(place, rows, mode="append")
            for one in runs.values():
                run = one.prepare(APPLICATION, f"run-{turn}")
                one.one_by_one(run)
                one.runtime.close(run)
                assert any("atalyst" in engine for stage in run.engines.values() for engine, _ in stage.values())
        left = {kind: said(tmp_path / f"{kind}-root") for kind in runs}
    finally:
        session.stop()
    assert left == {
        "iceberg": Counter((row["n"], row["text"]) for row in iceberg.scan().to_arrow().to_pylist()),
        "delta": Counter((row["n"], row["text"]) for row in DeltaTable(place).to_pyarrow_table().to_pylist()),
    }


def said(root: Path) -> Counter[tuple[int, str]]:
    """Return the rows to which the changes in the topic lead."""
    table: Counter[tuple[int, str]] = Counter()
    for row in topic_rows(LogSystem("log", SystemBinding("log", {"root": str(root)})), "said"):
        table[row["n"], row["text"]] += row["sign"]
    assert min(table.values()) >= 0
    return +table

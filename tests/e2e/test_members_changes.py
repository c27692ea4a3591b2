"""The example of changes: members as they are, and their history, by two runs over files in Debezium's envelope."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here

APPLICATION = "dags.pipelines.members:members_from_changes"
START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def event(op: str, member: int, tier: str | None, lsn: int) -> dict[str, Any]:
    row = {"member_id": member, "name": "ada", "tier": tier}
    source = {"db": "shop", "lsn": lsn, "ts_ms": int((START + timedelta(minutes=lsn)).timestamp() * 1000)}
    return {"op": op, "before" if op == "d" else "after": row, "source": source}


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    found = pa.table(DeltaTable(str(folder / "mart/shop" / table)).scan().read_all()).to_pylist()
    return sorted(found, key=lambda row: (row["member_id"], row["lsn"]))


def minute(lsn: int) -> datetime:
    return START + timedelta(minutes=lsn)


def test_two_runs_make_members_and_their_history(tmp_path: Path) -> None:
    changes = tmp_path / "data/member-changes"
    changes.mkdir(parents=True)
    bindings = {
        "data": SystemBinding("files", {"root": str(tmp_path / "data")}),
        "mart": SystemBinding("delta", {"root": str(tmp_path / "mart")}),
    }
    here = Here(tmp_path / "root", bindings=bindings)
    for run, events in {
        "one": [event("c", 1, "silver", 1), event("c", 2, "silver", 2), event("u", 1, "gold", 5)],
        "two": [event("u", 1, "late", 4), event("d", 2, "silver", 7), event("u", 1, "gold", 5)],
    }.items():
        (changes / f"{run}.json").write_text("".join(f"{json.dumps(one)}\n" for one in events))
        here.whole(APPLICATION, run)
    assert [(row["member_id"], row["tier"]) for row in rows(tmp_path, "members")] == [(1, "gold")]
    assert [
        (row["member_id"], row["tier"], row["valid_from"], row["valid_to"], row["is_current"])
        for row in rows(tmp_path, "history")
    ] == [
        (1, "silver", minute(1), minute(5), False),
        (1, "gold", minute(5), None, True),
        (2, "silver", minute(2), minute(7), False),
    ]

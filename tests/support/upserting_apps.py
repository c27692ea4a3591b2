"""An application that upserts changes into tables: the newest row of each member, and the history of each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from airflow_samza import change_events, stream_application
from airflow_samza.systems.system import SystemBinding
from tests.support.iceberg_lake import catalog_at
from tests.support.runs_here import Here

APPLICATION = "tests.support.upserting_apps:members"

SAID: dict[str, Any] = {}
"""Options of the outputs (``output``), of the input (``input``), and of the output of the ``newest`` rows."""


@stream_application("members")
def members(app: Any) -> None:
    """Upsert changes as SCD types 1 and 2."""
    changes = app.input_stream(
        "changes",
        system="lake",
        format="json",
        schema=SAID.get("schema", "member bigint, tier string, version bigint"),
        changes=change_events("op"),
        partitions=2,
        **{"path": "in/**", "slice": "checkpoint", **SAID.get("input", {})},
    )
    by_member = changes.partition_by("member", id="by-member")
    more = {"system": SAID.get("kind", "delta"), "create": True, "mode": "upsert", **SAID.get("output", {})}
    newest = by_member.apply_changes("member", sequence_by="version", id="newest")
    newest.send_to(
        app.output_stream(
            SAID.get("id", "members"), **{"table": "web.members", "key": "member", **more, **SAID.get("newest", {})}
        )
    )
    history = by_member.apply_changes("member", sequence_by="version", stored_as_scd_type=2, id="history")
    history.send_to(app.output_stream("history", table="web.history", key=["member", "valid_from"], **more))


class Members(Here):
    """A root with changes in files, and runs of the application."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        (self.lake / "in").mkdir(parents=True)
        self.tables = folder / "tables"
        bindings = {
            "lake": SystemBinding("files", {"root": str(self.lake)}),
            "delta": SystemBinding("delta", {"root": str(self.tables)}),
            "iceberg": SystemBinding("iceberg", {"root": str(self.tables)}),
        }
        super().__init__(folder / "root", bindings=bindings)

    def write(self, name: str, changes: Sequence[tuple[str, int, str | None, int]]) -> None:
        """Write changes (operation, member, tier, version) as a file."""
        rows = [dict(zip(("op", "member", "tier", "version"), change, strict=True)) for change in changes]
        (self.lake / "in" / f"{name}.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return the rows of a table as its own library finds them, by member and version."""
        if SAID.get("kind", "delta") == "delta":
            found = pa.table(DeltaTable(str(self.tables / "web" / table)).scan().read_all()).to_pylist()
        else:
            with catalog_at(self.tables) as catalog:
                found = catalog.load_table(f"web.{table}").scan().to_arrow().to_pylist()
        return sorted(found, key=lambda row: (row["member"], row["version"]))

    def newest(self) -> list[tuple[int, str]]:
        """Return the rows of the table of the newest ones."""
        return [(row["member"], row["tier"]) for row in self.rows("members")]

    def history(self) -> list[tuple[Any, ...]]:
        """Return the rows of the history."""
        return [
            tuple(row[name] for name in ("member", "tier", "valid_from", "valid_to")) for row in self.rows("history")
        ]

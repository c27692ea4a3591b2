"""Tables of lakes that pushes read: the same rows in a table of Iceberg and in one of Delta, and their own scans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyiceberg.table import Table

from airflow_samza.systems.system import SystemBinding
from tests.support import delta_lake, iceberg_lake

COLUMNS = pa.schema([("member_id", pa.int64()), ("tier", pa.string())])


class Lake:
    """A table ``web.members`` of the system ``lake``; each change is a snapshot or version of it."""

    kind = ""
    word = ""

    def __init__(self, folder: Path, rows: Sequence[Mapping[str, Any]], schema: pa.Schema = COLUMNS) -> None:
        self.folder = folder
        self.schema = schema
        self.bindings = {"lake": SystemBinding(self.kind, {"root": str(folder)})}
        self.make(rows)

    def source(self, **more: Any) -> dict[str, Any]:
        """Return the table as the source of a push."""
        return {self.kind: "web.members", "system": "lake", **more}

    def make(self, rows: Sequence[Mapping[str, Any]]) -> None:
        raise NotImplementedError

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        raise NotImplementedError

    def delete(self, below: int) -> None:
        """Delete the members below a number."""
        raise NotImplementedError

    @property
    def version(self) -> str:
        """The current snapshot or version."""
        raise NotImplementedError

    def scan(self) -> list[dict[str, Any]]:
        """Return the rows as the format's own library reads them, by their keys."""
        return sorted(self._read().to_pylist(), key=lambda row: row[self.schema.names[0]])

    def _read(self) -> pa.Table:
        raise NotImplementedError

    def forget(self) -> None:
        """Have all snapshots or versions but the current one expire."""
        raise NotImplementedError


class IcebergLake(Lake):
    """A table of the embedded catalog of Iceberg."""

    kind, word = "iceberg", "snapshot"

    def make(self, rows: Sequence[Mapping[str, Any]]) -> None:
        iceberg_lake.table_of(self.folder, self.schema, rows, name="web.members")

    def _table(self) -> Table:
        with iceberg_lake.catalog_at(self.folder) as catalog:
            return catalog.load_table("web.members")

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        iceberg_lake.append(self._table(), rows)

    def delete(self, below: int) -> None:
        self._table().delete(f"member_id < {below}")

    @property
    def version(self) -> str:
        current = self._table().current_snapshot()
        assert current is not None
        return str(current.snapshot_id)

    def _read(self) -> pa.Table:
        return self._table().scan().to_arrow()

    def forget(self) -> None:
        table, current = self._table(), self.version
        for one in table.metadata.snapshots:
            if str(one.snapshot_id) != current:
                table.maintenance.expire_snapshots().by_id(one.snapshot_id).commit()


class DeltaLake(Lake):
    """A table of Delta in a folder."""

    kind, word = "delta", "version"

    def make(self, rows: Sequence[Mapping[str, Any]]) -> None:
        delta_lake.table_of(self.folder, self.schema, rows, name="web.members")

    def _table(self) -> DeltaTable:
        return DeltaTable(str(self.folder / "web" / "members"))

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        delta_lake.append(self._table(), rows, self.schema)

    def delete(self, below: int) -> None:
        self._table().delete(f"member_id < {below}")

    @property
    def version(self) -> str:
        return str(self._table().version())

    def _read(self) -> pa.Table:
        return self._table().to_pyarrow_table()

    def forget(self) -> None:
        table = self._table()
        table.create_checkpoint()
        for commit in sorted((self.folder / "web" / "members" / "_delta_log").glob("*.json"))[:-1]:
            commit.unlink()


LAKES = [IcebergLake, DeltaLake]

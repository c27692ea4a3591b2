"""Tables of Iceberg and Delta with random histories, and the rows of each version as their own libraries read it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyiceberg.table import Table

from tests.support import delta_lake, iceberg_lake

COLUMNS = pa.schema([("id", pa.int64()), ("tier", pa.string()), ("tags", pa.list_(pa.int64())), ("part", pa.string())])
REMEDY = "Read all of it."
Row = dict[str, Any]


class History:
    """A table that a test changes, and the rows of each version as the format's library reads them."""

    lake: Any

    def __init__(self, folder: Path, seed: int, *, back: bool = True) -> None:
        self.back = ["back"] if back else []
        self.chance = random.Random(seed)
        self.numbers = iter(range(10**6))
        self.versions: dict[str, list[Row]] = {}
        self.make(folder)
        self.system = self.lake.system_at(folder)
        for _ in range(8):
            self.step()
            version, rows = self.read()
            self.versions |= {version: rows} if version else {}

    def make(self, folder: Path) -> None:
        raise NotImplementedError

    def step(self) -> None:
        raise NotImplementedError

    def read(self) -> tuple[str, list[Row]]:
        raise NotImplementedError

    def rows(self, ids: Sequence[int] = ()) -> pa.Table:
        """Return new rows, of keys that are new unless they are named."""
        chance = self.chance
        ids = ids or [next(self.numbers) for _ in range(chance.randrange(1, 9))]
        return pa.Table.from_pylist(
            [
                {
                    "id": one,
                    "tier": chance.choice(["gold", "iron", None]),
                    "tags": [one] * chance.randrange(3),
                    "part": chance.choice("ab"),
                }
                for one in ids
            ],
            schema=COLUMNS,
        )

    def some_ids(self) -> list[int]:
        """Return a part of the keys that are there."""
        ids = [row["id"] for row in self.read()[1]]
        return sorted(self.chance.sample(ids, self.chance.randrange(len(ids) + 1)))

    def changes(self, since: str, until: str, partitions: int, *, carried: bool = False) -> list[Row]:
        stream = self.lake.stream(partitions=partitions, **{self.word: until})
        range_ = self.system.changes(stream, since, REMEDY, carried=carried)
        rows: list[Row] = self.lake.rows_of(self.system, stream, range_=range_)
        return rows

    word = ""


class IcebergHistory(History):
    lake, word = iceberg_lake, "snapshot"

    def make(self, folder: Path) -> None:
        self.table: Table = iceberg_lake.table_of(folder, COLUMNS)

    def read(self) -> tuple[str, list[Row]]:
        self.table.refresh()
        current = self.table.current_snapshot()
        return (str(current.snapshot_id) if current else "", self.table.scan().to_arrow().to_pylist())

    def step(self) -> None:
        table, ids = self.table, self.some_ids()
        condition = f"id in ({', '.join(map(str, ids))})" if len(ids) > 1 else f"id = {sum(ids)}"
        act = self.chance.choice(
            ["append", "append", "delete", "update", "positions", "replace", "compact", *self.back]
        )
        if act == "positions":
            for file in [task.file for task in table.scan().plan_files()][:1]:
                count = self.chance.randrange(1, file.record_count + 1)
                positions = sorted(self.chance.sample(range(file.record_count), count))
                iceberg_lake.delete_positions(table, {file.file_path: positions})
        elif act == "delete" and ids:
            table.delete(condition)
        elif act == "update" and ids:
            table.overwrite(self.rows(ids), condition)
        elif act in ("replace", "compact") and self.read()[1]:
            table.overwrite(self.rows() if act == "replace" else table.scan().to_arrow())
        elif act == "back" and self.versions:
            table.manage_snapshots().set_current_snapshot(int(self.chance.choice(list(self.versions)))).commit()
        else:
            table.append(self.rows())


class DeltaHistory(History):
    lake, word = delta_lake, "version"

    feed = False

    def make(self, folder: Path) -> None:
        self.partitions = self.chance.choice([None, ["part"]])
        properties = {"delta.enableChangeDataFeed": "true"} if self.feed else None
        self.table: DeltaTable = delta_lake.table_of(
            folder, COLUMNS, partition_by=self.partitions, configuration=properties
        )

    def read(self) -> tuple[str, list[Row]]:
        self.table.update_incremental()
        return str(self.table.version()), self.table.to_pyarrow_table().select(COLUMNS.names).to_pylist()

    def step(self) -> None:
        table, ids = self.table, self.some_ids()
        act = self.chance.choice(["append", "append", "delete", "update", "replace", "compact", "back", "checkpoint"])
        if act == "delete" and ids:
            table.delete(f"id in ({', '.join(map(str, ids))})")
        elif act == "update" and ids:
            table.update({"tier": "'new'"}, predicate=f"id in ({', '.join(map(str, ids))})")
        elif act == "replace":
            write_deltalake(table, self.rows(), mode="overwrite")
        elif act == "compact":
            table.optimize.compact()
        elif act == "back" and len(self.versions) > 1:
            table.restore(int(self.chance.choice(list(self.versions)[:-1])))
        elif act == "checkpoint":
            table.create_checkpoint()
        else:
            write_deltalake(table, self.rows(), mode="append")


class FeedHistory(DeltaHistory):
    """A table with a change data feed."""

    feed = True


def counted(rows: Sequence[Row]) -> Counter[str]:
    return Counter(json.dumps({name: row[name] for name in COLUMNS.names}) for row in rows)

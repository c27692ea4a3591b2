"""Places of outputs whose acts a test mixes with those of others: tables of Iceberg and Delta, and folders of files."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from airflow_samza import stream_application
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import MessageRun, StreamSpec, SystemBinding, SystemStreamPartition
from demo import lake_reader
from tests.support import delta_lake, iceberg_lake

COLUMNS = ("id", "part", "note")
SCHEMA = "id bigint, part string, note string"

Values = tuple[int, str, str | None]
"""A row, as readers find it."""

OUTPUTS: list[tuple[str, str, str, dict[str, Any]]] = []
"""The outputs: the id of each, the rows that it gets (a condition), their note, and its parameters."""


@stream_application("acting")
def acting(app: Any) -> None:
    """Copy the rows of a run's file to the outputs."""
    rows = app.input_stream("rows", system="lake", schema=SCHEMA, path="in/{run_id}.jsonl", partitions=1)
    for name, where, note, parameters in OUTPUTS:
        chosen = rows.where(where, id=f"for-{name}").select("id", "part", f"{note} as note", id=f"noted-{name}")
        chosen.send_to(app.output_stream(name, **parameters))


class Place:
    """A place of outputs in a folder, and what others do to it: each act returns False where it makes no sense."""

    kind = ""
    acts: Sequence[str] = ()
    restores_columns = False

    def __init__(self, folder: Path, name: str = "out") -> None:
        self.folder, self.name = folder, name
        self.table_name = f"web.{name}"
        self.binding = SystemBinding(self.kind, {"root": str(folder)})
        self.options: dict[str, Any] = {"table": self.table_name, "create": True, "partition_by": "part"}

    def found(self) -> list[Values]:
        """Return the rows that inputs find."""
        raise NotImplementedError

    def scanned(self) -> list[Values]:
        """Return the rows that the kind's own library finds."""
        raise NotImplementedError

    def version(self) -> Any:
        """Return what names the present state; None where nobody can go back to it."""
        return None

    def words(self) -> str:
        """Return the words of SQL for the rows, as DuckDB finds them."""
        raise NotImplementedError

    def append(self, rows: Iterable[Values]) -> None:
        raise NotImplementedError

    def delete(self) -> None:
        """Delete all rows."""
        raise NotImplementedError

    def restore(self, version: Any) -> None:
        """Go back to a former state."""
        raise NotImplementedError


def plain(rows: Iterable[Mapping[str, Any]]) -> list[Values]:
    return [(row["id"], row["part"], row["note"]) for row in rows]


class Iceberg(Place):
    kind = "iceberg"
    acts = (
        "compact",
        "overwrite files",
        "spec",
        "add column",
        "drop column",
        "append",
        "restore",
        "delete",
        "property",
    )

    @property
    def table(self) -> Any:
        with iceberg_lake.catalog_at(self.folder) as catalog:
            return catalog.load_table(self.table_name)

    def found(self) -> list[Values]:
        return plain(iceberg_lake.rows_of(iceberg_lake.system_at(self.folder), iceberg_lake.stream(self.table_name)))

    def scanned(self) -> list[Values]:
        return plain(self.table.scan().to_arrow().to_pylist())

    def words(self) -> str:
        return lake_reader.iceberg_rows(self.folder, self.table_name)

    def version(self) -> Any:
        snapshot = self.table.current_snapshot()
        return None if snapshot is None else snapshot.snapshot_id

    def append(self, rows: Iterable[Values]) -> None:
        iceberg_lake.append(self.table, [dict(zip(COLUMNS, row, strict=True)) for row in rows])

    def delete(self) -> None:
        if self.found():
            self.table.delete(AlwaysTrue())

    def compact(self, operation: Operation = Operation.REPLACE) -> None:
        if self.found():
            iceberg_lake.compact(self.table, operation)

    def overwrite_files(self) -> None:
        """Compact the table by a writer that says of it that it may have changed rows."""
        self.compact(Operation.OVERWRITE)

    def spec(self) -> None:
        if len(self.table.spec().fields) == 1:
            with self.table.update_spec() as update:
                update.add_field("id", "identity", "id_value")

    def add_column(self) -> None:
        with self.table.update_schema() as update:
            update.add_column(f"extra_{len(self.table.schema().fields)}", StringType())

    def drop_column(self) -> None:
        with self.table.update_schema() as update:
            update.delete_column("note")
        with self.table.update_schema() as update:
            update.add_column("note", StringType())

    def restore(self, version: Any) -> None:
        self.table.manage_snapshots().set_current_snapshot(version).commit()

    def property(self) -> None:
        with self.table.transaction() as transaction:
            transaction.set_properties({"owner": "another"})


class Delta(Place):
    kind = "delta"
    acts: Sequence[str] = ("compact", "overwrite files", "add column", "append", "restore", "delete", "property")
    restores_columns = True
    mapped = False

    @property
    def path(self) -> Path:
        return self.folder / "web" / self.name

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def found(self) -> list[Values]:
        return plain(delta_lake.rows_of(delta_lake.system_at(self.folder), delta_lake.stream(self.table_name)))

    def scanned(self) -> list[Values]:
        return plain(pa.table(self.table.scan().read_all()).to_pylist())

    def words(self) -> str:
        return lake_reader.delta_rows(self.path)

    def version(self) -> Any:
        return self.table.version()

    def append(self, rows: Iterable[Values]) -> None:
        schema = pa.schema([("id", pa.int64()), ("part", pa.string()), ("note", pa.string())])
        more = [] if len(self._fields()) == len(COLUMNS) else [name for name in self._fields() if name not in COLUMNS]
        whole = pa.schema([*schema, *(pa.field(name, pa.string()) for name in more)])
        delta_lake.append(self.table, [dict(zip(COLUMNS, row, strict=True)) for row in rows], whole)

    def delete(self) -> None:
        self.table.delete()

    def compact(self) -> None:
        self.table.optimize.compact()

    def overwrite_files(self) -> None:
        """Sort the rows of each partition into a new file."""
        self.table.optimize.z_order(["id"])

    def _fields(self) -> list[str]:
        return [field.name for field in self.table.schema().fields]

    def _change_columns(self, change: Callable[[list[dict[str, Any]]], None], **more: str) -> None:
        """Commit other columns, as whoever knows the format does."""
        logs = sorted((self.path / "_delta_log").glob("*.json"))
        actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        metadata = [action["metaData"] for action in actions if "metaData" in action][-1]
        schema = json.loads(metadata["schemaString"])
        change(schema["fields"])
        metadata |= {"schemaString": json.dumps(schema), "configuration": {**metadata["configuration"], **more}}
        (self.path / "_delta_log" / f"{self.table.version() + 1:020}.json").write_text(
            f'{{"commitInfo": {{}}}}\n{json.dumps({"metaData": metadata})}\n'
        )

    def add_column(self) -> None:
        self._with_new(f"extra_{len(self._fields())}")

    def drop_column(self) -> None:
        self._change_columns(lambda fields: fields.remove(next(one for one in fields if one["name"] == "note")))
        self._with_new("note")

    def _with_new(self, name: str) -> None:
        number = int(self.table.metadata().configuration.get("delta.columnMapping.maxColumnId", 0)) + 1
        more = {"delta.columnMapping.maxColumnId": str(number)} if self.mapped else {}
        column = delta_lake.mapped(name, "string", number, f"col-{uuid.uuid4()}")
        made = column if self.mapped else delta_lake.column(name, "string")
        self._change_columns(lambda fields: fields.append(made), **more)

    def restore(self, version: Any) -> None:
        if version != self.version():  # which the library rejects
            self.table.restore(version)

    def property(self) -> None:
        self.table.alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})


class MappedDelta(Delta):
    """A table with column mapping, in which a column can be dropped."""

    acts = (*(act for act in Delta.acts if act not in ("compact", "overwrite files")), "drop column")  # of its library
    mapped = True

    def __init__(self, folder: Path, name: str = "out") -> None:
        super().__init__(folder, name)
        self.options["options"] = {"delta.columnMapping.mode": "name"}


class Files(Place):
    kind = "files"
    acts = ("append", "delete")

    def __init__(self, folder: Path, name: str = "out") -> None:
        super().__init__(folder, name)
        self.options = {"path": self.name}

    def found(self) -> list[Values]:
        system = FilesSystem("lake", self.binding)
        read = system.consumer(StreamSpec("out", schema=SCHEMA, path=self.name))
        runs = read.read(SystemStreamPartition("lake", "out", 0), None)
        return plain(row for run in runs if isinstance(run, MessageRun) for row in run.batch.to_pylist())

    def scanned(self) -> list[Values]:
        return plain(row for file in self._files() for row in pq.ParquetFile(file).read().to_pylist())

    def _files(self) -> list[Path]:
        return sorted((self.folder / self.name).glob("*.parquet"))

    def words(self) -> str:
        return f"read_parquet('{self.folder}/{self.name}/*.parquet')"

    def append(self, rows: Iterable[Values]) -> None:
        name = self.folder / self.name / f"theirs-{len(self._files())}.parquet"
        pq.write_table(pa.table(list(zip(*rows, strict=True)), names=COLUMNS), name)

    def delete(self) -> None:
        for file in self._files():
            file.unlink()

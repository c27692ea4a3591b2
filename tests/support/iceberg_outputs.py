"""Outputs to Iceberg tables for tests: what tasks stage, what is published, and which rows readers find."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import catalog_at, rows_of, system_at
from tests.support.iceberg_lake import stream as read_stream


def output_stream(table: str = "web.out", name: str = "out", schema: str | None = None, **options: str) -> StreamSpec:
    """Return the stream of an output to a table."""
    said = tuple({"table": table, **options}.items())
    return StreamSpec(name, partitions=1, schema=schema, written=True, options=said)


class Output:
    """An output to a table, in the catalog of a folder or in that of a server: as tasks and publishers see it."""

    def __init__(
        self,
        folder: Path | str,
        spec: StreamSpec | None = None,
        *,
        server: CatalogServer | None = None,
        root: str = "",
        locations: str = "",
    ) -> None:
        self.folder = folder
        self.spec = spec if spec is not None else output_stream()
        self.server = server
        self.root = root
        self.locations = locations
        """Folders in which files of its table may lie, beside its own."""

    @property
    def system(self) -> IcebergSystem:
        """The system as another process binds it."""
        if self.server is None:
            return system_at(self.folder, **({"locations": self.locations} if self.locations else {}))
        options = {"uri": self.server.url, "token": self.server.token}
        return IcebergSystem("lake", SystemBinding("iceberg", options, secret=frozenset({"token"})))

    def stage(
        self,
        rows: Sequence[Mapping[str, Any]] | pa.RecordBatch,
        *,
        run: str = "run",
        stage: str = "stage",
        generation: str = "1.1",
        epoch: int = 0,
        task: int = 0,
    ) -> dict[str, Any]:
        """Write rows as one task does, by a plan of the table as it is now; return its description."""
        number = Generation.parse(generation)
        system = self.system
        fixed = json.loads(json.dumps(system.fix_output(self.spec, None, f"{self.root}/app/{run}/{number.plan}")))
        producer = system.producer(self.spec, writer_name(stage, number, epoch, task), fixed)
        if isinstance(rows, pa.RecordBatch):
            producer.write(0, rows)
        elif rows:
            columns = producer.target.declared.to_arrow()
            known = pa.schema([field for field in columns if any(field.name in row for row in rows)])
            producer.write(0, pa.RecordBatch.from_pylist(list(rows), known))
        described: dict[str, Any] = json.loads(json.dumps(producer.finish()))
        return described

    def publication(
        self,
        rows: Sequence[Mapping[str, Any]],
        *,
        run: str = "run",
        stage: str = "stage",
        generation: str = "1.1",
        epoch: int = 0,
        slot: OutputSlot | None = None,
        root: str = "",
        continues: bool | None = None,
    ) -> Publication:
        """Stage rows, and return their publication; an epoch behind the first continues what had rows."""
        staged = self.stage(rows, run=run, stage=stage, generation=generation, epoch=epoch)
        continues = epoch > 0 if continues is None else continues
        return Publication(
            f"app/{run}/{stage}", generation, epoch, {0: staged}, slot=slot, root=root, continues=continues
        )

    def publish(self, rows: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Stage and publish rows."""
        return self.system.publish(self.spec, self.publication(rows, **options))

    def table(self) -> Table:
        """Return the table as it is now."""
        name = dict(self.spec.options)["table"]
        if self.server is not None:
            return self.server.catalog.load_table(name)
        with catalog_at(self.folder) as catalog:
            return catalog.load_table(name)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that the consumer here finds."""
        return rows_of(self.system, read_stream(dict(self.spec.options)["table"]))

    def scanned(self) -> list[dict[str, Any]]:
        """Return the rows that pyiceberg finds, which need not be in any order."""
        found: list[dict[str, Any]] = self.table().scan().to_arrow().to_pylist()
        return found

    def ids(self) -> list[int]:
        """Return the column ``id`` of all rows, sorted, in which pyiceberg and the consumer here have to agree."""
        ours, theirs = (sorted(row["id"] for row in rows) for rows in (self.rows(), self.scanned()))
        assert ours == theirs
        return ours


def files_of(described: Mapping[str, Any]) -> list[Path]:
    """Return the files that a task has written."""
    return [Path(file["path"].removeprefix("file://")) for file in described["files"]]


def ids(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Return rows with these numbers in their column ``id``."""
    return [{"id": number} for number in numbers]

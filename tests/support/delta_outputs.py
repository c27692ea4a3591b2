"""Outputs to Delta tables for tests: what tasks stage, what is published, and which rows readers find."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.delta_lake import append, rows_of
from tests.support.delta_lake import stream as read_stream
from tests.support.iceberg_outputs import output_stream


def system_of(folder: Path | str, **options: Any) -> DeltaSystem:
    """Return the system of the tables in a folder, with a root beside it."""
    return DeltaSystem("lake", SystemBinding("delta", {"root": str(folder), **options}), f"{folder}.root")


def waiting_files(folder: Path | str, run: str = "run") -> list[str]:
    """Return the data files of what waits of a run, as somebody finds them who audits it."""
    commits = Path(f"{folder}.root", "runs", "app", run, "branches").glob("*/*.json")
    return [file for one in commits for file in json.loads(one.read_text()).get("files", ())]


class Output:
    """An output to a table in a folder or bucket, as tasks and publishers see it; the library is the judge of it."""

    def __init__(self, folder: Path | str, spec: StreamSpec | None = None, **options: Any) -> None:
        self.folder = folder
        self.spec = spec if spec is not None else output_stream()
        self.options = options

    @property
    def system(self) -> DeltaSystem:
        """The system as another process binds it."""
        return system_of(self.folder, **self.options)

    def stage(
        self,
        rows: Sequence[Mapping[str, Any]] | pa.RecordBatch,
        *,
        run: str = "run",
        stage: str = "stage",
        generation: str = "1.1",
        epoch: int = 0,
    ) -> dict[str, Any]:
        """Write rows as one task does, by a plan of the table as it is now; return its description."""
        number = Generation.parse(generation)
        system = self.system
        fixed = json.loads(json.dumps(system.fix_output(self.spec, None, f"app/{run}/{number.plan}")))
        producer = system.producer(self.spec, writer_name(stage, number, epoch, 0), fixed)
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
        rows: Sequence[Mapping[str, Any]] | pa.RecordBatch,
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

    def publish(self, rows: Sequence[Mapping[str, Any]] | pa.RecordBatch, **options: Any) -> dict[str, Any]:
        """Stage and publish rows."""
        return self.system.publish(self.spec, self.publication(rows, **options))

    @property
    def place(self) -> Path:
        """The folder of the table."""
        return Path(self.folder, *dict(self.spec.options)["table"].split("."))

    def table(self) -> DeltaTable:
        """Return the table as it is now."""
        return DeltaTable(str(self.place))

    def foreign(self, *rows: Mapping[str, Any], **more: Any) -> None:
        """Append rows as another writer does, who knows nothing of this package."""
        table = self.table()
        append(table, rows, pa.schema(table.schema().to_arrow()), **more)

    def scanned(self) -> list[dict[str, Any]]:
        """Return the rows that the library finds."""
        found: list[dict[str, Any]] = pa.table(self.table().scan().read_all()).to_pylist()
        return found

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that the consumer here finds."""
        return rows_of(self.system, read_stream(dict(self.spec.options)["table"]))

    def ids(self) -> list[int]:
        """Return the column ``id`` of all rows, sorted, in which the library and the consumer here have to agree."""
        ours, theirs = (sorted(row["id"] for row in rows) for rows in (self.rows(), self.scanned()))
        assert ours == theirs
        return ours


def made_output(folder: Path | str, schema: str = "id bigint, part string", **options: str) -> Output:
    """Return an output to a table that it has made."""
    output = Output(folder, output_stream(schema=schema, create="true", **options))
    output.system.create([output.spec])
    return output

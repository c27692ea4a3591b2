"""Outputs to tables, whatever their kind: what tasks stage, what is published, and which rows readers find."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, StreamSpec
from tests.support.table_inputs import rows_of, stream

Rows: TypeAlias = "Sequence[Mapping[str, Any]] | pa.RecordBatch"
_Output = TypeVar("_Output", bound="TableOutput")


def output_stream(table: str = "web.out", name: str = "out", schema: str | None = None, **options: str) -> StreamSpec:
    """Return the stream of an output to a table."""
    said = tuple({"table": table, **options}.items())
    return StreamSpec(name, partitions=1, schema=schema, written=True, options=said)


def ids(numbers: Iterable[int]) -> list[dict[str, Any]]:
    """Return rows with these numbers in their column ``id``."""
    return [{"id": number} for number in numbers]


class TableOutput:
    """An output to a table, as tasks and publishers see it; the library of its kind is the judge of it."""

    def __init__(self, folder: Path | str, spec: StreamSpec | None = None, *, root: str = "") -> None:
        self.folder = folder
        self.spec = spec if spec is not None else output_stream()
        self.root = root

    @classmethod
    def made(cls: type[_Output], folder: Path | str, schema: str = "id bigint, part string", **options: str) -> _Output:
        """Return an output to a table that it has made."""
        output = cls(folder, output_stream(schema=schema, create="true", **options))
        output.system.create([output.spec])
        return output

    @property
    def system(self) -> Any:
        """The system as another process binds it."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """The name of the table."""
        return dict(self.spec.options)["table"]

    def stage(
        self,
        rows: Rows,
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
        plan = Path(self.root, "app", run, str(number.plan))
        fixed = json.loads(json.dumps(system.fix_output(self.spec, None, str(plan))))
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
        rows: Rows,
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
        staged = {0: self.stage(rows, run=run, stage=stage, generation=generation, epoch=epoch)}
        continues = epoch > 0 if continues is None else continues
        return Publication(f"app/{run}/{stage}", generation, epoch, staged, slot=slot, root=root, continues=continues)

    def publish(self, rows: Rows, **options: Any) -> dict[str, Any]:
        """Stage and publish rows."""
        facts: dict[str, Any] = self.system.publish(self.spec, self.publication(rows, **options))
        return facts

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that the consumer here finds."""
        return rows_of(self.system, stream(self.name))

    def scanned(self) -> list[dict[str, Any]]:
        """Return the rows that the library finds, which need not be in any order."""
        raise NotImplementedError

    def ids(self) -> list[int]:
        """Return the column ``id`` of all rows, sorted, in which the library and the consumer here have to agree."""
        ours, theirs = (sorted(row["id"] for row in rows) for rows in (self.rows(), self.scanned()))
        assert ours == theirs
        return ours

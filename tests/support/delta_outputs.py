"""Outputs to Delta tables for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from airflow_samza.systems.delta.system import DeltaSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.delta_lake import append
from tests.support.table_outputs import TableOutput


def system_of(folder: Path | str, **options: Any) -> DeltaSystem:
    """Return the system of the tables in a folder, with a root beside it."""
    return DeltaSystem("lake", SystemBinding("delta", {"root": str(folder), **options}), f"{folder}.root")


def waiting_files(folder: Path | str, run: str = "run") -> list[str]:
    """Return the data files of what waits of a run, as somebody finds them who audits it."""
    commits = Path(f"{folder}.root", "runs", "app", run, "branches").glob("*/*.json")
    return [file for one in commits for file in json.loads(one.read_text()).get("files", ())]


class Output(TableOutput):
    """An output to a table in a folder or bucket."""

    def __init__(self, folder: Path | str, spec: StreamSpec | None = None, *, root: str = "", **options: Any) -> None:
        super().__init__(folder, spec, root=root)
        self.options = options

    @property
    def system(self) -> DeltaSystem:
        return system_of(self.folder, **self.options)

    @property
    def place(self) -> Path:
        """The folder of the table."""
        return Path(self.folder, *self.name.split("."))

    def table(self) -> DeltaTable:
        """Return the table as it is now."""
        return DeltaTable(str(self.place))

    def versions(self) -> int:
        """Return how often something was committed to the table since it was made."""
        return int(self.table().version())

    def foreign(self, *rows: Mapping[str, Any], **more: Any) -> None:
        """Append rows as another writer does, who knows nothing of this package."""
        table = self.table()
        append(table, rows, pa.schema(table.schema().to_arrow()), **more)

    def compact(self) -> None:
        """Put all rows into one file, as another writer does."""
        self.table().optimize.compact()

    def files_of(self, described: Mapping[str, Any]) -> list[Path]:
        """Return the files that a task has written."""
        return [self.place / file["path"] for file in described["files"]]

    def scanned(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = pa.table(self.table().scan().read_all()).to_pylist()
        return found


made_output = Output.made

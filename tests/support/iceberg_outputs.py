"""Outputs to Iceberg tables for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.iceberg_catalog_server import CatalogServer
from tests.support.iceberg_lake import append, catalog_at, compact, system_at
from tests.support.table_outputs import TableOutput, ids as ids, output_stream as output_stream


class Output(TableOutput):
    """An output to a table, in the catalog of a folder or in that of a server."""

    def __init__(
        self,
        folder: Path | str,
        spec: StreamSpec | None = None,
        *,
        server: CatalogServer | None = None,
        root: str = "",
        locations: str = "",
    ) -> None:
        super().__init__(folder, spec, root=root)
        self.server = server
        self.locations = locations
        """Folders in which files of its table may lie, beside its own."""

    @property
    def system(self) -> IcebergSystem:
        if self.server is None:
            return system_at(self.folder, **({"locations": self.locations} if self.locations else {}))
        options = {"uri": self.server.url, "token": self.server.token}
        return IcebergSystem("lake", SystemBinding("iceberg", options, secret=frozenset({"token"})))

    def table(self) -> Table:
        """Return the table as it is now."""
        if self.server is not None:
            return self.server.catalog.load_table(self.name)
        with catalog_at(self.folder) as catalog:
            return catalog.load_table(self.name)

    def versions(self) -> int:
        """Return the number of the table's snapshots."""
        return len(self.table().snapshots())

    def foreign(self, *rows: Mapping[str, Any]) -> None:
        """Append rows as another writer does, who knows nothing of this package."""
        append(self.table(), rows)

    def compact(self) -> None:
        """Put all rows into one file, as another writer does."""
        compact(self.table())

    def files_of(self, described: Mapping[str, Any]) -> list[Path]:
        """Return the files that a task has written."""
        return [Path(file["path"].removeprefix("file://")) for file in described["files"]]

    def scanned(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table().scan().to_arrow().to_pylist()
        return found


made_output = Output.made

"""Data files of an output as the table's metadata has them: with statistics from their footers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.failures import is_missing, storage_errors
from airflow_samza.systems.iceberg.storage import TableStorage
from airflow_samza.systems.iceberg.transforms import partition_value
from airflow_samza.systems.topic_rejections import WRITES_AGAIN

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

_THREADS = 8


class StagedFiles:
    """Data files that an epoch has staged; their footers are read once."""

    def __init__(self, storage: TableStorage, files: Sequence[Mapping[str, Any]], stream: str) -> None:
        self._storage = storage
        self._files = files
        self._stream = stream
        self._footers: list[pq.FileMetaData] = []

    def __len__(self) -> int:
        return len(self._files)

    def _read_footers(self) -> None:
        """Read the footers; a file that is gone is a ``TopicError``."""
        if len(self._footers) < len(self._files):
            with ThreadPoolExecutor(_THREADS) as threads:
                self._footers = list(threads.map(self._footer, self._files))

    def _footer(self, file: Mapping[str, Any]) -> pq.FileMetaData:
        place = self._storage.at(str(file["path"]))
        with storage_errors(path=str(place), stream=self._stream, doing="read"):
            try:
                return pq.read_metadata(place.path, filesystem=place.filesystem)
            except OSError as error:
                if not is_missing(error):
                    raise
                raise TopicError(
                    f"The data file {place} of the output {self._stream!r} is gone before it was committed.",
                    hint=WRITES_AGAIN,
                    path=str(place),
                    stream=self._stream,
                ) from error

    def as_data_files(self, table: Table) -> list[DataFile]:
        """Return the files for a commit to a table whose partition spec is that for which they were written."""
        from pyiceberg.io.pyarrow import (
            compute_statistics_plan,
            data_file_statistics_from_parquet_metadata,
            parquet_path_to_id_mapping,
        )
        from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
        from pyiceberg.typedef import Record

        schema, spec = table.schema(), table.spec()
        plan = compute_statistics_plan(schema, table.properties)
        paths = parquet_path_to_id_mapping(schema)
        words = [str(field.field_type) for field in spec.partition_type(schema).fields]
        self._read_footers()
        files = []
        for described, footer in zip(self._files, self._footers, strict=True):
            values = [partition_value(*pair) for pair in zip(described["partition"], words, strict=True)]
            statistics = data_file_statistics_from_parquet_metadata(footer, plan, paths).to_serialized_dict()
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=str(described["path"]),
                file_format=FileFormat.PARQUET,
                partition=Record(*values),
                file_size_in_bytes=int(described["bytes"]),
                sort_order_id=None,
                spec_id=spec.spec_id,
                equality_ids=None,
                key_metadata=None,
                **statistics,
            )
            file.spec_id = spec.spec_id
            files.append(file)
        return files


def live_files(table: Table, branch: str) -> Iterator[DataFile]:
    """Yield the data files of the newest snapshot of a branch."""
    from pyiceberg.manifest import DataFileContent, ManifestContent

    snapshot = table.metadata.snapshot_by_name(branch)
    for manifest in () if snapshot is None else snapshot.manifests(table.io):
        if manifest.content == ManifestContent.DATA:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                if entry.data_file.content == DataFileContent.DATA:
                    yield entry.data_file


def file_name(file: DataFile) -> str:
    """Return the last part of a data file's path."""
    return str(file.file_path).rpartition("/")[2]


def begins_with(file: DataFile, prefixes: Iterable[str]) -> bool:
    """Return whether the name of a data file begins with one of some prefixes."""
    return file_name(file).startswith(tuple(prefixes))

"""Data files that an epoch has staged for a table, with their footers, from which statistics are made.

Publishers of both lake formats take them, and who reads the rows of staged files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pyarrow.parquet as pq

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.failures import is_missing, storage_errors
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.topic_rejections import CLEAR_STAGE

_THREADS = 8


class StagedFiles:
    """Data files that an epoch has staged; their footers are read once."""

    def __init__(self, at: Callable[[str], Location], files: Sequence[Mapping[str, Any]], stream: str) -> None:
        self.files = files
        self._at = at
        self._stream = stream
        self._footers: list[pq.FileMetaData] = []

    def __len__(self) -> int:
        return len(self.files)

    def footers(self) -> list[pq.FileMetaData]:
        """Return the footers, in the order of the files; a file that is gone is a ``TopicError``."""
        if len(self._footers) < len(self.files):
            with ThreadPoolExecutor(_THREADS) as threads:
                # One file needs no thread: the pool starts them when they have work.
                self._footers = list((threads.map if len(self.files) > 1 else map)(self._footer, self.files))
        return self._footers

    def _footer(self, file: Mapping[str, Any]) -> pq.FileMetaData:
        place = self._at(str(file["path"]))
        with reading_staged(place, self._stream, gone("data file", place, self._stream)):
            return pq.read_metadata(place.path, filesystem=place.filesystem)


@contextmanager
def reading_staged(place: Location, stream: str, missing: TopicError) -> Iterator[None]:
    """Turn what the storage raises inside the block into an error: ``missing`` of a file that is not there."""
    with storage_errors(path=str(place), stream=stream, doing="read"):
        try:
            yield
        except OSError as error:
            if not is_missing(error):
                raise
            raise missing from error


def gone(what: str, place: Location, stream: str) -> TopicError:
    """Return the error of a file that tasks have staged, and that is not there any more."""
    return TopicError(
        f"The {what} {place} of the output {stream!r} is gone before it was committed.",
        hint=CLEAR_STAGE,
        path=str(place),
        stream=stream,
    )

"""Amounts of what Spark would read, as far as a listing tells them without a Spark."""

from __future__ import annotations

import re

from pyarrow import ArrowException

from airflow_samza.errors import SamzaError
from airflow_samza.systems.files.listing import find_files
from airflow_samza.systems.files.location import has_glob, open_location
from airflow_samza.systems.spark.tables import SparkTable
from airflow_samza.systems.system import StreamSpec, SystemBinding

_OF_FILES = frozenset({None, "parquet", "orc", "csv", "json", "text", "xml", "avro", "binaryfile"})
"""Formats whose data are all files below a path; a path without a format is Parquet."""

_CHOOSING = frozenset({"pathglobfilter", "modifiedafter", "modifiedbefore"})
"""Options of readers by which some of the files are read."""


def listed_amount(system: str, binding: SystemBinding, stream: StreamSpec) -> tuple[int, int] | None:
    """Return how many files of how many bytes Spark reads of a stream.

    None where only Spark or a server knows: of a table, a query, rows by their timestamp, or some of the files, and
    where the place cannot be listed from here.
    """
    table = SparkTable.of(system, binding, stream)
    if table.path is None or stream.interval is not None or has_glob(table.path) or "{" in table.path:
        return None
    format_ = table.format.lower() if table.format is not None else None
    if format_ not in _OF_FILES or _CHOOSING & {name.lower() for name in table.options}:
        return None
    try:
        found = find_files(open_location(re.sub("^s3[an]:", "s3:", table.path)), "")
    except (SamzaError, ArrowException, OSError, ValueError):  # no rights, no client, no such host
        return None
    return None if found.missing else (len(found.files), sum(file.size for file in found.files))

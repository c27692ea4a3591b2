"""Streams of a system of kind ``spark``, as Spark sees them.

What a DataFrame reader reads of it, how a writer writes it, what that promises. The plan step notes them, the stage
runner reads and writes them, and lineage names them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyarrow import ArrowException

from airflow_samza.application.rejections import unknown_mode
from airflow_samza.errors import ConfigError, SamzaError, TopicError
from airflow_samza.secrecy import secret_names, without
from airflow_samza.systems.capabilities import Delivery
from airflow_samza.systems.files.listing import find_files
from airflow_samza.systems.files.location import has_glob, open_location
from airflow_samza.systems.system import StreamSpec, SystemBinding, option_text

APPEND, OVERWRITE, OVERWRITE_PARTITIONS, UPSERT = MODES = ("append", "overwrite", "overwrite_partitions", "upsert")

_OF_BINDING = ("root", "format", "partitions")
_OF_STREAM = ("table", "query", "mode", "partition_by")
_TABLE_FORMATS = ("jdbc",)
"""Formats whose place is a table of a server, and never a path."""


@dataclass(frozen=True)
class SparkTable:
    """A stream as Spark sees it.

    One of ``path``, ``table`` and ``query`` says where; ``format`` None is the catalog's own.

    ``options`` go to the reader or writer as they are, and may hold secrets (``secret`` are their names): no text shows
    them. ``mode``, ``partition_by`` and ``key`` are for what is written. ``serde``: messages are bytes in the column
    ``value``.
    """

    stream: str
    system: str
    format: str | None = None
    path: str | None = None
    table: str | None = None
    query: str | None = None
    mode: str = APPEND
    partition_by: tuple[str, ...] = ()
    serde: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()

    @classmethod
    def of(cls, system: str, binding: SystemBinding, stream: StreamSpec) -> SparkTable:
        """Return the table of a stream: options of the stream stand above those of the environment."""
        said = dict(stream.options)
        options = {str(name): option_text(value) for name, value in binding.options.items() if name not in _OF_BINDING}
        options |= {name: value for name, value in said.items() if name not in _OF_STREAM}
        table = cls(
            stream=stream.name,
            system=system,
            format=stream.format or (str(binding.options["format"]) if binding.options.get("format") else None),
            path=_path(binding, stream),
            table=said.get("table"),
            query=said.get("query"),
            mode=said.get("mode", APPEND),
            partition_by=tuple(name.strip() for name in said.get("partition_by", "").split(",") if name.strip()),
            serde=stream.serde,
            options=options,
            secret=frozenset(binding.secret & set(options)) | secret_names(options),
            key=stream.key,
        )
        table._check(stream)
        return table if table.path or table.table or table.query else _named(table, binding)

    @property
    def place(self) -> str:
        """Place of the table, as people read it."""
        where = self.path or self.table or (f"the query {self.query!r}" if self.query else self.stream)
        return f"{self.format} {where}" if self.format else where

    @property
    def waits_for_the_end(self) -> bool:
        """Return whether it is written once, when the stage ends: what replaces cannot be written bit by bit."""
        return self.mode not in (APPEND, UPSERT)

    @property
    def is_in_catalog(self) -> bool:
        """Return whether its place is a table of a catalog, which has a format of its own once it is there."""
        return self.path is None and self.format not in _TABLE_FORMATS

    @property
    def skips_repeats(self) -> bool:
        """Return whether the writer itself knows a publication again; a table that is there has to be of the format."""
        return is_delta(self.format) and self.mode == APPEND

    @property
    def delivery(self) -> Delivery:
        """Delivery that the plan promises of the output."""
        if self.mode == OVERWRITE:
            return Delivery(True, "the stage's end replaces the whole table, and a repeat replaces it by the same")
        if self.mode == OVERWRITE_PARTITIONS:
            columns = ", ".join(self.partition_by)
            return Delivery(
                True,
                f"the stage's end replaces the partitions by {columns} that it has rows for; "
                "a repeat does the same again",
            )
        if self.mode == UPSERT:
            return Delivery(True, "an epoch is one transaction of the database, which counts it in samza_epochs")
        if self.skips_repeats:
            return Delivery(True, "Delta skips a transaction that it has")
        if self.is_in_catalog and is_iceberg(self.format):
            return Delivery(
                False,
                "an append that dies between Spark's write and the record of it is looked for in the table's "
                "snapshots, and is made again if its own has expired",
            )
        unless = ", unless the table is one of Delta's" if self.is_in_catalog and self.format is None else ""
        return Delivery(False, f"an append that dies between Spark's write and the record of it is made again{unless}")

    @property
    def rerun(self) -> str | None:
        """Words for what a rerun does, for the plan; None where that is what ``delivery`` says of a repeat."""
        acts = {APPEND: "appends", UPSERT: "upserts"}
        return f"a cleared stage {acts[self.mode]} again" if self.mode in acts else None

    def without_secrets(self, text: str) -> str:
        """Return a text for people, in which no secret option stands."""
        return without(text, [self.options[name] for name in self.secret if name in self.options])

    def _check(self, stream: StreamSpec) -> None:
        what = f"The {'output' if stream.written else 'input'} {stream.name!r} of the system {self.system!r} (spark)"
        if sum(1 for place in (stream.path, self.table, self.query) if place) > 1:
            raise ConfigError(
                f"{what} names more than one of path, table and query.",
                hint="Give one of them.",
                key="options",
                stream=stream.name,
            )
        if self.mode not in MODES:
            raise unknown_mode(what, self.mode, MODES, stream=stream.name)
        if not stream.written:
            return
        if self.query:
            raise TopicError(
                f"{what} is a query, and cannot be written.", hint="Name a table or a path.", stream=stream.name
            )
        if self.mode == UPSERT and (self.format not in _TABLE_FORMATS or not stream.key or self.serde is not None):
            wrong, hint = (
                ("has no key, by which rows would be replaced", 'Declare it on the output: key="member_id".')
                if self.format in _TABLE_FORMATS and self.serde is None
                else (
                    "is none of a database",
                    "Write tables of a database by JDBC (format jdbc), or those of a system of kind iceberg or delta.",
                )
            )
            raise ConfigError(
                f'{what} has mode="{UPSERT}", and {wrong}.',
                hint=hint,
                key="mode",
                value=self.mode,
                stream=stream.name,
            )
        if self.mode == OVERWRITE_PARTITIONS and not self.partition_by:
            raise ConfigError(
                f"{what} replaces partitions, and names no partition columns.",
                hint='Name them: options={"mode": "overwrite_partitions", "partition_by": "day"}.',
                key="partition_by",
                stream=stream.name,
            )
        if self.mode == OVERWRITE_PARTITIONS and self.format in _TABLE_FORMATS:
            raise ConfigError(
                f"{what} replaces partitions, which {self.format} does not have.",
                hint='Write it with mode="overwrite", or "append".',
                key="mode",
                value=self.mode,
                stream=stream.name,
            )


def _path(binding: SystemBinding, stream: StreamSpec) -> str | None:
    if stream.path is None:
        return None
    root = binding.options.get("root")
    absolute = stream.path.startswith("/") or "://" in stream.path
    if not absolute and posixpath.normpath(stream.path).split("/")[0] == "..":
        raise TopicError(
            f"The path {stream.path!r} of stream {stream.name!r} leads out of the root of its system.",
            hint="Name another place as an absolute path.",
            path=stream.path,
            stream=stream.name,
        )
    return stream.path if absolute or not root else f"{str(root).rstrip('/')}/{stream.path}"


def _named(table: SparkTable, binding: SystemBinding) -> SparkTable:
    """Return the place of a stream that names none: a folder of its name below the system's root, else a table."""
    root = binding.options.get("root")
    if root and table.format not in _TABLE_FORMATS:
        return replace(table, path=f"{str(root).rstrip('/')}/{table.stream}")
    return replace(table, table=table.stream)


def is_delta(format: str | None) -> bool:
    """Return whether a format, or the provider of a table, is Delta, which knows the transactions of writers."""
    return format is not None and format.lower() == "delta"


def is_iceberg(format: str | None) -> bool:
    """Return whether a format, or the provider of a table, is Iceberg, whose snapshots have properties of writers."""
    return format is not None and format.lower() == "iceberg"


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
        files = find_files(open_location(re.sub("^s3[an]:", "s3:", table.path)), "")
    except (SamzaError, ArrowException, OSError, ValueError):  # no rights, no client, no such host
        return None
    return None if files.missing else (len(files.files), sum(file.size for file in files.files))

"""Options of Delta tables, read or written, and the settings of the folder in which they lie: checked once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.secrecy import without_passwords
from airflow_samza.systems.delta.columns import MODE, MODES, UNMAPPED
from airflow_samza.systems.files.formats.options import storage_options
from airflow_samza.systems.files.location import Location, is_url, open_location
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.system import StreamSpec, SystemBinding
from airflow_samza.systems.tables.options import (
    OF_OUTPUT,
    REJECT,
    WAITING,
    TableOutputOptions,
    bad_name,
    check_one_version,
    check_options,
    checked_overwrites,
    point_in_time,
    version_number,
)

VERSIONS = ("version", "as_of", WAITING)
_WHAT = "a Delta table"
_OF_STREAM = ("table", *VERSIONS, "overwrites")
_RUN = re.compile(r"[^/]+/[^/]+")
_PART = re.compile(r"[^/\\\0]+")

AUTO_COMPACT = "delta.autoOptimize.autoCompact"
"""Property by which Delta has it that who commits to a table merges its small files."""

PROPERTIES = (
    "delta.appendOnly",
    AUTO_COMPACT,
    "delta.checkpointInterval",
    MODE,
    "delta.dataSkippingNumIndexedCols",
    "delta.deletedFileRetentionDuration",
    "delta.enableExpiredLogCleanup",
    "delta.logRetentionDuration",
    "delta.parquet.compression.codec",
    "delta.targetFileSize",
)
"""Properties with a meaning to Delta that an output may give the table that it makes."""


@dataclass(frozen=True)
class DeltaSettings:
    """Settings of a system of tables: its root, and the options by which its storage is opened."""

    system: str
    root: str = field(repr=False)
    storage: Mapping[str, Any] = field(repr=False)
    secret: frozenset[str] = frozenset()

    @classmethod
    def of(cls, system: str, binding: SystemBinding) -> DeltaSettings:
        """Return the settings in a binding; a local root has no options of a storage."""
        root = str(binding.options.get("root") or "")
        if not root:
            raise ConfigError(
                f"System {system!r} (delta) has no root.",
                hint="Set root= to the folder in which the tables lie, or to its URL (s3://, gs://, abfss://, hdfs://).",
                key="root",
            )
        storage = storage_options(binding.options)
        if storage and (not is_url(root) or root.startswith("file:")):
            unknown = sorted(storage)[0]
            raise ConfigError(
                f"System {system!r} (delta) has the unknown option {unknown!r}.",
                hint=f"{did_you_mean(unknown, ('root', 'partitions'))}Its options are root and partitions; a root that "
                "is a URL takes the options of its storage, too.",
                key=unknown,
            )
        return cls(system, root, storage, binding.secret)

    @property
    def place(self) -> str:
        """Place of the tables, for people."""
        return without_passwords(self.root)

    def opened(self) -> Location:
        """Return the root, opened with the credentials of the binding."""
        return open_location(self.root, self.storage, secret=self.secret)

    def log_of(self, table: str) -> Filesystem:
        """Return the storage of a table's folder, opened to commit: with an atomic *put if absent*."""
        url = self.root if is_url(self.root) else os.path.abspath(os.path.expanduser(self.root))
        try:
            return open_filesystem(f"{url.rstrip('/')}/{path_of(table)}", self.storage)
        except ConfigError as error:
            raise ConfigError(
                f"The table {table} lies in {self.place} (system {self.system!r}), a storage to which no epoch can be "
                "committed exactly once.",
                hint="Tables are written on disks, HDFS, and object stores at s3://, gs:// and abfss://.",
                key="root",
                value=self.place,
            ) from error


@dataclass(frozen=True)
class TableOptions:
    """Options of a Delta table that is read: its name, and one of ``version``, ``as_of`` and ``waiting``, or none.

    ``waiting`` is the run, ``<application>/<run>``, of which the rows are read that wait for their publication ("": of
    none). ``overwrites`` is the rule for versions that have taken rows away, where the input is read by what is
    appended.
    """

    table: str
    version: int | None = None
    as_of: datetime | None = None
    overwrites: str = REJECT
    waiting: str = ""

    @classmethod
    def of(cls, stream: StreamSpec) -> TableOptions:
        """Return the options of a stream; an unknown name or an impossible value is a ``ConfigError``."""
        options = check_options(stream, _OF_STREAM, what=_WHAT)
        check_one_version(stream, options, VERSIONS, reads="one version")
        as_of = point_in_time(stream, options.get("as_of"))
        overwrites = checked_overwrites(stream, options)
        version = max((_number(stream, text) for text in stream.up_to), default=None)
        version = _number(stream, options["version"]) if options.get("version") else version
        waiting = options.get(WAITING) or ""
        if waiting and not _RUN.fullmatch(waiting):
            raise ConfigError(
                f"Stream {stream.name!r} has waiting={waiting!r}, which names no run.",
                hint='Write the application and the id of the run: options={"waiting": "audited-views/monday"}.',
                key=WAITING,
                value=waiting,
            )
        return cls(table_name(stream, options), version, as_of, overwrites, waiting)


def table_name(stream: StreamSpec, options: Mapping[str, str]) -> str:
    """Return the name of a stream's table; an impossible one is rejected."""
    table = options.get("table") or stream.name
    if not all(_PART.fullmatch(part) and part.strip() and part not in (".", "..") for part in _parts(table)):
        raise bad_name(
            stream,
            table,
            'Write table="web.views" for the table in the folder web/views below the root of the system, or its '
            'path below the root: table="web.db/views".',
        )
    return table


def path_of(table: str) -> str:
    """Return a table's folder below the root: a folder for each part of its name, or the path that the name is."""
    return "/".join(_parts(table))


def _parts(table: str) -> list[str]:
    return table.split("/" if "/" in table else ".")


def _number(stream: StreamSpec, text: str) -> int:
    hint = 'Write the number as the table\'s history has it: options={"version": "12"}; as_of is a time.'
    return version_number(stream, text, "version", 18, hint)


class OutputOptions(TableOutputOptions):
    """Options of a table in a folder that is written."""

    @classmethod
    def of(cls, stream: StreamSpec) -> OutputOptions:
        """Return the options of an output; an unknown name or an impossible value is a ``ConfigError``."""
        if dict(stream.options).get("sort_by"):  # which outputs to tables of Iceberg have
            raise ConfigError(
                f"The output {stream.name!r} has sort_by=, and Delta tables have no sort order.",
                hint="Leave it out, and have the table clustered by OPTIMIZE … ZORDER BY, for instance.",
                key="sort_by",
            )
        options = check_options(stream, OF_OUTPUT, what=_WHAT)
        found = cls.checked(stream, options, table_name(stream, options), _partition_field)
        unknown = next((name for name in found.properties if name.startswith("delta.") and name not in PROPERTIES), "")
        if unknown:
            raise ConfigError(
                f"The output {stream.name!r} gives its table the property {unknown}, which is not set here.",
                hint=f"{did_you_mean(unknown, PROPERTIES)}The properties of Delta that may be set are "
                f"{', '.join(PROPERTIES)}; make the table by other means if it needs another.",
                key=unknown,
                value=found.properties[unknown],
            )
        mode = found.properties.get(MODE, UNMAPPED)
        if mode not in MODES:
            raise ConfigError(
                f"The output {stream.name!r} gives its table the property {MODE}={mode!r}.",
                hint=f"{did_you_mean(mode, MODES)}Columns are mapped by name or by id, or none is.",
                key=MODE,
                value=mode,
            )
        return found


def _partition_field(stream: StreamSpec, text: str) -> tuple[str, str]:
    if "(" not in text:
        return text, "identity"
    raise ConfigError(
        f"The output {stream.name!r} is partitioned by {text!r}, and a Delta table is partitioned by columns.",
        hint='Make the value a column with select, such as cast(at as date) as day, and write partition_by="day".',
        key="partition_by",
        value=text,
    )

"""The request for a push of a table: the table, the source, and what is done about nulls, duplicates and odd sizes.

It lies as ``push.json`` in the folder of the push, which has the form of a run with one stage; it holds no secrets.
Operators and the command line make it, and the stage runner takes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from airflow_samza.errors import ConfigError
from airflow_samza.records import durable, plain
from airflow_samza.runs.records.expectations import Checked, Declared
from airflow_samza.runs.records.folders import missing_record, read
from airflow_samza.runs.records.names import Generation, safe
from airflow_samza.runs.stages.stage_state import EpochTasks, StageHandle
from airflow_samza.runs.tables.compacting import COMPACT_AFTER
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.lake_source import LAKES, LakeSource
from airflow_samza.runs.tables.table_version import FULL, INCREMENTAL
from airflow_samza.secrecy import gives_away
from airflow_samza.systems.filesystems.filesystem import Filesystem

SHRINKS_AT_MOST = 0.5
"""Meaning of ``max_change_ratio`` None: a full push may grow, and lose half of the rows at most."""

STAGE = "push"
"""The one stage of a push."""

_CHOICES = {"mode": (FULL, INCREMENTAL), "on_null_key": ("fail", "drop"), "on_duplicate": ("fail", "last", "any")}
_KINDS = ("path", "table", "query", "jdbc", "callable", *LAKES)
_BESIDE = {"path": ("format", "options"), **{kind: ("system", word) for kind, word in LAKES.items()}}


SOURCE = "push-source"
"""The name of the binding that holds options of the source which must lie in no file."""


@durable("push of a table", later={"messages_shown": True, "since": None, "table_id": None, "expect": ()})
@dataclass(frozen=True)
class PushRequest:
    """A push.

    ``topic``, ``partitions``, ``key`` and ``schema`` (DDL; None: as the source has it) are the table's push stream's.

    ``source`` has one of ``path`` (with ``format`` and ``options``), ``table``, ``query``, ``jdbc`` (options),
    ``callable`` (``module:function`` of a Spark session), or of the tables of a lake ``iceberg`` (with ``system`` and
    ``snapshot``) and ``delta`` (with ``system`` and ``version``). ``columns`` are the source's that are taken, or SQL
    over them by the table's column; ``deletes`` is the condition (SQL) of rows whose key an incremental push deletes.
    ``latest_by`` orders rows of one key for ``on_duplicate="last"``. ``max_change_ratio`` bounds how far the rows of a
    full push may be from the current version's. ``after``: the version that was newest when the push began.
    ``compact_after``: the incremental pushes on one full section after which the next one finds them compacted; 0:
    never. ``since`` and ``table_id`` are of the tables of a lake: the snapshot or version since which an incremental
    push takes the changes ("": one without rows), and what tells the table from others of its name. ``expect`` is what
    the table declares that must be true of the rows.
    """

    application: str
    reference: str
    table: str
    push_id: str
    system: str
    topic: str
    partitions: int
    key: tuple[str, ...]
    source: Mapping[str, Any] = field(repr=False)
    schema: str | None = None
    mode: str = FULL
    columns: Sequence[str] | Mapping[str, str] | None = None
    deletes: str | None = None
    on_null_key: str = "fail"
    on_duplicate: str = "fail"
    latest_by: str | None = None
    min_rows: int | None = None
    max_change_ratio: float | None = None
    keep_versions: int = 10
    compact_after: int = COMPACT_AFTER
    interval: tuple[str, str] | None = None
    after: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    messages_shown: bool = True
    since: str | None = None
    table_id: str | None = None
    expect: tuple[Declared, ...] = ()

    def __post_init__(self) -> None:
        """Reject what cannot be meant."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                self._reject(name, f"Choose one of {', '.join(choices)}.")
        kinds = [kind for kind in _KINDS if kind in self.source]
        if len(kinds) != 1:
            self._reject("source", f"Give exactly one of {', '.join(_KINDS)}; a text is a path.")
        self._check_shapes(kinds[0])
        if (self.on_duplicate == "last") != (self.latest_by is not None):
            self._reject(
                "latest_by",
                'on_duplicate="last" and latest_by="<column>" go together: the row with its greatest value stays.',
            )
        if self.deletes is not None and self.mode != INCREMENTAL:
            self._reject(
                "deletes", 'A full push replaces all rows: leave deletes= out, or push with mode="incremental".'
            )
        if self.min_rows is not None and self.min_rows < 0:
            self._reject("min_rows", "Give 0 or more; 0 lets a push empty the table.")
        if self.max_change_ratio is not None and not self.max_change_ratio >= 0:
            self._reject(
                "max_change_ratio", "Give a number from 0, such as 0.2 for a fifth more or less, or inf for any."
            )
        if self.keep_versions < 1:
            self._reject("keep_versions", "Give 1 or more; the current version is always kept.")
        if self.compact_after < 0:
            self._reject("compact_after", "Give 1 or more, or 0 for never.")

    def _check_shapes(self, kind: str) -> None:
        """Rejects what would mislead or fail where Spark reads.

        The value of ``jdbc`` is not shown, it may hold a password.
        """
        place, beside = self.source[kind], _BESIDE.get(kind, ())
        further = sorted(str(name) for name in self.source if name not in (kind, *beside))
        if further:
            raise ConfigError(
                f"The source of the push of table {self.table!r} has {further[0]!r} beside {kind!r}, which is not "
                "known there.",
                hint=f"Beside it there may be {' and '.join(beside) or 'nothing'}; options of a JDBC source belong "
                "into its jdbc.",
                key="source",
                value=further[0],
            )
        shapes: dict[str, tuple[type, ...]] = {"jdbc": (Mapping,), "path": (str, list)}
        if not place or not isinstance(place, shapes.get(kind, (str,))):
            shown = f"a {type(place).__name__}" if kind == "jdbc" else repr(place)
            raise ConfigError(
                f"The source of the push of table {self.table!r} has {shown} as its {kind}.",
                hint='Give the reader\'s options: {"jdbc": {"url": …, "dbtable": …}}.'
                if kind == "jdbc"
                else "Give a text.",
                key="source",
            )
        if kind in LAKES and not (isinstance(system := self.source.get("system"), str) and system):
            raise ConfigError(
                f"The source of the push of table {self.table!r} is the {kind} table {place!r} of system {system!r}.",
                hint=f'Name the system, as for a stream: {{"{kind}": "{place}", "system": "lake"}}, and bind it: '
                'systems={"lake": "<connection id>"} of the operator, or --system lake='
                f"{kind}:/path on the command line.",
                key="system",
                value=system,
            )
        options = place if kind == "jdbc" else self.source.get("options")
        named = options.items() if isinstance(options, Mapping) else ()
        secret = next((str(name) for name, value in named if gives_away(str(name), value)), None)
        if secret is not None:
            raise ConfigError(
                f"The source of the push of table {self.table!r} has the option {secret!r}, which is secret, and the "
                "request is stored in a file.",
                hint="Keep it in a connection: source_conn_id=… of the operator, or secrets={…} of SparkRuntime.push.",
                key="source",
                value=secret,
            )
        if isinstance(self.columns, str):
            self._reject(
                "columns", 'Give a list of names, or SQL by the column of the table: {"tier": "upper(level)"}.'
            )
        for name, kinds in (
            ("min_rows", int),
            ("keep_versions", int),
            ("compact_after", int),
            ("max_change_ratio", (int, float)),
        ):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
                self._reject(
                    name, "Give a whole number." if kinds is int else "Give a number, such as 0.2 for a fifth."
                )

    def _reject(self, name: str, hint: str) -> None:
        raise ConfigError(
            f"The push of table {self.table!r} has {name}={getattr(self, name)!r}.",
            hint=hint,
            key=name,
            value=getattr(self, name),
        )

    @property
    def kind_of_source(self) -> str:
        """``path``, ``table``, ``query``, ``jdbc``, ``callable``, ``iceberg`` or ``delta``."""
        return next(kind for kind in _KINDS if kind in self.source)

    @property
    def source_text(self) -> str:
        """The source in a few words, without options, which may say how to get in."""
        kind = self.kind_of_source
        if self.lake is not None:
            return str(self.lake)
        said = (
            self.source[kind]
            if kind != "jdbc"
            else self.source[kind].get("dbtable") or self.source[kind].get("query") or ""
        )
        return f"{kind} {said}"

    @property
    def lake(self) -> LakeSource | None:
        """The source where it is a table of a lake."""
        lake = LakeSource.of(self.source)
        return lake if lake is None else replace(lake, since=self.since)

    @property
    def least_rows(self) -> int:
        """Return how many rows the push must have; by default one that replaces all rows may not be empty."""
        return (1 if self.mode == FULL else 0) if self.min_rows is None else self.min_rows

    @property
    def digest(self) -> str:
        """Of all that decides which rows the push has: what was staged for another one is of no use to this."""
        others = ("push_id", "min_rows", "max_change_ratio", "keep_versions", "compact_after", "interval", "after")
        later = {
            name for name in ("since", "table_id", "expect") if getattr(self, name) in (None, ())
        }  # as former releases have it
        rows_follow_from = {name: value for name, value in plain(self).items() if name not in (*others, *later)}
        return hashlib.sha256(json.dumps(rows_follow_from, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def producer(self) -> str:
        """The producer that the push is in its stream, of which it writes a section."""
        return f"pushes/{safe(self.table)}/{safe(self.push_id)}"

    @property
    def folder(self) -> TableFolder:
        """The records of the table."""
        return TableFolder(self.system, self.topic)

    @property
    def handle(self) -> StageHandle:
        """The push as a stage: a retry or a clear goes on with it."""
        return push_handle(self.application, self.table, self.push_id)


def push_handle(application: str, table: str, push_id: str) -> StageHandle:
    """The place of a push among the runs of its application."""
    return StageHandle(application, safe(f"push~{table}~{push_id}"), STAGE, Generation(1, 1))


def request_path(handle: StageHandle) -> str:
    """Return the path of the request of a push; only pushes have one."""
    return f"{handle.run.path}/push.json"


def standing_request(files: Filesystem, handle: StageHandle) -> PushRequest:
    """Return the request of a push as it stands now: each attempt may ask for something else under the same id."""
    request = read(files, request_path(handle), PushRequest)
    if request is None:
        raise missing_record(files, request_path(handle))
    return request


@durable("intent of a push")
@dataclass(frozen=True)
class PushIntent(EpochTasks):
    """One try at reading the source; ``digest`` is that of the request, ``schema`` the table's (DDL).

    All tasks run, in one epoch.
    """

    digest: str = field(kw_only=True)
    schema: str = field(kw_only=True)


@dataclass(frozen=True)
class PushCounts:
    """The rows that one task of a push found, or all together.

    ``null_keys`` and ``duplicates`` were left out (``examples`` are a few such keys), ``nulls`` counts nulls by column
    that may not have any. ``checked`` is what was found about the expectations of the table.
    """

    rows: int = 0
    deletes: int = 0
    bytes: int = 0
    null_keys: int = 0
    duplicates: int = 0
    examples: tuple[Any, ...] = ()
    nulls: Mapping[str, int] = field(default_factory=dict)
    checked: tuple[Checked, ...] = ()


@durable("manifest of a push", later={"checked": ()})
@dataclass(frozen=True)
class PushManifest(PushCounts):
    """The rows that one task of a push found and staged; ``staged`` is the system's description of them."""

    staged: Mapping[str, Any] = field(default_factory=dict)


@durable(
    "publication of a push",
    later={"schema": "", "rows": 0, "deletes": 0, "bytes": 0, "null_keys": 0, "duplicates": 0, "checked": ()},
    beside=("examples", "nulls"),
)
@dataclass(frozen=True)
class PushPublication(PushCounts):
    """The decision what a push publishes, by task, and as which generation of its section of the topic.

    An empty ``digest`` publishes nothing, in the place of what was published before. The counts are as of all manifests
    together; what a push must not have is not among them.
    """

    digest: str = ""
    generation: str = ""
    staged: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    schema: str = ""


@durable("result of a push", reports=True)
@dataclass(frozen=True)
class PushResult:
    """The version that a push has become."""

    version: int = 0
    push: str = ""

"""The registry of the kinds of systems: the class that each is loaded from, and its traits, which load nothing.

A new kind is a folder below ``systems/`` and one line in :data:`BUILT_IN`. An installed package adds a kind of its own
by an entry point of the group :data:`GROUP`, whose name is the kind and whose object is a :class:`SystemKind`. Used
wherever a binding is read: by the planner, the plan step, connections, lineage and the page. See decision 74.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "airflow_samza.systems"

EMBEDDED = "log"
"""The system that is always there, and the default one where nobody names another: the log under the root."""

DATAFRAMES = "dataframe"
"""The system of what ``from_dataframe`` makes."""

KINDS_OF_NAMES = {EMBEDDED: "log", DATAFRAMES: "spark"}
"""The kinds of those two, where an environment binds nothing else to their names."""


@dataclass(frozen=True)
class SystemTraits:
    """Facts of a kind of system that plans depend on; the defaults are those of topics that every process reaches.

    What a bound system can *do* is not said here but by the protocols that it has (``systems/capabilities.py``).
    """

    carries_control: bool = True
    """Its streams hold control messages in band, as a run's own topics and shared streams need."""
    own_topics: bool = False
    """Topics between stages can lie in it, although what others read and write there carries no control messages."""
    unkeyed_splits: bool = False
    """Its streams are cut where their storage is (files, tables), so that no key says where a message lies."""
    has_tables: bool = False
    """Its streams are tables with names, and have no paths."""
    namespace: str = ""
    """Namespace of a table whose name has none."""
    cuts_by_time: bool = True
    """An input with ``slice="timestamp"`` is read by the data interval."""
    in_one_process: bool = False
    """Only the process that bound it sees its streams."""
    through_topics: bool = False
    """Tasks do not reach it: the driver process carries its streams through topics of the run, before and after."""
    stages_outputs: bool = False
    """Output waits in topics of the run, until the commit has decided and it is published for good."""
    keeps_versions: bool = False
    """Records that were written stay readable by their offsets, as the versions of a pushed table need."""
    keeps_statistics: bool = False
    """Some of its streams have statistics of values, by which rows that a filter rules out are not read."""
    partitioner: str = "samza"
    """Rule by which keyed streams that others write are partitioned, where the stream declares no other."""
    without_serdes: tuple[str, str] | None = None
    """Reason why ``serde=`` is rejected (the end of a sentence), and the remedy; None: messages are sent as bytes."""


@dataclass(frozen=True)
class SystemKind:
    """A kind of system.

    ``loader`` is ``package.module:Class``; the class takes a system's name, its
    :class:`~airflow_samza.systems.system.SystemBinding` and the root (a path or URL). ``connects``: an Airflow
    connection whose type is the kind's name binds it; its extra, host, port, login and password become the options.
    """

    loader: str
    traits: SystemTraits = SystemTraits()
    connects: bool = False
    extra: str | None = None
    """The extra of this package that brings its clients."""
    place: str = "root"
    """The option that the command line's short form ``name=kind:value`` fills; ``root`` is a folder or a URL."""

    def load(self) -> type[Any]:
        """Return the class; its clients may be heavy, or not installed."""
        system: type[Any] = resolve_name(self.loader)
        return system


BUILT_IN = {
    "memory": SystemKind(
        "airflow_samza.systems.memory.system:MemorySystem", SystemTraits(cuts_by_time=False, in_one_process=True)
    ),
    "log": SystemKind(
        "airflow_samza.systems.log.system:LogSystem",
        SystemTraits(
            cuts_by_time=False,
            keeps_versions=True,
            without_serdes=(
                "which keeps columns and sends no bytes",
                "Leave serde= out: schema= is enough. Serdes are for systems that send bytes, and tables of bytes "
                "that Spark reads or writes.",
            ),
        ),
    ),
    "files": SystemKind(
        "airflow_samza.systems.files.system:FilesSystem",
        SystemTraits(
            carries_control=False,
            unkeyed_splits=True,
            keeps_statistics=True,
            without_serdes=(
                "where the file format decides about bytes",
                "Set format= (parquet, json, csv, orc, avro) in place of serde=.",
            ),
        ),
    ),
    "spark": SystemKind(
        "airflow_samza.systems.spark.system:SparkSystem",
        SystemTraits(carries_control=False, unkeyed_splits=True, through_topics=True),
    ),
    "kafka": SystemKind(
        "airflow_samza.systems.kafka.system:KafkaSystem",
        SystemTraits(carries_control=False, own_topics=True, stages_outputs=True, partitioner="kafka"),
        extra="kafka",
        place="bootstrap.servers",
    ),
    "iceberg": SystemKind(
        "airflow_samza.systems.iceberg.system:IcebergSystem",
        SystemTraits(
            carries_control=False,
            unkeyed_splits=True,
            has_tables=True,
            namespace="default",
            keeps_statistics=True,
            without_serdes=("where columns have types", "Leave serde= out: the table says what its columns are."),
        ),
        extra="iceberg",
    ),
    "delta": SystemKind(
        "airflow_samza.systems.delta.system:DeltaSystem",
        SystemTraits(
            carries_control=False,
            unkeyed_splits=True,
            has_tables=True,
            keeps_statistics=True,
            without_serdes=("where columns have types", "Leave serde= out: the table says what its columns are."),
        ),
    ),
}


def kinds() -> tuple[str, ...]:
    """Return the names of all kinds: ours, then those that installed packages add."""
    return (*BUILT_IN, *(name for name in plugged(GROUP) if name not in BUILT_IN))


def find_kind(name: str) -> SystemKind | None:
    """Return the kind of this name, or None; only one that an installed package adds is loaded."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    point = plugged(GROUP).get(name)
    if point is None:
        return None
    kind = point.load()
    if not isinstance(kind, SystemKind):
        raise ConfigError(
            f"The entry point {name!r} of the group {GROUP} is {point.value}, a {type(kind).__name__}.",
            hint="Name an airflow_samza.system_kinds.SystemKind there.",
            key=GROUP,
            value=point.value,
        )
    return kind


def traits_of(kind: str | None) -> SystemTraits:
    """Return the traits of a kind; of one that is not known, those of ordinary topics."""
    system_kind = find_kind(kind) if kind else None
    return system_kind.traits if system_kind is not None else SystemTraits()


@cache
def plugged(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by their names, which installed packages have."""
    from importlib.metadata import entry_points  # takes 20 ms to load, and Dag files are parsed all the time

    return {point.name: point for point in entry_points(group=group)}

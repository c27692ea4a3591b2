"""Names of datasets, for assets and for OpenLineage: by where the data lies, never by a connection (decision 97).

A dataset keeps its name from run to run: of a path what varies with the run is left out, and a topic between stages is
named without the run. Outlets, lineage, the preview of a backfill and the page's map of data name by it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.provider.kafka_assets import topic_uri
from airflow_samza.runs.records.names import Generation, intermediate_topic
from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.system_kinds import EMBEDDED, find_kind, traits_of
from airflow_samza.systems.kafka.access import ADDRESSES
from airflow_samza.systems.system import StreamSpec, SystemBinding

FILE = "file"

_SAME_STORE = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "webhdfs": "hdfs",
    "swebhdfs": "hdfs",
    "viewfs": "hdfs",
    "postgresql": "postgres",
}
"""Other schemes of what OpenLineage names by one."""

_KEYS_WITHOUT_SLASH = ("s3", "gs")


class DatasetName(NamedTuple):
    """A dataset as OpenLineage names it, and the URI of its asset in Airflow."""

    namespace: str
    name: str
    uri: str


class TableName(DatasetName):
    """A table of a catalog, named by its place.

    ``in_catalog`` is its other name: the catalog's namespace, and its own.
    """

    in_catalog: tuple[str, str]


def dataset_of(
    run: RunPlan, bound: BoundStream, binding: SystemBinding, root: str, spec: ApplicationSpec | None = None
) -> DatasetName:
    """Return the name of a stream of a run.

    ``binding`` is that of its system and ``root`` the root of the run. ``spec`` tells the template of its path, without
    which the path of this run is taken.
    """
    own = run.is_own(bound.stream_id) if bound.role == "intermediate" else False
    described = replace(bound.spec, name=_without_run(run, bound.stream_id)) if own else bound.spec
    declared = spec.stream(bound.stream_id).path if spec is not None else None
    if declared is not None:
        described = replace(described, path=unvarying(declared))
    name = dataset_at(described, bound.system, binding, root)
    location = (bound.slice or {}).get("location")
    if location is None:
        return name
    place, table = path_dataset(str(location)), str((bound.slice or {})["table"])
    named = TableName(place.namespace, place.name, name.uri)
    named.in_catalog = (catalog_namespace(bound.system, binding), table)
    return named


def dataset_at(stream: StreamSpec, system: str, binding: SystemBinding, root: str) -> DatasetName:
    """Return the name of a stream as its system sees it; ``root`` is the one of the run."""
    kind = find_kind(binding.kind)
    if kind is not None and kind.place == ADDRESSES:
        return kafka_dataset(stream.name, str(binding.options[ADDRESSES]))
    if binding.kind == EMBEDDED:
        return log_dataset(stream.name, str(binding.options.get("root") or root))
    traits = traits_of(binding.kind)
    if traits.through_topics:  # Spark reads and writes it
        return _of_spark(stream, system, binding)
    if traits.has_tables:
        return table_dataset(dict(stream.options).get("table") or stream.name, system, binding)
    if traits.unkeyed_splits:  # files
        return path_dataset(stream.path if stream.path is not None else stream.name, binding.options.get("root"))
    return _elsewhere(binding.kind, system, stream.name)


def kafka_dataset(topic: str, brokers: str) -> DatasetName:
    """Return the name of a topic; of several brokers the first by name stands for all.

    >>> kafka_dataset("views", "kafka-2:9093, kafka-1")[:2]
    ('kafka://kafka-1:9092', 'views')
    """
    uri = topic_uri(topic, brokers)
    first = uri.partition("://")[2].partition("/")[0].partition(",")[0]
    return DatasetName(f"kafka://{first}", topic, uri)


def log_dataset(topic: str, root: str) -> DatasetName:
    """Return the name of a topic of the log under a root: that of its folder.

    >>> log_dataset("views", "s3a://models/samza")[:2]
    ('s3://models', 'samza/topics/views')
    """
    return path_dataset(f"topics/{quote(topic, safe='/')}", root)


def path_dataset(path: str, root: object = None) -> DatasetName:
    """Return the name of a file or folder: a URL, a path of this host's filesystem, or a path below ``root``.

    >>> path_dataset("hdfs://nn:8020/data/flights")[:2]
    ('hdfs://nn:8020', '/data/flights')
    >>> path_dataset("flights", "/data/")
    DatasetName(namespace='file', name='/data/flights', uri='file:///data/flights')
    """
    whole = path if "://" in path or path.startswith("/") or not root else f"{str(root).rstrip('/')}/{path}"
    if path.startswith("/") and root and "://" in str(root) and not str(root).startswith("file:"):
        whole = f"{str(root).rstrip('/')}{path}"
    parts = urlsplit(whole)
    scheme = _SAME_STORE.get(parts.scheme, parts.scheme)
    if "://" not in whole or scheme == FILE:
        place = os.path.normpath(os.path.expanduser(whole if "://" not in whole else parts.path))
        place = place if place.startswith("/") else os.path.abspath(place)
        return DatasetName(FILE, place, f"file://{_quoted(place)}")
    host = parts.netloc.rpartition("@")[2] if scheme not in ("abfss", "abfs", "wasbs") else parts.netloc
    key = parts.path.strip("/")
    name = key if scheme in _KEYS_WITHOUT_SLASH else f"/{key}"
    return DatasetName(f"{scheme}://{host}", name or "/", f"{scheme}://{host}/{_quoted(key)}".rstrip("/"))


def _quoted(path: str) -> str:
    """Return a path as a URI may hold it: assets of Airflow have no other letters than those of ASCII."""
    return quote(path, safe="/:@=,;+~{}%")


def table_dataset(table: str, system: str, binding: SystemBinding) -> DatasetName:
    """Return the name of a table of a lake: of one below a folder the folder's, else by the catalog.

    >>> binding = SystemBinding("iceberg", {"root": "/srv/lake"})
    >>> table_dataset("web.views", "lake", binding)[:2]
    ('file', '/srv/lake/web/views')
    >>> table_dataset("web.views", "lake", SystemBinding("iceberg", {"uri": "https://me:hush@catalog:8181/v1"}))[:2]
    ('iceberg://catalog:8181/v1', 'web.views')
    """
    root, uri = binding.options.get("root"), str(binding.options.get("uri") or "")
    if root:
        namespace = traits_of(binding.kind).namespace
        below = table if "." in table or not namespace else f"{namespace}.{table}"
        return path_dataset(below if "/" in below else below.replace(".", "/"), root)
    parts = urlsplit(uri)
    host = parts.netloc.rpartition("@")[2]
    if not host:
        return _elsewhere(binding.kind, system, table)
    warehouse = str(binding.options.get("warehouse") or "")
    place = "/".join(part for part in (host, parts.path.strip("/"), "" if "://" in warehouse else warehouse) if part)
    return DatasetName(f"{binding.kind}://{place}", table, f"x-{binding.kind}://{place}/{quote(table, safe='/.')}")


def catalog_namespace(system: str, binding: SystemBinding) -> str:
    """Return the namespace of the tables of a catalog, as OpenLineage has it in Spark: its address, else its warehouse.

    >>> catalog_namespace("lake", SystemBinding("iceberg", {"uri": "https://me:hush@catalog:8181/v1", "type": "rest"}))
    'https://catalog:8181/v1'
    >>> catalog_namespace("lake", SystemBinding("iceberg", {"root": "/srv/lake"}))
    'file:/srv/lake'
    """
    parts = urlsplit(str(binding.options.get("uri") or ""))
    host = parts.netloc.rpartition("@")[2]
    if host and parts.scheme in ("http", "https", "thrift"):
        scheme = "hive" if parts.scheme == "thrift" else parts.scheme
        return f"{scheme}://{host}{parts.path}".rstrip("/")
    warehouse = str(binding.options.get("warehouse") or "")
    root = str(binding.options.get("root") or (warehouse if "://" in warehouse else ""))
    if not root:
        return f"{binding.kind}://{host or system}"
    place = path_dataset(root)
    return f"{FILE}:{place.name}" if place.namespace == FILE else place.uri


def jdbc_dataset(url: str, table: str) -> DatasetName:
    """Return the name of a table of a database, by the URL of its driver, of which no user and password are taken.

    >>> jdbc_dataset("jdbc:postgresql://me:hush@db:5432/shop?user=x", "orders")[:2]
    ('postgres://db:5432', 'shop.orders')
    """
    parts = urlsplit(url.removeprefix("jdbc:").partition(";")[0])
    vendor = _SAME_STORE.get(parts.scheme, parts.scheme)
    database = parts.path.strip("/")
    host = parts.netloc.rpartition("@")[2]
    inner = ".".join(part for part in (database, table) if part)
    return DatasetName(f"{vendor}://{host}", inner, f"x-{vendor}://{host}/{inner.replace('.', '/')}")


def unvarying(template: str) -> str:
    """Return a path without what varies at its end: placeholders, and patterns of several files.

    What varies in the middle stays as it is written, so that no two streams get one name.

    >>> unvarying("flights/{data_interval_start:%Y-%m-%d}/*.csv"), unvarying("{ds}/delays"), unvarying("planes.csv")
    ('flights', '{ds}/delays', 'planes.csv')
    >>> unvarying("s3://lake/{ds}"), unvarying("{ds}"), unvarying("views/{data_interval_start:%Y/%m|Asia/Tokyo}")
    ('s3://lake', '', 'views')
    """
    scheme, mark, rest = template.rpartition("://")
    parts = re.split(r"/(?![^{]*\})", rest)  # not at the slash of a format or a zone
    while parts and (not parts[-1] or any(letter in parts[-1] for letter in "{*?[")):
        parts.pop()
    return f"{scheme}{mark}{'/'.join(parts)}"


def names_of(
    run: RunPlan, bindings: Mapping[str, SystemBinding], root: str, spec: ApplicationSpec | None
) -> dict[str, DatasetName]:
    """Return the names of all streams of a run, as it holds them; ``bindings`` are by system."""
    return {
        key: dataset_of(run, bound, bindings[bound.system], root, spec)
        for key, bound in run.streams.items()
        if bound.system in bindings
    }


def _without_run(run: RunPlan, stream_id: str) -> str:
    first = Generation(1, 1)
    return intermediate_topic(run.application, run.app_id, stream_id, "run", first, run.names).partition("/")[0]


def _of_spark(stream: StreamSpec, system: str, binding: SystemBinding) -> DatasetName:
    from airflow_samza.systems.spark.tables import SparkTable

    table = SparkTable.of(system, binding, stream)
    if table.path is not None:
        return path_dataset(table.path)
    url = table.options.get("url", "")
    if table.format == "jdbc" and url.startswith("jdbc:"):
        return jdbc_dataset(url, table.table or table.options.get("dbtable") or stream.name)
    return _elsewhere("spark", system, table.table or stream.name)


def _elsewhere(kind: str, system: str, name: str) -> DatasetName:
    """Return the name of what has no address that is known here: by the system, as the application names it."""
    return DatasetName(f"{kind}://{system}", name, f"x-{kind}://{system}/{quote(name, safe='/.')}")

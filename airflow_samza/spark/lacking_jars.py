"""Jars that Spark lacks for a source or a table, by its own words: what is missing, and where it comes from."""

from __future__ import annotations

import functools
import re

from airflow_samza.errors import RuntimeMissing
from airflow_samza.launch.spark_versions import jar_version, pyspark_home

_WORDS = (
    ("Avro is built-in but external", "reader of Avro", "org.apache.spark:spark-avro_2.13:{spark}"),
    ("No suitable driver", "JDBC driver", "<the driver's group:artifact:version>"),
)
_STORE_CLASS = re.compile(r"Class org\.apache\.hadoop\.fs\.(s3a|gs|azurebfs|azure)\.\S+ not found")
_STORE_SCHEME = re.compile(r'No FileSystem for scheme "(s3|az)"')
_ARTIFACTS = {"s3a": "hadoop-aws", "gs": "hadoop-gcp", "azurebfs": "hadoop-azure", "azure": "hadoop-azure"}
_SCHEMES = {"s3a": "s3a", "gs": "gs", "azurebfs": "abfss", "azure": "wasbs"}
_WRITE_INSTEAD = {"s3": "s3a://bucket/path", "az": "abfss://container@account.dfs.core.windows.net/path"}


def find_lacking(text: str, purpose: str) -> RuntimeMissing | None:
    """Return the error for what Spark lacks, where its own says so; ``purpose`` is what it was to do."""
    for words, what, package in _WORDS:
        if words in text:
            return _lacking(what, purpose, package.format(spark=_shipped("spark-core")))
    by_class = _STORE_CLASS.search(text)
    if by_class is not None:
        package = f"org.apache.hadoop:{_ARTIFACTS[by_class[1]]}:{_shipped('hadoop-client-api')}"
        return _lacking(f"client of {_SCHEMES[by_class[1]]}://", purpose, package)
    by_scheme = _STORE_SCHEME.search(text)
    if by_scheme is not None:
        hint = f"Spark's own readers and writers know it by another name: write {_WRITE_INSTEAD[by_scheme[1]]}."
        return _lacking(f"client of {by_scheme[1]}://", purpose, "", hint)
    return None


def _lacking(what: str, purpose: str, package: str, hint: str = "") -> RuntimeMissing:
    """Return the error for a thing that Spark has not, and the package that brings it; the hint is else to give it."""
    give = f'Give it one: spark_conf={{"spark.jars.packages": "{package}"}}.'
    return RuntimeMissing(f"Spark has no {what} for {purpose}.", hint=hint or give, package=package)


@functools.lru_cache(maxsize=2)
def _shipped(artifact: str) -> str:
    """Return the version of a jar that the installed Spark ships: what is added has to be of the same."""
    return jar_version(pyspark_home(), artifact) or f"<the version of Spark's {artifact}>"

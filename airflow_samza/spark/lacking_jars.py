"""Jars that Spark lacks for a source or a table, by its own words: what is missing, and where it comes from."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

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


class Lacking(NamedTuple):
    """Something that Spark has not: ``what`` for a sentence, the remedy, and the package that brings it."""

    what: str
    hint: str
    package: str

    def error(self, purpose: str) -> RuntimeMissing:
        """Return the error for what Spark was to do, such as ``the source of the push of table 'x'``."""
        return RuntimeMissing(f"Spark has no {self.what} for {purpose}.", hint=self.hint, package=self.package)


def find_lacking(text: str) -> Lacking | None:
    """Return what Spark lacks, where its error says so."""
    for words, what, package in _WORDS:
        if words in text:
            package = package.format(spark=_shipped("spark-core"))
            return Lacking(what, _give(package), package)
    by_class = _STORE_CLASS.search(text)
    if by_class is not None:
        package = f"org.apache.hadoop:{_ARTIFACTS[by_class[1]]}:{_shipped('hadoop-client-api')}"
        return Lacking(f"client of {_SCHEMES[by_class[1]]}://", _give(package), package)
    by_scheme = _STORE_SCHEME.search(text)
    if by_scheme is not None:
        form = _WRITE_INSTEAD[by_scheme[1]]
        hint = f"Spark's own readers and writers know it by another name: write {form}."
        return Lacking(f"client of {by_scheme[1]}://", hint, "")
    return None


def _give(package: str) -> str:
    return f'Give it one: spark_conf={{"spark.jars.packages": "{package}"}}.'


@functools.lru_cache(maxsize=2)
def _shipped(artifact: str) -> str:
    """Return the version of a jar that the installed Spark ships: what is added has to be of the same."""
    return jar_version(pyspark_home(), artifact) or f"<the version of Spark's {artifact}>"

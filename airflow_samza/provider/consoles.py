"""Web consoles of object stores, in which people look at the files of a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow_samza.systems.filesystems.object_store.access import environment_options
from airflow_samza.systems.filesystems.object_store.address import SCHEMES

_OWN_HOSTS = (".amazonaws.com", ".amazonaws.com.cn", ".googleapis.com")
"""The ends of hosts of the clouds' own endpoints; another one is a store with the same interface."""

NO_OPTIONS: Mapping[str, Any] = {}


def console_address(path: str, options: Mapping[str, Any] = NO_OPTIONS) -> str:
    """Return where a browser shows a folder of S3 or Google Cloud Storage; empty where there is no such place.

    ``options`` are those that open the store: one with an endpoint of its own (MinIO) is in no cloud's console. Azure's
    portal asks for the id of the account's resource, which no path holds.

    >>> console_address("s3://lake/flights/2013-01-01")
    'https://s3.console.aws.amazon.com/s3/buckets/lake?prefix=flights/2013-01-01/'
    >>> console_address("gs://lake/flights")
    'https://console.cloud.google.com/storage/browser/lake/flights'
    >>> console_address("/data/flights"), console_address("s3://lake/x", {"endpoint": "http://minio:9000"})
    ('', '')
    """
    try:
        parts = urlsplit(path)
    except ValueError:
        return ""
    store = SCHEMES.get(parts.scheme)
    bucket, folder = parts.netloc, quote(parts.path.strip("/"))
    if store not in ("s3", "gcs") or not bucket or "@" in bucket:
        return ""
    given = {**environment_options(path, options), **options}
    if any("endpoint" in name and not _is_own(str(value)) for name, value in given.items() if value):
        return ""
    if store == "s3":
        prefix = f"?prefix={folder}/" if folder else ""
        return f"https://s3.console.aws.amazon.com/s3/buckets/{quote(bucket)}{prefix}"
    return f"https://console.cloud.google.com/storage/browser/{quote(bucket)}{'/' + folder if folder else ''}"


def _is_own(endpoint: str) -> bool:
    host = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}").hostname or ""
    return f".{host}".endswith(_OWN_HOSTS)

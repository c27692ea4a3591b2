"""Addresses of object stores: the store, the bucket and the prefix that the URL of a root names.

Roots, locations of files and bindings are recognised by it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from airflow_samza.errors import ConfigError

Store = Literal["s3", "gcs", "azure"]

SCHEMES: dict[str, Store] = {"s3": "s3", "gs": "gcs", "abfss": "azure", "az": "azure"}
"""Schemes of URLs, and the store that each names."""

NAMES: dict[Store, str] = {"s3": "S3", "gcs": "Google Cloud Storage", "azure": "Azure Blob Storage"}
"""Names of the stores, as messages show them."""

_FORMS = {
    "s3": "s3://bucket/path",
    "gs": "gs://bucket/path",
    "abfss": "abfss://container@account.dfs.core.windows.net/path",
    "az": "az://container/path",
}
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,221}")


@dataclass(frozen=True)
class Address:
    """A bucket (in Azure a container) of a store.

    ``account`` and ``suffix`` are those of Azure's ``container@account.suffix``, where a URL has them.
    """

    store: Store
    bucket: str
    shown: str
    account: str = ""
    suffix: str = ""

    def url(self, key: str) -> str:
        """Return the URL of an object, as the stores' own clients take it."""
        return f"{self.shown}/{key}" if key else self.shown

    @property
    def name(self) -> str:
        """The bucket as messages name it."""
        return f"{'container' if self.store == 'azure' else 'bucket'} {self.bucket!r}"


def is_object_store(url: str) -> bool:
    """Return whether a URL is one of an object store."""
    return "://" in url and url.partition("://")[0].lower() in SCHEMES


def parse_address(url: str) -> tuple[Address, str]:
    """Return the address in a URL, and the prefix of the keys under it, without slashes at its ends.

    >>> parse_address("s3://models/samza/")
    (Address(store='s3', bucket='models', shown='s3://models', account='', suffix=''), 'samza')
    >>> parse_address("abfss://models@acme.dfs.core.windows.net/samza")[0].account
    'acme'
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    authority, _, path = rest.partition("/")
    user, at, host = authority.rpartition("@")
    account = suffix = ""
    if scheme == "abfss" and at:
        bucket, (account, _, suffix) = user, host.partition(".")
    elif at:
        raise ConfigError(
            f"The URL {scheme}://{host}/{path} holds credentials, and plans and logs show URLs.",
            hint="Leave them out; set them in the environment, or in the Airflow connection of the store.",
            key="root",
        )
    else:
        bucket = authority
    prefix = path.strip("/")
    shown = f"{scheme}://{authority}"
    if not _BUCKET.fullmatch(bucket) or (scheme == "abfss" and not (account and suffix)):
        noun = {"abfss": "container and account", "az": "container"}.get(scheme, "bucket")
        raise ConfigError(
            f"The URL {scheme}://{host if ':' in user else authority}/{path} names no {noun}.",
            hint=f"Write {_FORMS[scheme]}.",
            key="root",
        )
    for part in prefix.split("/") if prefix else ():
        if part in ("", ".", "..") or any(sign in part for sign in "?#") or not part.isprintable():
            raise ConfigError(
                f"The path of the URL {shown}/{prefix} has the part {part!r}.",
                hint="Use a path of names between single slashes, without . and .., and without a query.",
                key="root",
            )
    return Address(SCHEMES[scheme], bucket, shown, account, suffix), prefix

"""Addresses of files as the metadata of tables writes them: what lies below what, and which schemes lakes have.

Whoever may change a table's metadata chooses these texts, and a process here opens them with its own rights. Delta and
Iceberg check by it the paths in a table's metadata.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):(?://([^/]*))?(.*)", re.DOTALL)

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that the parsers of URIs in some clients drop: a path with them means another one there."""

_SAME = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "abfs": "abfss", "wasb": "abfss", "wasbs": "abfss"}
"""Other names that metadata has for the schemes of object stores."""

_LAKES = frozenset({"", "file", "s3", "gs", "abfss", "hdfs", "webhdfs", "swebhdfs", "viewfs", "oss"})
"""Schemes of storages in which tables lie; "" is that of relative addresses."""


class Address(NamedTuple):
    """Address of a file or folder; one that is relative has the scheme ""."""

    scheme: str
    authority: str
    path: str

    @classmethod
    def of(cls, text: str) -> Address:
        """Return the address that a text is: a URI, a path of this host, or one that is relative."""
        found = _URI.fullmatch(text)
        if found is None:
            return cls("file" if text.startswith("/") else "", "", text)
        scheme = found[1].lower()
        return cls(_SAME.get(scheme, scheme), found[2] or "", found[3])

    def followed(self) -> Address:
        """Return the address behind the links of this host."""
        return self if self.scheme != "file" else self._replace(path=os.path.realpath(f"/{self.path.lstrip('/')}"))


class Folders:
    """Folders of lakes by their addresses; "" is the one in which relative addresses begin."""

    def __init__(self, folders: Iterable[str]) -> None:
        places = [Address.of(folder).followed() for folder in folders]
        self._places = [(place[:2], place.path and f"{place.path.rstrip('/')}/") for place in places]

    def have(self, text: str) -> bool:
        """Return whether an address is one of the folders, or lies below it.

        No ``..`` is followed, and of paths in a bucket each character counts: they are its keys.
        """
        address = Address.of(text)
        if _CONTROL.search(text) or ".." in address.path.split("/") or address.scheme not in _LAKES:
            return False
        storage, path = address[:2], f"{address.followed().path}/"
        return any(storage == of and path.startswith(folder) for of, folder in self._places)

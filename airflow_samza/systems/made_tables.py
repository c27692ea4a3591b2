"""Tables that outputs of a root have made, each with a record under it: a property of a table can be set by everybody.

By the record ``made-tables/<id of the table>.json`` those who commit know that the past of a table is theirs to expire.
Delta and Iceberg note them; retention and the command ``fsck`` look them up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from airflow_samza.records import decode, durable, encode
from airflow_samza.systems.filesystems.opening import open_filesystem

MADE_TABLES = "made-tables"
"""The folder of the records below the root."""

DAMAGED = "Restore the file, or delete it: then nobody expires the table's past."
"""The remedy for a record that cannot be read."""

_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


@durable("table that an output has made", hint=DAMAGED)
@dataclass(frozen=True)
class MadeTable:
    """Table as an output has made it: its kind, its name, and the folder of its files."""

    kind: str
    table: str
    location: str


def note_made(root: str | None, number: str, made: MadeTable) -> None:
    """Write the record of a table, by its id, that is just being made."""
    if root:
        open_filesystem(root).put_if_absent(f"{MADE_TABLES}/{number}.json", encode(made))


@lru_cache(maxsize=1000)
def was_made(root: str | None, number: str, found: MadeTable) -> bool:
    """Return whether a table with an id is one that an output of a root has made, under this name and in this folder.

    A record never changes, so a process reads it once.
    """
    if not root or not _ID.fullmatch(number):
        return False
    files, path = open_filesystem(root), f"{MADE_TABLES}/{number}.json"
    try:
        return decode(MadeTable, files.read(path), files.location(path)) == found
    except FileNotFoundError:
        return False

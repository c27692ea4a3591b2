"""The identity of a root: it tells its runs from those of other roots that use the same brokers, or the same tables."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_samza.systems.filesystems.filesystem import Filesystem

_FILE = "identity.json"


def root_identity(files: Filesystem) -> str:
    """Return the identity of a root, which the first who asks makes."""
    try:
        found = files.read(_FILE)
    except FileNotFoundError:
        files.put_if_absent(_FILE, json.dumps({"identity": uuid.uuid4().hex}).encode())
        found = files.read(_FILE)
    return str(json.loads(found)["identity"])

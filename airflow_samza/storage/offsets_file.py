"""The local checkpoint of a store with side inputs: a small file beside it that says what it has read (rule S4).

The store's contents are on disk before the file is, so a crash between the two repeats messages and never skips one. A
file that is damaged, or older than deletes are kept, is worth nothing: the store is then built again. Hosts write it
beside a table of side inputs, and tasks read on from it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.times import duration_text
from airflow_samza.storage.local_store import not_written

logger = logging.getLogger(__name__)

Place = tuple[str, int]
"""A partition of a side input: its stream, and the number."""

FORMAT = 1

STALE_SECONDS = 86_400.0
"""A topic that is compacted keeps what says that a key was deleted for a day, unless it says otherwise.

A store that has not read for longer may have missed it.
"""


@dataclass(frozen=True)
class LocalOffsets:
    """Offsets that a store has read.

    The last offset processed of each place, and ``store``, which of the kept versions holds it.
    """

    offsets: Mapping[Place, int]
    store: Mapping[str, Any]


class OffsetsFile:
    """The file of one store of one task."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, local: LocalOffsets) -> None:
        """Take the place of the former file at once; call it when the store's contents are on disk."""
        body = {
            "format": FORMAT,
            "offsets": {
                f"{stream}/{partition}": str(last) for (stream, partition), last in sorted(local.offsets.items())
            },
            "store": dict(local.store),
        }
        unfinished = f"{self._path}.{uuid.uuid4().hex}"
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            with open(unfinished, "w", encoding="utf-8") as file:
                json.dump({**body, "checksum": _checksum(body)}, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, self._path)
        except OSError as error:
            raise not_written(self._path, error) from error
        finally:
            with contextlib.suppress(OSError):
                os.remove(unfinished)

    def read(self, now: float | None = None, stale: float = STALE_SECONDS) -> LocalOffsets | None:
        """Return what the store has read, less than ``stale`` seconds ago; None where nothing is known.

        A damaged file is a warning.
        """
        try:
            with open(self._path, "rb") as file:
                age = (time.time() if now is None else now) - os.fstat(file.fileno()).st_mtime
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            logger.warning(
                "The offsets file %s cannot be read (%s). The store is built again.",
                self._path,
                error.strerror or error,
            )
            return None
        offsets, wrong = _parsed(text)
        if age >= stale:
            wrong = wrong or f"was written more than {duration_text(int(stale * 1000))} ago"
        if wrong is None:
            return offsets
        logger.warning("The offsets file %s %s. The store is built again.", self._path, wrong)
        with contextlib.suppress(OSError):
            os.remove(self._path)
        return None


def _parsed(text: bytes) -> tuple[LocalOffsets | None, str | None]:
    """Return the contents of a file, or what is wrong with it."""
    try:
        body = json.loads(text)
        checksum = body.pop("checksum")
        if body["format"] != FORMAT:
            return None, f"has the format {body['format']!r}, and this version reads {FORMAT}"
        if checksum != _checksum(body):
            return None, "is damaged: its checksum differs"
        return LocalOffsets(
            {_place(name): int(last) for name, last in body["offsets"].items()}, dict(body["store"])
        ), None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, f"is damaged ({type(error).__name__}: {error})"


def _checksum(body: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())


def _place(name: str) -> Place:
    stream, _, partition = name.rpartition("/")
    return stream, int(partition)

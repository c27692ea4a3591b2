"""The folder of a host where stores lie (decision 44).

Built once, opened by any process of the host, rebuilt when damaged, swept when nobody uses them.

A store is a folder ``<topic>/<partition>/<version>`` with its files and ``store.json``, which says how they were
written and what their checksums are. It is built under a name that no other attempt has, and renamed: the second
process takes the first one's. Nothing here is the only copy of anything (rule S4): what cannot be read is built again,
with a warning. Workers open the tables of side inputs there.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa

from airflow_samza.config import STORE_LOCAL_DIR, STORE_LOCAL_MAX_BYTES
from airflow_samza.errors import ConfigError, StoreError
from airflow_samza.private_folder import named_folder, private_folder, scratch_folder
from airflow_samza.storage.columnar import FORMAT
from airflow_samza.storage.host_files import (
    are_checked,
    described,
    note_checked,
    of_another_version,
    remove_at_once,
    safe_name,
)

logger = logging.getLogger(__name__)

RECORD = "store.json"

_UNFINISHED = ".building-"
_OLD_SECONDS = 7 * 86_400.0
"""A version that was not opened for a week is deleted: runs that need it again build it again."""
_SPARE_SECONDS = 3600.0
"""Age of a version beyond the two opened last: a task that began before the newer ones came may still use it."""
_KEPT_VERSIONS = 2


def host_folder(configured: str | None = None) -> str:
    """Return the folder of this host for all that is kept on it.

    The configured one (``$NAME``: of its environment), else a temporary one. A folder into which others could write is
    a :class:`~airflow_samza.errors.ConfigError`: what they put there would be believed.
    """
    if configured:
        folder = os.path.expandvars(configured)
        unset = re.search(r"\$(\w+|\{\w+\})", folder)
        if unset is not None:
            raise ConfigError(
                f"{STORE_LOCAL_DIR} is {configured!r}, and the environment of the host has no {unset[1].strip('{}')}.",
                hint="Set it where the tasks run (spark.executorEnv.… for executors), or name a folder.",
                key=STORE_LOCAL_DIR,
                value=configured,
            )
        with contextlib.suppress(OSError):  # no other user can have made it either; the write there reports the reason
            named_folder(folder)
        return folder
    return scratch_folder()


def host_part(name: str, configured: str | None = None) -> str:
    """Return the folder of this name in the host's folder, which only our user can enter."""
    folder = os.path.join(host_folder(configured), name)
    with contextlib.suppress(OSError):
        private_folder(folder)
    return folder


def default_folder(root: str, configured: str | None = None) -> str:
    """Return the folder for the columnar stores of one root, in the host's folder."""
    return os.path.join(host_part("stores", configured), hashlib.sha256(root.encode()).hexdigest()[:16])


class Kept(Protocol):
    """The content of a store, which never changes. ``kind`` says in the store's record which class it is."""

    kind: ClassVar[str]

    def __len__(self) -> int: ...

    def write(self, folder: str) -> None:
        """Write its files into a folder that is there."""

    @staticmethod
    def open(folder: str) -> Any:
        """Return what :meth:`write` left, mapped into memory."""


AnyKept = TypeVar("AnyKept", bound=Kept)


@dataclass(frozen=True)
class LocalStores:
    """The stores below ``folder``. ``most_bytes``: what they may take together, None for no limit but the disk's."""

    folder: str
    most_bytes: int | None = None
    now: Callable[[], float] = field(default=time.time, repr=False)

    def kept(
        self, topic: str, partition: int, version: str, kind: type[AnyKept], build: Callable[[], AnyKept]
    ) -> AnyKept:
        """Return what a store of this ``kind`` has of one version of a topic's partition: opened, or built and kept.

        Others that want it meanwhile wait for it.
        """
        kept = self.find(topic, partition, version, kind)
        if kept is not None:
            return kept
        path = self._path(topic, partition, version)
        lock = f"{path}.lock"
        with _locked(lock):
            try:
                kept = self.find(topic, partition, version, kind)
                if kept is not None:
                    return kept
                built = build()
                self._keep(path, built)
                found = self.find(topic, partition, version, kind)
                return built if found is None else found  # swept already: the one in memory will do
            finally:
                with contextlib.suppress(OSError):  # who waits has it open, who comes later finds the version
                    os.remove(lock)

    def find(self, topic: str, partition: int, version: str, kind: type[AnyKept]) -> AnyKept | None:
        """Return what there is of a version if it is sound; what is not is removed, with a warning."""
        path = self._path(topic, partition, version)
        while True:
            written = _written(path)
            if written is None and not os.path.isdir(path):
                return None
            opened = self._opened(path, kind)
            if not isinstance(opened, str):
                return opened
            # Else it was built, removed or replaced meanwhile, and nothing is wrong with what is there now.
            if _written(path) == written and os.path.isdir(path):
                logger.warning("The local store %s %s. It is built again.", path, opened)
                remove_at_once(path, _UNFINISHED)
                return None

    def locked(self, topic: str, partition: int) -> contextlib.AbstractContextManager[None]:
        """Let in one process of the host at a time: tasks find out what to build while it is built.

        Tasks that all read one broadcast do so.
        """
        place = os.path.dirname(self._path(topic, partition, "-"))
        return _locked(f"{place}.lock")

    def sweep(self, spare: str | None = None) -> int:
        """Remove what nobody uses, and what is beyond the limit, least lately opened first; the bytes that are left.

        A task that has mapped a store keeps it: its files go when the last one lets go of them.
        """
        now, kept = self.now(), []
        in_partition: dict[str, int] = {}
        for path, used, size in sorted(self._stores(), key=lambda store: -store[1]):
            partition = os.path.dirname(path)
            newer = in_partition.get(partition, 0)
            in_partition[partition] = newer + 1
            unused = now - used > _OLD_SECONDS or (newer >= _KEPT_VERSIONS and now - used > _SPARE_SECONDS)
            if (unused or _UNFINISHED in path) and path != spare:
                if _UNFINISHED not in path:
                    remove_at_once(path, _UNFINISHED)
                elif now - used > _SPARE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
                continue
            kept.append((path, size))
        total = sum(size for _, size in kept)
        while self.most_bytes is not None and total > self.most_bytes and kept:
            path, size = kept.pop()
            if path != spare:
                remove_at_once(path, _UNFINISHED)
                total -= size
            elif not kept:
                break
        return total

    # -- building ------------------------------------------------------------------------------------------------------

    def _keep(self, path: str, table: Kept) -> None:
        unfinished = f"{path}{_UNFINISHED}{uuid.uuid4().hex}"
        try:
            os.makedirs(unfinished)
            table.write(unfinished)
            files = {name: described(os.path.join(unfinished, name)) for name in sorted(os.listdir(unfinished))}
            size = sum(size for size, _ in files.values())
            if self.most_bytes is not None and size > self.most_bytes:
                raise StoreError(
                    f"The local store {path} takes {size} bytes, and {STORE_LOCAL_MAX_BYTES} allows {self.most_bytes} "
                    "for all of a host.",
                    hint=f"Raise {STORE_LOCAL_MAX_BYTES}, or give the table more partitions and the run more hosts.",
                    path=path,
                    bytes=size,
                    most=self.most_bytes,
                )
            with open(os.path.join(unfinished, RECORD), "w", encoding="utf-8") as file:
                json.dump(
                    {
                        "format": FORMAT,
                        "kind": table.kind,
                        "byte_order": sys.byteorder,
                        "rows": len(table),
                        "files": {
                            name: {"bytes": size, "checksum": checksum} for name, (size, checksum) in files.items()
                        },
                    },
                    file,
                )
            note_checked(unfinished, files)
            os.rename(unfinished, path)
            self.sweep(path)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # somebody else was quicker
                return
            raise not_written(path, error) from error
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    # -- opening -------------------------------------------------------------------------------------------------------

    def _opened(self, path: str, kind: type[AnyKept]) -> AnyKept | str:
        """Return what is in a folder, or what is wrong with it."""
        try:
            with open(os.path.join(path, RECORD), "rb") as file:
                record = json.loads(file.read())
        except FileNotFoundError:
            return f"has no {RECORD}"
        except (OSError, ValueError, RecursionError) as error:
            return f"has a {RECORD} that cannot be read ({error})"
        wrong = self._wrong(path, record)
        if wrong is not None:
            return wrong
        try:
            table: AnyKept = kind.open(path)
            os.utime(path, (self.now(), self.now()))
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            return f"cannot be opened ({error})"
        return table

    def _wrong(self, path: str, record: Any) -> str | None:
        if not isinstance(record, dict) or record.get("format") != FORMAT or record.get("byte_order") != sys.byteorder:
            written = record.get("format") if isinstance(record, dict) else None
            return of_another_version(written, FORMAT)
        try:
            files = {name: [file["bytes"], file["checksum"]] for name, file in record["files"].items()}
            if are_checked(path, files):
                return None
            for name, expected in files.items():
                found = described(os.path.join(path, name))
                if found != expected:
                    what = "size" if found[0] != expected[0] else "checksum"
                    return f"is damaged: the {what} of {name} is not what was written"
        except (OSError, KeyError, TypeError, AttributeError) as error:
            return f"is damaged ({error})"
        note_checked(path, files)
        return None

    def _path(self, topic: str, partition: int, version: str) -> str:
        return os.path.join(self.folder, _safe(topic), str(partition), _safe(version))

    def _stores(self) -> Iterator[tuple[str, float, int]]:
        """Return path, time of last use and bytes of each."""
        for topic in _listed(self.folder):
            for partition in _listed(topic):
                for path in _listed(partition):
                    with contextlib.suppress(OSError):
                        yield path, os.stat(path).st_mtime, sum(entry.stat().st_size for entry in os.scandir(path))


def _written(path: str) -> tuple[int, int] | None:
    """Return number and time (ns since 1970) of a store's record, which another one does not share; None without it."""
    try:
        status = os.stat(os.path.join(path, RECORD))
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def not_written(path: str, error: OSError) -> StoreError:
    """Return the warning where the folder of the host cannot be written to: it is full, read-only, or no folder."""
    return StoreError(
        f"The local store {path} could not be written: {error.strerror or error}.",
        hint=f"Make room there, give the user of the tasks the right to write, or set {STORE_LOCAL_DIR} to where "
        "there is a folder.",
        path=path,
    )


def _listed(folder: str) -> list[str]:
    try:
        return sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
    except OSError:
        return []


def _safe(text: str) -> str:
    """Return a text as one name in a folder; one that is too long ends in its hash."""
    name = safe_name(text)
    return name if len(name) <= 120 else f"{name[:80]}~{hashlib.sha256(text.encode()).hexdigest()[:24]}"


@contextlib.contextmanager
def _locked(path: str) -> Iterator[None]:
    """Let in one process at a time; a dead one's lock is gone. Where locks do not work, the rename alone decides."""
    with contextlib.ExitStack() as held:
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file = held.enter_context(open(path, "ab"))
        except OSError as error:
            raise not_written(path.removesuffix(".lock"), error) from error
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

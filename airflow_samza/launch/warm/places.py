"""The warm runners of a host, each with a folder that only its user may enter: its socket, its log, who it is.

Submissions look here for a free one, the command line lists them, and the keeper holds its own.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket as sockets
import uuid
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from airflow_samza.launch.own_scratch import is_abandoned, noted
from airflow_samza.private_folder import private_folder, scratch_folder
from airflow_samza.runs.records import liveness

_FOLDER = "warm"
_LOCK = "lock"
_ENDS = "ended.log"
"""The file with a line for each that has ended, and why."""

_ENDS_BYTES = 100_000

LONGEST_SOCKET = 100
"""The most bytes of a socket's path: 107 can be used, and it is made under a longer name."""

CONNECT_SECONDS = 5.0


@dataclass(frozen=True)
class WarmPlace:
    """The folder of one warm runner; ``name`` is its key with a name drawn by lot."""

    folder: str

    @property
    def name(self) -> str:
        """The name by which commands and records call it."""
        return os.path.basename(self.folder)

    @property
    def key(self) -> str:
        """The key of the runs that it serves."""
        return self.name.partition("-")[0]

    @property
    def socket(self) -> str:
        """The path of the socket on which it listens."""
        return os.path.join(self.folder, "s")

    @property
    def log(self) -> str:
        """The file in which Java and its Python workers print."""
        return os.path.join(self.folder, "java.log")

    @property
    def _about(self) -> str:
        return os.path.join(self.folder, "about.json")

    @property
    def _first_run(self) -> str:
        return os.path.join(self.folder, "first-run")

    @property
    def _wanted(self) -> str:
        return os.path.join(self.folder, "wanted")

    def want_spark(self) -> None:
        """Have its Spark started before a run asks for it."""
        with suppress(OSError):
            Path(self._wanted).touch()

    def wants_spark(self) -> bool:
        """Return whether its Spark is to be started."""
        return os.path.exists(self._wanted)

    def start_for(self, run: str) -> None:
        """Note the run that gets it first, by a text that names the run."""
        Path(self._first_run).write_text(run, encoding="utf-8")

    def is_started_for(self, runs: Container[str]) -> bool:
        """Return whether one of the runs gets it: stages that begin together share one runner, and need one Java."""
        with suppress(OSError):
            return Path(self._first_run).read_text(encoding="utf-8") in runs
        return False

    def describe(self, about: Mapping[str, Any]) -> None:
        """Write who this process is, and what it serves."""
        temporary = f"{self._about}.new"
        Path(temporary).write_text(json.dumps({**liveness.identity(), **about}), encoding="utf-8")
        os.rename(temporary, self._about)

    def about(self) -> dict[str, Any]:
        """Return what it wrote of itself; empty before it has."""
        return noted(self._about)

    def is_orphaned(self) -> bool:
        """Return whether nobody is behind the folder any more."""
        return is_abandoned(self.folder, self.about(), lambda: not self._listens())

    def _listens(self) -> bool:
        try:
            self.connect(CONNECT_SECONDS).close()
        except OSError:
            return False
        return True

    def is_ending(self) -> bool:
        """Return whether it takes no more runs: it has listened, and does no longer."""
        return bool(self.about()) and not os.path.exists(self.socket)

    def connect(self, seconds: float) -> sockets.socket:
        """Return a connection to it; OSError when there is nobody."""
        channel = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            channel.settimeout(seconds)
            channel.connect(self.socket)
        except BaseException:
            channel.close()
            raise
        return channel

    def remove(self, why: str) -> None:
        """Delete the folder; ``why`` is kept for a while."""
        note_end(self.name, why)
        shutil.rmtree(self.folder, ignore_errors=True)


NONE_STARTED = "none was started"
"""In place of the name, where a run has asked for a warm runner and there was no room for one."""


def note_end(name: str, why: str) -> None:
    """Keep for a while why a warm runner has ended, or why there is none."""
    ends = os.path.join(scratch_folder(_FOLDER), _ENDS)
    with suppress(OSError):
        long = os.path.exists(ends) and os.path.getsize(ends) > _ENDS_BYTES
        with open(ends, "w" if long else "a", encoding="utf-8") as file:
            file.write(f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} {name}: {why}\n")


def last_end(name: str = "") -> str:
    """Return the last line about a warm runner of this user on this host, or about any: time, name and reason."""
    with suppress(OSError), open(os.path.join(scratch_folder(_FOLDER), _ENDS), encoding="utf-8") as file:
        return next((line.strip() for line in reversed(file.readlines()) if f" {name}" in line), "")
    return ""


def warm_places() -> list[WarmPlace]:
    """Return the warm runners of this user on this host, alive or not."""
    top = scratch_folder(_FOLDER)
    return [WarmPlace(os.path.join(top, name)) for name in sorted(os.listdir(top)) if name not in (_LOCK, _ENDS)]


def new_place(key: str) -> WarmPlace:
    """Make the folder of a warm runner that is about to start; OSError where it can have no socket there."""
    place = WarmPlace(private_folder(os.path.join(scratch_folder(_FOLDER), f"{key}-{uuid.uuid4().hex[:8]}")))
    if len(place.socket) > LONGEST_SOCKET:
        place.remove("the path of its socket would be too long")
        raise OSError("the folder for temporary files (TMPDIR) has too long a path")
    return place


def sweep_orphans() -> list[WarmPlace]:
    """Delete the folders whose process has gone, and return them."""
    orphans = [place for place in warm_places() if place.is_orphaned()]
    for place in orphans:
        place.remove("its process was gone")
    return orphans


@contextmanager
def counted() -> Iterator[None]:
    """Let one process at a time count the warm runners and start another."""
    with open(os.path.join(scratch_folder(_FOLDER), _LOCK), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

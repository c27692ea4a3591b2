"""Peers of benchmarks that have an environment and a process of their own, which takes requests.

What cannot be had is left out, with a sentence that says why.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_SCRIPTS = Path(__file__).parent / "peers"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"


class Missing(Exception):
    """A peer that cannot be had here."""


@dataclass(frozen=True)
class Peer:
    """A peer: its script, what pip and Maven fetch for it, and its arguments; ``{…}`` are of :meth:`PeerProcess.start`.

    ``packages`` () runs it in this environment.
    """

    name: str
    what: str
    script: str
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    share: int = 1
    """The part of a topic's messages that it gets, as 1/n: who is slow is measured on fewer."""


class PeerProcess:
    """A process of a peer; what it prints beside its answers is in ``<folder>/<name>.log``."""

    def __init__(self, peer: Peer, work: Path, address: str, cores: int) -> None:
        self.peer = peer
        python = _environment(peer, work / "environments" / peer.name)
        jars = _jars(peer, work / "jars" / peer.name)
        self.versions = _versions(peer, python, jars)
        folder = work / "running" / peer.name
        folder.mkdir(parents=True, exist_ok=True)
        arguments = [one.format(cores=cores, folder=folder) for one in peer.arguments]
        self.log = folder / "peer.log"
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [python, str(_SCRIPTS / peer.script), address, *arguments, *map(str, jars)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env={**os.environ, "TMPDIR": str(folder)},
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, work: str, place: str, messages: int) -> tuple[float, dict[int, tuple[int, int]]]:
        """Return the seconds that a request took, and views and milliseconds per page where it counts them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{work} {place} {messages}\n")
            self._process.stdin.flush()
            # What a library's own process (Flink's Java) prints to the same pipe is no answer.
            answer = next((line for line in self._process.stdout if line.startswith("{")), "")
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise Missing(f"{self.peer.what} failed at {work}: {_end_of(self.log)}")
        found = json.loads(answer)
        return found["seconds"], {int(page): (views, millis) for page, (views, millis) in found["pages"].items()}

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended
            self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _environment(peer: Peer, folder: Path) -> str:
    """Return the Python of a peer, whose environment is made the first time."""
    if not peer.packages:
        return sys.executable
    python, done = folder / "bin" / "python", folder / "complete"
    if not done.exists():
        print(f"Installing {', '.join(peer.packages)} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        _run([str(python), "-m", "pip", "install", "--quiet", *peer.packages], f"{peer.what} cannot be installed")
        done.touch()
    return str(python)


def _jars(peer: Peer, folder: Path) -> list[Path]:
    for jar in peer.jars:
        _, name, version = jar.split(":")
        if not (folder / f"{name}-{version}.jar").exists():
            fetch = ["mvn", "-q", "-B", _COPY, f"-Dartifact={jar}", f"-DoutputDirectory={folder}"]
            _run(fetch, f"{jar}, which {peer.what} needs, cannot be fetched")
    return sorted(folder.glob("*.jar"))


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise Missing(f"{what}: {error}.") from error
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line.upper()]
        raise Missing(f"{what}: {said[0] if said else done.stderr[-200:]}")


def _versions(peer: Peer, python: str, jars: Sequence[Path]) -> str:
    """Return the release of a peer."""
    name = peer.packages[0].partition("[")[0].partition("==")[0] if peer.packages else "pyspark"
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    found = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True).stdout.strip()
    return f"{name} {found}"


def _end_of(log: Path) -> str:
    """Return the line of a log that says most of why a peer failed."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(Caused by: )?[\w.]*(Error|Exception)\b", line)]
    return (errors or lines or [f"it said nothing ({log})"])[-1][:300]

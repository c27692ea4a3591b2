"""Servers in Java on this machine: their jars, processes and ports, and the command that runs one until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "setup-jars.sh"

# They serve one test, and should start soon: the second compiler and the parallel collector only cost time here.
_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")

# Two to four seconds on an idle machine, ten when all its cores are busy.
START_SECONDS = 120.0


class NoServer(RuntimeError):
    """There is no server to be had; the message says why and what to do."""


class Server(Protocol):
    """A server that the command of its module runs."""

    name: str

    def start(self) -> None:
        """Starts it, and returns when it can be used."""

    def wait(self) -> None:
        """Returns when it has ended."""

    def stop(self) -> None:
        """Stops it."""

    def facts(self) -> str:
        """Return the lines that say how it is reached."""


def jars(name: str) -> Path:
    """Return the folder of the jars that ``scripts/jars/<name>`` lists, fetched if need be."""
    # With the environment as Python has it: workers of pytest move that of the process when they begin, beside threads.
    done = subprocess.run([str(SCRIPT), name], env={**os.environ}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoServer(done.stderr.strip())
    return Path(done.stdout.strip())


def free_ports(count: int) -> list[int]:
    """Return ports of 127.0.0.1 that nobody listens on; all of them differ."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in sockets]


def java_command(classpath: Sequence[str], *arguments: str) -> list[str]:
    """Return a command of the Java of ``JAVA_HOME``, or of the one on the path."""
    program = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
    return [program, *_OPTIONS, "-cp", os.pathsep.join(classpath), *arguments]


def launched(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """Return a process in a session of its own that appends to ``log``."""
    with open(log, "ab") as output:
        return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)


def formatted(jars: Path, stored: str, command: Callable[[Path], Sequence[str]]) -> Path:
    """Return the folder that a server starts with; made once, since formatting takes about as long as starting.

    ``command`` makes the folder ``stored`` in the one that it is given.
    """
    kept = jars.with_name(f"{jars.name}-formatted")
    if not kept.is_dir():
        with tempfile.TemporaryDirectory(dir=jars.parent) as made:
            done = subprocess.run(command(Path(made)), capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NoServer(f"{kept} could not be formatted:\n{(done.stderr + done.stdout)[-2000:]}")
            with contextlib.suppress(OSError):  # another process was quicker
                os.rename(Path(made) / stored, kept)
    return kept


def serve(
    parser: argparse.ArgumentParser,
    make: Callable[[Path, argparse.Namespace], Server],
    arguments: Sequence[str] | None,
) -> int:
    """Start a server in the folder of ``--folder``, print how it is reached, and stop it at Ctrl-C."""
    parser.add_argument("--folder", type=Path, help="where it stores what it is given (a new temporary folder)")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ended by whatever: the server ends, too
    with contextlib.ExitStack() as held:
        folder = options.folder or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="server-")))
        folder.mkdir(parents=True, exist_ok=True)
        held.enter_context(contextlib.suppress(KeyboardInterrupt))
        try:
            found = make(folder.resolve(), options)
            held.callback(found.stop)
            began = time.monotonic()
            found.start()
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        print(f"{found.name} is up, after {time.monotonic() - began:.1f} s. Ctrl-C stops it.\n")
        print(found.facts(), flush=True)
        found.wait()
    return 0

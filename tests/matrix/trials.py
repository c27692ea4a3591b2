"""One command in an environment, with its log and an end."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FAILED = "FAILED"

LIMIT_SECONDS = 3600.0
"""The longest suite takes a quarter of an hour; one that hangs may not keep the others from running."""

_GRACE_SECONDS = 120.0
"""After the interrupt tests stop the servers that they have started, and print what has failed."""

_COUNTS = re.compile(r"^(?:=+ )?((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)


@dataclass(frozen=True)
class Trial:
    """Outcome of a command: ``counts`` is pytest's own summary, empty where pytest did not write one."""

    succeeded: bool
    counts: str

    def __str__(self) -> str:
        return self.counts or "ok" if self.succeeded else f"{FAILED} {self.counts}".strip()


def tried_command(
    command: list[str], place: Path, environment: Mapping[str, str], log: Path, limit: float = LIMIT_SECONDS
) -> Trial:
    """Run a command in a folder, and interrupt it where it does not end within ``limit`` seconds."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command,
            cwd=place,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        late = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            late = True
            process.send_signal(signal.SIGINT)
        finally:
            end(process)
    said = counts_in(log.read_text(errors="replace"))
    if late:
        return Trial(False, f"{said} ended after {limit:.0f} s".strip())
    return Trial(process.returncode == 0, said)


def end(process: subprocess.Popen[bytes]) -> None:
    """Wait a while for a process that was interrupted, then kill it."""
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def counts_in(text: str) -> str:
    """Return the numbers of tests that a log of pytest ends with.

    >>> counts_in("...s\\n13 passed, 7 skipped, 100 deselected in 317.71s (0:05:17)\\n")
    '13 passed, 7 skipped'
    >>> counts_in("The wheel works.")
    ''
    """
    found = _COUNTS.findall(text)
    if not found:
        return ""
    parts = [part for part in found[-1].split(", ") if part.split()[-1] not in ("deselected", "warning", "warnings")]
    return ", ".join(parts)

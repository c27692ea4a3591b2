"""Faults that runs meet: kills, freezes, a full disk, wrong clocks, torn files.

At times that a seed decides, and on record.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.liveness import process_is_there
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.systems.filesystems.filesystem import Filesystem
from tests.support.runner_without_spark import Dials

DAMAGES = (b"", b"{", b"[]", b'{"at": "soon"}', b"\xff\x00")


Kind = tuple[str, Callable[[], str | None]]
"""An action by its name; it returns what it did, None if there was nothing to do it to."""


@dataclass
class Disk:
    """The disk of a root. On a mount of its own it really fills up; else the dial says so to runners."""

    root: Path
    dials: Dials
    is_mounted: bool
    full: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def filled(self) -> Iterator[None]:
        """Nothing can be written meanwhile."""
        with self.full:
            filler = self.root / "filler"
            try:
                self._fill(filler)
                yield
            finally:
                filler.unlink(missing_ok=True)
                self.dials.turn("disk-full", None)

    def _fill(self, filler: Path) -> None:
        if not self.is_mounted:
            self.dials.turn("disk-full")
            return
        with open(filler, "wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        file.write(b"x" * size)


class Mischief:
    """One round's worth of it: a list of actions that is made of a seed, done in a thread of its own."""

    def __init__(
        self, chance: random.Random, files: Filesystem, run: RunFolder, disk: Disk, dials: Dials, *, on_spark: bool
    ) -> None:
        self.chance = chance
        self._files = files
        self._run = run
        self.disk = disk
        self.dials = dials
        self._on_spark = on_spark
        self._began = time.monotonic()
        self.over = threading.Event()
        self._frozen: list[psutil.Process] = []
        self.log: list[str] = []
        self.done: Counter[str] = Counter()
        span = 25.0 if on_spark else 6.0
        kinds: list[Kind] = [
            ("kill a runner", self._kill),
            ("freeze a runner for a moment", lambda: self._freeze(chance.uniform(0.2, 2.0))),
            ("freeze a runner for long", self._freeze_for_long),
            ("freeze Spark for a moment", lambda: self._freeze_spark(chance.uniform(0.2, 2.0))),
            ("freeze Spark for long", lambda: self._freeze_spark(None)),
            ("fill the disk", self._fill),
            ("jump the clocks", self._jump),
            ("tear records", self._tear),
            ("leave rubbish", self._rubbish),
        ]
        if on_spark:
            kinds += [("kill Java", self._kill_java), ("kill a worker", self._kill_worker)]
        kinds += self.more_kinds()
        only = os.environ.get("CHAOS_KINDS", "").split(",")
        kinds = [kind for kind in kinds if kind[0] in only] or kinds
        chosen = [chance.choice(kinds) for _ in range(chance.randint(2, 6))]
        self._actions = sorted(
            ((chance.uniform(0.3, span), name, act) for name, act in chosen), key=lambda action: action[0]
        )
        self._thread = threading.Thread(target=self._do, name="mischief", daemon=True)
        self._thread.start()

    def more_kinds(self) -> list[Kind]:
        """Return what befalls the systems around a run."""
        return []

    def end(self) -> None:
        """Stops doing, and puts right what would never come right by itself.

        Frozen processes wake up, clocks go right.
        """
        self.over.set()
        self._thread.join()
        for process in self._frozen:
            self._thaw(process)
        for dial in ("clock", "spark-frozen", "disk-full"):
            self.dials.turn(dial, None)

    def say(self, text: str) -> None:
        """Puts a line on record, with the seconds since the round began."""
        self.log.append(f"{time.monotonic() - self._began:7.2f} s  {text}")

    def _do(self) -> None:
        for at, name, act in self._actions:
            if self.over.wait(max(0.0, self._began + at - time.monotonic())):
                return
            told = act()
            if told is not None:
                self.done[name] += 1
                self.say(f"{name}: {told}")

    def processes(self) -> list[psutil.Process]:
        """The runners' processes that are there."""
        found = []
        for runner in all_runners(self._files, self._run):
            claim = runner.who(self._files) or {}
            if process_is_there(claim):
                with suppress(psutil.Error):
                    found.append(psutil.Process(int(claim["pid"])))
        return found

    def _one(self) -> psutil.Process | None:
        there = self.processes()
        return self.chance.choice(there) if there else None

    def _java(self) -> psutil.Process | None:
        process = self._one()
        with suppress(psutil.Error):
            children = process.children(recursive=True) if process is not None else []
            return next((child for child in children if child.name() == "java"), None)
        return None

    def _kill(self) -> str | None:
        process = self._one()
        if process is None:
            return None
        with suppress(psutil.Error):
            java = [child for child in process.children(recursive=True) if child.name() == "java"]
            process.kill()
            for child in java:  # as the end of a host or container would
                child.kill()
        return f"process {process.pid}"

    def _kill_java(self) -> str | None:
        java = self._java()
        if java is None:
            return None
        with suppress(psutil.Error):
            java.kill()
        return f"process {java.pid}"

    def _kill_worker(self) -> str | None:
        """One of the Pythons that run Spark's tasks, or the daemon that forks them; it waits for the first ones."""
        deadline = time.monotonic() + 60.0
        while not (pythons := self._pythons()) and time.monotonic() < deadline and not self.over.is_set():
            self.over.wait(0.1)
        if not pythons:
            return None
        process = self.chance.choice(pythons)
        with suppress(psutil.Error):
            process.kill()
        return f"process {process.pid}"

    def _pythons(self) -> list[psutil.Process]:
        """The Pythons below the Javas of the runners."""
        found = []
        for runner in self.processes():
            with suppress(psutil.Error):
                found += [one for one in runner.children(recursive=True) if "worker_daemon" in " ".join(one.cmdline())]
        return found

    def _freeze(self, seconds: float) -> str | None:
        process = self._one()
        if process is None:
            return None
        self._stop(process)
        self.over.wait(seconds)
        self._thaw(process)
        return f"process {process.pid} for {seconds:.1f} s"

    def _freeze_for_long(self) -> str | None:
        process = self._one()
        if process is None:
            return None
        self._stop(process)
        self._frozen.append(process)
        return f"process {process.pid}, until the round is over"

    def _freeze_spark(self, seconds: float | None) -> str | None:
        java = self._java() if self._on_spark else None
        if self._on_spark and java is None:
            return None
        if java is not None:
            self._stop(java)
        else:
            self.dials.turn("spark-frozen")
        if seconds is None:
            seconds = self.chance.uniform(9.0, 12.0)  # for longer than is waited for it
        self.over.wait(seconds)
        if java is not None:
            self._thaw(java)
        else:
            self.dials.turn("spark-frozen", None)
        return f"{java.pid if java is not None else 'the stand-in'} for {seconds:.1f} s"

    def _fill(self) -> str:
        seconds = self.chance.uniform(0.1, 3.0)
        with self.disk.filled():
            self.over.wait(seconds)
        return f"{'a real one' if self.disk.is_mounted else 'the runners' + chr(39) + ' writes'} for {seconds:.1f} s"

    def _jump(self) -> str:
        by = self.chance.choice([-86_400, -3600, -40, 40, 3600, 86_400])
        self.dials.turn("clock", str(by))
        if self.chance.random() < 0.5:
            self.over.wait(self.chance.uniform(0.5, 4.0))
            self.dials.turn("clock", None)
            return f"{by} s, and back"
        return f"{by} s"

    def _tear(self) -> str | None:
        told = [path for runner in all_runners(self._files, self._run) for path in (runner.heartbeat, runner.claim)]
        root = Path(self._files.location(""))
        told += [
            str(path.relative_to(root)) for path in (root / self._run.path).glob("stages/*/*/attempts/*/status.json")
        ]
        there = [path for path in told if self._files.exists(path)]
        if not there:
            return None
        path = self.chance.choice(there)
        (root / path).write_bytes(self.chance.choice(DAMAGES))
        return path

    def _rubbish(self) -> str | None:
        """Leave the files of a process that dies while it writes."""
        root = Path(self._files.location(""))
        folders = [path for path in (root / "topics").rglob("segments") if path.is_dir()]
        folders += [path for path in (root / self._run.path).glob("stages/*/*/manifests/*") if path.is_dir()]
        if not folders:
            return None
        folder = self.chance.choice(folders)
        name = f"{self.chance.getrandbits(64):016x}"
        half = folder / (
            f"{name}.arrow" if folder.name == "segments" and self.chance.random() < 0.5 else f".tmp-{name}"
        )
        with suppress(OSError):
            half.write_bytes(os.urandom(self.chance.randint(0, 500)))
        return str(half.relative_to(root))

    def _stop(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGSTOP)
            self.say(f"(process {process.pid} is frozen)")

    def _thaw(self, process: psutil.Process) -> None:
        with suppress(psutil.Error):
            process.send_signal(signal.SIGCONT)

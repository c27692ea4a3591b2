"""Mixed runs on warm runners: two applications, two versions, some that fail and some whose processes are killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from airflow_samza.launch.warm.messages import STATE
from airflow_samza.launch.warm.taking import ask
from airflow_samza.runs.records.folders import RunFolder, read
from airflow_samza.runs.stages.stage_runners import Claim, all_runners
from airflow_samza.systems.filesystems.opening import open_filesystem

APPLICATION = """
import builtins, time
from airflow_samza import count, stream_application
from shop_parts import VERSION

def seen(view):
    met = builtins.__dict__.setdefault("met", set())
    met.add(VERSION)
    if {slow}:
        time.sleep(0.2)
    if {fails}:
        raise ValueError("as it should")
    return {{"country": view.country, "met": " ".join(sorted(met))}}

@stream_application("{name}")
def application(app):
    source = app.input_stream("views", system="logs", schema="member bigint, country string", partitions=2, path="views")
    (
        source.map(seen, schema="country string, met string")
        .partition_by("met", id="by-met")
        .aggregate("met", rows=count(), id="per-met")
        .send_to(app.output_stream("out", system="out", path="{run}"))
    )
"""

ROWS = 40

MONITOR = "Idle Worker Mon"
"""Name of a thread that Spark starts for each environment of Python workers, one for each version of code, for good."""

GOOD, FAILS, KILLED, JAVA_KILLED = "good", "fails", "driver killed", "Java killed"
KINDS = (GOOD,) * 7 + (FAILS, FAILS, KILLED)


@dataclass
class Mix:
    """The host, the root, and what was found so far."""

    folder: Path
    bounds: str
    temporary: Path
    runs: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    sizes: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "data" / "views").mkdir(parents=True)
        lines = [json.dumps({"member": n, "country": ("nl", "de")[n % 2]}) for n in range(ROWS)]
        (self.folder / "data" / "views" / "1.jsonl").write_text("\n".join(lines) + "\n")
        self.files = open_filesystem(str(self.folder / "root"))

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "AIRFLOW__SAMZA__WARM_RUNNERS": self.bounds,
            "TMPDIR": str(self.temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def lane(self, number: int, seconds: float, at_least: int) -> None:
        """Run one run after another, as one user of the host does, until the time is over."""
        drawn = random.Random(f"warm {number}")
        until, done = time.monotonic() + seconds, 0
        while done < at_least or time.monotonic() < until:
            kind = drawn.choice(KINDS) if done else GOOD
            if seconds > 600 and kind == KILLED and drawn.random() < 0.3:
                kind = JAVA_KILLED
            try:
                self.run(number, f"lane{number}-{done}", f"shop{drawn.randrange(2)}", f"v{drawn.randrange(2)}", kind)
            except Exception as error:
                self.wrong.append(f"lane {number}, run {done}: {error!r}")
            done += 1

    def run(self, lane: int, run: str, name: str, version: str, kind: str) -> None:
        """Run one, and compare what it has made with what it must."""
        project = self.folder / f"lane{lane}"
        project.mkdir(exist_ok=True)
        version = f"{name}-{version}"
        (project / "shop_parts.py").write_text(f"VERSION = {version!r}\n")
        text = APPLICATION.format(name=name, run=run, fails=kind == FAILS, slow=kind in (KILLED, JAVA_KILLED))
        (project / "shop.py").write_text(text)
        began = time.monotonic()
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from airflow_samza.cli import main; main()", "run", "shop:application"),
                *("--run-id", run, "--root", str(self.folder / "root"), "--master", "local[2]"),
                *("--system", f"logs=files:{self.folder / 'data'}", "--system", f"out=files:{self.folder / 'out'}"),
            ],
            cwd=project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if kind in (KILLED, JAVA_KILLED):
            self._kill(name, run, java=kind == JAVA_KILLED, while_lives=process)
        output, _ = process.communicate()
        if process.returncode != 0 and kind in (KILLED, JAVA_KILLED):
            self._again(project, process.args, run)
        elif (process.returncode == 0) != (kind != FAILS):
            self.wrong.append(f"{run} ({kind}) ended with {process.returncode}: {output[-1500:]}")
        elif kind == FAILS and "as it should" not in output:
            self.wrong.append(f"{run} failed by something else: {output[-1500:]}")
        if kind != FAILS:
            self._compare(run, version)
        self.runs.append({"run": run, "kind": kind, "seconds": time.monotonic() - began, "warm": self._warm(name, run)})
        self._measure()

    def _again(self, project: Path, command: Any, run: str) -> None:
        done = subprocess.run(command, cwd=project, env=self.environment, capture_output=True, text=True)
        if done.returncode != 0:
            self.wrong.append(f"{run} cannot be resumed: {done.stderr[-1500:]}")

    def _compare(self, run: str, version: str) -> None:
        import pyarrow.parquet as pq

        found = {row["met"]: row["rows"] for row in pq.read_table(self.folder / "out" / run).to_pylist()}
        if found != {version: ROWS}:
            self.wrong.append(f"{run} of {version} has met {found}")

    def _claims(self, name: str, run: str) -> list[Claim]:
        found = [read(self.files, runner.claim, Claim) for runner in all_runners(self.files, RunFolder(name, run))]
        return [claim for claim in found if claim is not None]

    def _warm(self, name: str, run: str) -> str:
        return " | ".join(claim.warm for claim in self._claims(name, run))

    def _kill(self, name: str, run: str, *, java: bool, while_lives: subprocess.Popen[str]) -> None:
        while while_lives.poll() is None:
            claims = self._claims(name, run)
            if claims and claims[-1].pid:
                time.sleep(0.5)
                pid = claims[-1].pid
                if java:
                    keeper = int(claims[-1].warm.rpartition(" ")[2] or 0)
                    pid = next((one.pid for one in _children(keeper) if one.name() == "java"), pid)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.05)

    def _measure(self) -> None:
        for place in self.places():
            about = ask(place, STATE)
            if about is None or about.get("state") != "idle":
                continue
            processes = [psutil.Process(about["pid"]), *_children(about["pid"])]
            sizes: dict[str, float] = {"runs": about["runs"], "megabytes": about["megabytes"]}
            with suppress(psutil.Error, OSError):
                sizes["files"] = sum(one.num_fds() for one in processes)
                sizes["threads"] = sum(_threads(one.pid) for one in processes)
                sizes["processes"] = len(processes)
                sizes["monitors"] = sum(
                    name.startswith(MONITOR) for one in processes for name in _thread_names(one.pid)
                )
            self.sizes.setdefault(place.name, []).append(sizes)

    def places(self) -> list[Any]:
        from airflow_samza.launch.warm.places import WarmPlace

        top = self.temporary / f"airflow-samza-{os.geteuid()}" / "warm"
        return [WarmPlace(str(path)) for path in sorted(top.glob("*-*"))] if top.exists() else []

    def processes(self) -> list[psutil.Process]:
        """Return what still runs with this host's folder in its environment."""
        return list(_with_folder(str(self.temporary)))


def grown(sizes: list[dict[str, float]], what: str) -> float:
    """Return by which part a figure is larger in the last third of runs than in the first."""
    figures = [one[what] for one in sizes if what in one]
    third = max(1, len(figures) // 3)
    first, last = sorted(figures[:third])[third // 2], sorted(figures[-third:])[third // 2]
    return last / first - 1.0


def until(holds: Callable[[], Any], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came about"
        time.sleep(0.05)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True) if pid else []
    except psutil.Error:
        return []


def _with_folder(folder: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("TMPDIR") == folder and process.status() != psutil.STATUS_ZOMBIE:
                yield process


def _threads(pid: int) -> int:
    """Number of threads of a process, without two pools of Spark's block manager, and without its monitors.

    Those pools start a thread for each question, 128 at most, and end one that had none for a minute.
    """
    return sum(not name.startswith(("block-manager-", MONITOR)) for name in _thread_names(pid))


def _thread_names(pid: int) -> list[str]:
    return [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/comm")]

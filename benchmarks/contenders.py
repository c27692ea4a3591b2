"""Those who run the workloads.

The application on its warm stage runner, and the peers in a PySpark process of their own.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

from airflow_samza.config import STORE_LOCAL_DIR
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.launch.warm.places import warm_places
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.system import SystemBinding
from benchmarks.gen_data import clicks_file, views_file
from benchmarks.measuring import Measured, Meter
from benchmarks.peer_process import Peer, PeerProcess
from benchmarks.workloads import Workload


class Runners:
    """The process ids of the stage runners of a root, and of its warm runner; looked for until there is one.

    Looking costs processor time.
    """

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._found: list[int] = []

    def __call__(self) -> list[int]:
        """The ids; empty before the first one is up."""
        if not any(psutil.pid_exists(pid) for pid in self._found):
            self._found = [
                int(p.info["pid"])
                for p in psutil.process_iter(["pid", "cmdline"])
                if self._is_ours(p.info["cmdline"] or [])
            ]
            about = (place.about() for place in warm_places())
            self._found += [int(one["pid"]) for one in about if one.get("root") == self._root]
        return self._found

    def _is_ours(self, words: list[str]) -> bool:
        return "airflow_samza.spark.runner" in words and any(self._root in word for word in words)


class OurRuns:
    """Runs of one workload's application.

    Each is planned anew, every stage submitted and finished, the output published.
    """

    def __init__(self, workload: Workload, data: Path, rows: int, work: Path, cores: int) -> None:
        self.workload = workload
        self.output = work / workload.name / workload.output
        self._views, self._clicks = views_file(data, rows), clicks_file(data, rows)
        root = work / f"{workload.name}-root"
        self._hosts = work / f"{workload.name}-host"
        shutil.rmtree(root, ignore_errors=True)  # run records of an earlier benchmark would be taken up
        bindings = {
            "lake": SystemBinding("files", {"root": str(data)}),
            "results": SystemBinding("files", {"root": str(self.output.parent)}),
        }
        self._runtime = SparkRuntime(str(root), bindings, master=f"local[{cores}]")
        self._runners = Runners(root)
        self._generation = 0
        self._run: RunPlan | None = None
        self.stages: dict[str, float] = {}
        """Seconds of the last run: of planning, and of each stage from submit to result."""

    def run(self) -> Measured:
        """One run."""
        self._generation += 1
        # Not this process's children: the peers are among them.
        with Meter(self._runners, children=False) as meter:
            begin = time.perf_counter()
            # A folder of stores of its own: each run loads its tables.
            config = {
                "views": self._views.name,
                "clicks": self._clicks.name,
                STORE_LOCAL_DIR: str(self._hosts / str(self._generation)),
            }
            self._run = self._runtime.prepare(
                RunRequest(self.workload.application, "bench", generation=self._generation, config=config, reuse=False)
            )
            self.stages = {"plan": round(time.perf_counter() - begin, 3)}
            for stage in self._run.plan.stages:
                begin = time.perf_counter()
                self._runtime.run_stage(self._run, stage.stage_id)
                self.stages[stage.stage_id] = round(time.perf_counter() - begin, 3)
        return meter.result

    def close(self) -> None:
        """Ends the runner."""
        if self._run is not None:
            self._runtime.close(self._run, wait_seconds=30)


_POLARS = Peer("polars", "Polars", "views_polars.py", packages=("polars==2.1.0",), arguments=("{cores}",))


class PeerRuns:
    """A PySpark process that runs the peers on request, and one of Polars for those whose names end so.

    The environment of Polars stays in the folder of the data.
    """

    def __init__(self, data: Path, work: Path, cores: int) -> None:
        self.out = work / "peers"
        self._data, self._cores = data, cores
        self._polars: PeerProcess | None = None
        command = [
            sys.executable,
            "-m",
            "benchmarks.peers.spark",
            "--data",
            str(data),
            "--out",
            str(self.out),
            "--cores",
            str(cores),
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def run(self, peer: str, rows: int) -> Measured:
        """One run of a peer, measured by itself."""
        if peer.endswith(_POLARS.name):
            return self._run_polars(peer, rows)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{peer} {rows}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(
                f"The peer {peer} failed; run `echo {peer} {rows} | python -m benchmarks.peers.spark …` by itself."
            )
        return Measured(**json.loads(answer))

    def _run_polars(self, peer: str, rows: int) -> Measured:
        if self._polars is None:
            self._polars = PeerProcess(_POLARS, self._data.absolute(), "none", self._cores)
        pid = self._polars.pid
        with Meter(lambda: [pid], children=False) as meter:
            self._polars.ask(peer, f"{views_file(self._data, rows).absolute()}>{(self.out / peer).absolute()}", rows)
        return meter.result

    def close(self) -> None:
        """Ends the processes."""
        if self._polars is not None:
            self._polars.close()
            shutil.rmtree(self._data / "running", ignore_errors=True)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

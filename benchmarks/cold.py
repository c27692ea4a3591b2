"""From nothing to a result: a process that starts Spark, runs W1 once and ends; ours is ``airflow-samza run``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.contenders import Runners
from benchmarks.gen_data import ensure_data
from benchmarks.measuring import Measured, Meter
from benchmarks.results import OURS
from benchmarks.workloads import WORKLOADS

PEER = "W1"


def cold_starts(data: Path, rows: int, repeat: int, cores: int, work: Path) -> dict[str, list[Measured]]:
    """Cold runs of W1 in turn, by contender."""
    views = ensure_data(data, rows)
    found: dict[str, list[Measured]] = {OURS: [], PEER: []}
    for number in range(repeat):
        for name, runs in found.items():
            place = work / f"cold-{number}"
            root = place / "root"
            with Meter(Runners(root)) as meter:
                if name == OURS:
                    _ours(views, root, place, cores)
                else:
                    _peer(data, rows, place, cores)
            runs.append(meter.result)
            print(
                json.dumps({"workload": "cold", "contender": name, "seconds": round(meter.result.seconds, 3)}),
                flush=True,
            )
    return found


def _ours(views: Path, root: Path, place: Path, cores: int) -> None:
    place.mkdir(parents=True, exist_ok=True)
    environments = place / "samza.toml"
    systems = "".join(
        f'[env.bench.systems.{name}]\nkind = "files"\nroot = {json.dumps(str(where))}\n'
        for name, where in (("lake", views.parent), ("results", place / "samza"))
    )
    environments.write_text(f"[env.bench]\nroot = {json.dumps(str(root))}\n{systems}")
    command = [
        str(Path(sys.executable).with_name("airflow-samza")),
        "run",
        WORKLOADS["W1"].application,
        "--env",
        "bench",
    ]
    options = ["--environments", str(environments), "--config", f"views={views.name}", "--master", f"local[{cores}]"]
    subprocess.run([*command, *options], check=True, capture_output=True)


def _peer(data: Path, rows: int, place: Path, cores: int) -> None:
    command = [
        sys.executable,
        "-m",
        "benchmarks.peers.spark",
        "--data",
        str(data),
        "--out",
        str(place / "peers"),
        "--cores",
        str(cores),
    ]
    subprocess.run(command, input=f"{PEER} {rows}\n", text=True, check=True, capture_output=True)

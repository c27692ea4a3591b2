"""What a Dag file with an application of 50 stages costs to parse, beyond ``import airflow.sdk``.

``python -m benchmarks.parse_cost`` prints one JSON line and ends with 1 when it is over the limit. Each measurement is
a fresh interpreter, as Airflow forks one for each file; the best of several counts, because the machine may do other
things.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT_SECONDS = 0.3

APPLICATION = """
from airflow_samza import count, stream_application

@stream_application("long-chain")
def long_chain(app):
    views = app.input_stream("views", system="lake", schema="key bigint, value bigint", partitions=8)
    for number in range({stages} - 1):
        views = views.partition_by("key", id=f"by-key-{{number}}").where("value > 0")
    views.send_to(app.output_stream("out", system="results"))
"""

DAG = """
import time
import airflow.sdk
from airflow.sdk import DAG
begin = time.perf_counter()
from airflow_samza.provider.task_group import SamzaTaskGroup
with DAG("long_chain", schedule=None) as dag:
    SamzaTaskGroup(group_id="chain", application="long_chain_app:long_chain", conn_id="samza_default")
print(time.perf_counter() - begin, len(dag.task_ids))
"""


def parse_once(folder: Path) -> tuple[float, int]:
    """Seconds beyond ``import airflow.sdk``, and the number of tasks."""
    command = [sys.executable, "-W", "ignore", str(folder / "dag_file.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, tasks = done.stdout.split()[-2:]
    return float(seconds), int(tasks)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measures the parse cost of a Dag file.")
    parser.add_argument("--stages", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "long_chain_app.py").write_text(APPLICATION.format(stages=arguments.stages))
        (folder / "dag_file.py").write_text(DAG)
        runs = [parse_once(folder) for _ in range(arguments.repeat)]
    best, tasks = min(runs)
    line = {
        "benchmark": "parse_cost",
        "stages": arguments.stages,
        "tasks": tasks,
        "seconds": round(best, 3),
        "all_seconds": [round(seconds, 3) for seconds, _ in runs],
        "limit": LIMIT_SECONDS,
    }
    print(json.dumps(line))
    return 0 if best < LIMIT_SECONDS else 1


if __name__ == "__main__":
    raise SystemExit(main())

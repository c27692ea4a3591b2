"""Cost of parsing a Dag file with an application of 50 stages, beyond ``import airflow.sdk`` and a Dag with a task.

``python -m benchmarks.parse_cost`` prints one JSON line and ends with 1 when it is over the limit. Each measurement is
a fresh interpreter, as Airflow forks one for each file. It counts seconds of the processor, and limits their share of
what Airflow's own part takes in the same interpreter: so the result is the same on a machine that does other things.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

LIMIT = 0.3
"""Of Airflow's own seconds."""

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
from airflow.sdk import DAG, BaseOperator
with DAG("any", schedule=None):
    BaseOperator(task_id="task")  # in Airflow 3.1 the first task of a process loads half a second of Airflow
airflows = time.process_time()
from airflow_samza.provider.task_group import SamzaTaskGroup
with DAG("long_chain", schedule=None) as dag:
    SamzaTaskGroup(group_id="chain", application="long_chain_app:long_chain", conn_id="samza_default")
print(time.process_time() - airflows, airflows, len(dag.task_ids))
"""


def parse_once(folder: Path) -> tuple[float, float, int]:
    """CPU seconds beyond a Dag with one task of Airflow's own, those until then, and the number of tasks."""
    command = [sys.executable, "-W", "ignore", str(folder / "dag_file.py")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    seconds, airflows, tasks = done.stdout.split()[-3:]
    return float(seconds), float(airflows), int(tasks)


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
    share = min(seconds / airflows for seconds, airflows, _ in runs)
    line = {
        "benchmark": "parse_cost",
        "stages": arguments.stages,
        "tasks": runs[0][2],
        "share": round(share, 3),
        "limit": LIMIT,
        "seconds": [round(seconds, 3) for seconds, _, _ in runs],
        "airflows_seconds": [round(airflows, 3) for _, airflows, _ in runs],
    }
    print(json.dumps(line))
    return 0 if share < LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())

"""Once a day: what has expired under the root goes, of all applications that run there.

Each run's cleanup already deletes what has expired of its own application. This takes what no run's end takes:
applications that run no more, segments that nobody names, and what dead processes have left half written.
"""

import pendulum
from airflow.sdk import DAG

from airflow_samza.operators import SamzaRetentionOperator

with DAG(
    "samza_retention",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["samza"],
    doc_md=__doc__,
) as dag:
    SamzaRetentionOperator(task_id="sweep", keep_runs=200, keep_runs_days=60)

"""A run per hour that upserts the changes of a database into tables of Delta: members, and the history of each.

The changes are files in the envelope of Debezium. A run reads those that came since the run before, and goes on from
the state that knows the newest change of each member.

Connections: ``members_data`` (type fs), and ``members_mart`` (type delta), for example with the extra
``{"root": "/srv/mart"}``.
"""

import pendulum
from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

with DAG(
    "members_changes",
    schedule="@hourly",
    start_date=pendulum.datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    tags=["samza"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="members",
        application="pipelines.members:members_from_changes",
        systems={"data": "members_data", "mart": "members_mart"},
    )

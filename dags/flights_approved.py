"""Delays of a day that a person approves before anybody sees them: write, audit, publish.

The stages check what they write by expectations, and keep it back. ``ask`` waits for a person, who finds the results in
the page of the task. Approve, and ``publish`` publishes and sends the event of the asset. Reject, and it discards the
output, says so, and is skipped. Clear a run, and its output waits anew.

Connections: ``flights_data`` and ``flights_warehouse`` (type fs).
"""

import pendulum
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk import DAG
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_samza import SamzaTaskGroup
from airflow_samza.operators import SamzaPublishOperator

APPLICATION = "pipelines.approved:approved_delays"
SYSTEMS = {"data": "flights_data", "warehouse": "flights_warehouse"}

with DAG(
    "flights_approved",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=pendulum.datetime(2013, 1, 1),
    end_date=pendulum.datetime(2013, 12, 31),
    catchup=False,
    tags=["samza"],
    doc_md=__doc__,
):
    delays = SamzaTaskGroup(group_id="delays", application=APPLICATION, systems=SYSTEMS)
    ask = HITLOperator(task_id="ask", subject="Publish the delays of {{ ds }}?", options=["Approve", "Reject"])
    publish = SamzaPublishOperator(
        task_id="publish",
        application=APPLICATION,
        systems=SYSTEMS,
        plan=delays.plan_task.output,
        approved=ask.output,
    )
    delays >> ask >> publish

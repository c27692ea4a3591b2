"""A producer that fails, one that never comes, one that is held up, and the Dags that follow them."""

from airflow.sdk import DAG

from airflow_samza import SamzaTaskGroup

OF_DAY = "2013-01-01/P1D"

with DAG("failing_teller", schedule=None):
    SamzaTaskGroup(
        "departures",
        application="following:failing",
        systems={"data": "flights_data"},
        data_interval=OF_DAY,
        mode="pipelined",
    )

for dag_id, interval in (("follower_of_failing", OF_DAY), ("follower_of_none", "2013-02-01/P1D")):
    with DAG(dag_id, schedule=None):
        SamzaTaskGroup(
            "carriers",
            application="following:follower",
            systems={"warehouse": "flights_warehouse"},
            config={"job.state.lease.wait.ms": "600000" if interval == OF_DAY else "3000"},
            data_interval=interval,
            sections={"failed-departures": "failing-teller@interval"},
            mode="pipelined",
        )

with DAG("held_teller", schedule=None):
    SamzaTaskGroup(
        "departures",
        application="following:held",
        systems={"data": "flights_data"},
        data_interval=OF_DAY,
        mode="pipelined",
    )

with DAG("follower_of_held", schedule=None):
    SamzaTaskGroup(
        "carriers",
        application="following:follower_of_held",
        systems={"warehouse": "flights_warehouse"},
        data_interval=OF_DAY,
        sections={"held-departures": "held-teller@interval"},
        mode="pipelined",
    )

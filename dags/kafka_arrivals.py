"""New messages of a topic start a run, which reads all that came since the run before.

A watcher in the triggerer looks at the topic ``flights`` every five seconds. While a run is going, further messages
wait for one more run: each is read once, however many events there were. The Dag is paused until the connection
``flights_kafka`` (type kafka) names brokers with that topic; ``flights_warehouse`` (type fs) is where the results go.
"""

from airflow.sdk import DAG, AssetWatcher

from airflow_samza import SamzaTaskGroup
from airflow_samza.assets import kafka_topic
from airflow_samza.triggers import KafkaMessagesTrigger

FLIGHTS = kafka_topic(
    "flights",
    "broker:9092",
    watchers=[
        AssetWatcher(
            name="flights",
            trigger=KafkaMessagesTrigger(topic="flights", conn_id="flights_kafka", poll_interval=5),
        )
    ],
)

with DAG(
    "kafka_arrivals",
    schedule=[FLIGHTS],
    max_active_runs=1,
    is_paused_upon_creation=True,
    tags=["samza", "kafka"],
    doc_md=__doc__,
    default_args={"retries": 1},
):
    SamzaTaskGroup(
        group_id="arrivals",
        application="pipelines.kafka:arrivals",
        systems={"events": "flights_kafka", "warehouse": "flights_warehouse"},
        mode="fused",
    )

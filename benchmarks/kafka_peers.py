"""The peers of the Kafka benchmark."""

from __future__ import annotations

from benchmarks.peer_process import Peer

PEERS = (
    Peer(
        "spark",
        "Spark's Kafka source",
        "kafka_spark.py",
        jars=(
            "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
            "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
            "org.apache.kafka:kafka-clients:3.9.2",
            "org.apache.commons:commons-pool2:2.13.1",
            "org.apache.spark:spark-avro_2.13:4.2.0",
        ),
        arguments=("{cores}", "{folder}/out"),
    ),
    Peer(
        "flink",
        "PyFlink, Table API",
        "kafka_flink.py",
        packages=("apache-flink==2.2.1",),
        jars=(
            "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2",
            "org.apache.flink:flink-sql-avro:2.1.0",
        ),
        arguments=("{cores}", "{folder}/out"),
    ),
    Peer(
        "bytewax",
        "Bytewax, a process per core",
        "kafka_bytewax.py",
        packages=("bytewax[kafka]==0.21.1", "fastavro", "orjson"),
        arguments=("{cores}",),
        share=2,
    ),
    Peer(
        "quix",
        "Quix Streams, one process",
        "kafka_quix.py",
        packages=("quixstreams[avro]==3.28.1",),
        arguments=("{folder}/state",),
        share=20,
    ),
)

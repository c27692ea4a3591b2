"""The provider's description for Airflow: connection type and form, hooks, operators, configuration.

Airflow's components read this often, so it is plain data; the connection form is here and not in the hook (AIRFLOW's
``conn-fields``), which spares the API server an import of the hook.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from typing import Any

CONFIG_SECTION = "samza"

_TEXT = {"type": ["string", "null"]}
_OBJECT = {"type": ["object", "null"]}

_OF_SYSTEMS = {
    "delta": ("DeltaHook", "Delta tables"),
    "iceberg": ("IcebergHook", "Iceberg"),
    "jdbc": ("JdbcHook", "JDBC"),
    "kafka": ("KafkaHook", "Kafka"),
}
"""Classes and names of hooks by the connection types of systems that this package reads and other providers bring."""


def get_provider_info() -> dict[str, Any]:
    """Return the provider's description, in the form of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-samza",
        "name": "Samza",
        "description": "Streams and batches in one Dag: a stream application planned into stages, each stage a task "
        "on Spark.",
        "integrations": [
            {"integration-name": "Samza", "external-doc-url": "https://samza.apache.org/", "tags": ["apache"]},
        ],
        "operators": [
            {
                "integration-name": "Samza",
                "python-modules": [
                    "airflow_samza.operators",
                    "airflow_samza.provider.task_group",
                ],
            },
        ],
        "sensors": [{"integration-name": "Samza", "python-modules": ["airflow_samza.sensors"]}],
        "hooks": [{"integration-name": "Samza", "python-modules": ["airflow_samza.hooks"]}],
        "triggers": [{"integration-name": "Samza", "python-modules": ["airflow_samza.triggers"]}],
        "extra-links": [
            "airflow_samza.provider.links.SamzaPageLink",
            "airflow_samza.provider.links.RunnerLogLink",
            "airflow_samza.provider.links.SparkLink",
            "airflow_samza.provider.links.OutputLink",
            "airflow_samza.provider.links.EndedRunLink",
        ],
        "notifications": ["airflow_samza.provider.notifications.SamzaStopNotifier"],
        "task-decorators": [
            {"name": "samza_stream", "class-name": "airflow_samza.provider.decorators.samza_stream_task"},
            {"name": "samza_push", "class-name": "airflow_samza.provider.decorators.samza_push_task"},
        ],
        "asset-uris": [
            {"schemes": ["samza"], "handler": None},
            {"schemes": ["kafka"], "handler": "airflow_samza.provider.kafka_assets.sanitize_uri"},
        ],
        "connection-types": [
            _samza_connection(),
            *(
                {
                    "connection-type": kind,
                    "hook-class-name": f"airflow_samza.provider.hooks.connection_types.{hook}",
                    "hook-name": name,
                }
                for kind, (hook, name) in _OF_SYSTEMS.items()
                if kind not in _types_of_others()
            ),
        ],
        "config": {
            CONFIG_SECTION: {
                "description": "Settings of the airflow-samza provider.",
                "options": {
                    "poll_interval": {
                        "description": "Seconds between two checks of a stage's state by its task. A stage that has "
                        "just begun is checked more often.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "5",
                        "default": "1",
                    },
                    "progress_interval": {
                        "description": "Seconds between two reports of a stage's progress, in the task's log "
                        "and as metrics.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "300",
                        "default": "30",
                    },
                    "fuse_below": {
                        "description": 'Bytes of all inputs together up to which mode="auto" '
                        "runs all stages in one task.",
                        "version_added": "0.1.0",
                        "type": "integer",
                        "example": "1073741824",
                        "default": "67108864",
                    },
                    "page_samples": {
                        "description": "If true, the page in Airflow shows messages of topics and samples "
                        "of bad records.",
                        "version_added": "0.1.0",
                        "type": "boolean",
                        "example": "False",
                        "default": "True",
                    },
                    "page_masked_columns": {
                        "description": "Columns whose values the page in Airflow never shows: names or patterns, "
                        "with commas between them. Exceptions of tasks and lineage events then leave out what may "
                        "quote a message.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "*email*,card_number",
                        "default": "",
                    },
                    "keep_topics_after_success": {
                        "description": "Hours for which the intermediate topics of a run are kept "
                        "after it has succeeded.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "1",
                        "default": "24",
                    },
                    "keep_topics_after_failure": {
                        "description": "Hours for which the intermediate topics of a failed run are kept, so that it "
                        "can be cleared and resumed.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "720",
                        "default": "168",
                    },
                    "keep_runs": {
                        "description": "Number of runs of each application that stay on record. Older ones are "
                        "deleted with their topics, except those that are open or still needed.",
                        "version_added": "0.1.0",
                        "type": "integer",
                        "example": "500",
                        "default": "100",
                    },
                    "keep_runs_days": {
                        "description": "Days for which a run stays on record. An older one is deleted with its "
                        "topics, unless it is open or still needed.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "90",
                        "default": "30",
                    },
                    "driver_start_timeout": {
                        "description": "Seconds within which a driver that spark-submit starts in a cluster has to "
                        "report. In a full cluster it waits for room.",
                        "version_added": "0.1.0",
                        "type": "float",
                        "example": "1800",
                        "default": "600",
                    },
                    "class_archives": {
                        "description": "Folder of the worker's host for archives of Spark's classes, with which a "
                        "local Spark starts faster. The first runner has one made when it ends. Whoever can "
                        "write there can run code. Empty: none.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/var/lib/airflow/class-archives",
                        "default": "",
                    },
                    "warm_runners": {
                        "description": "Number of local Sparks that stay on a worker's host for the next run of the "
                        "same connection, root and environment, as far as memory allows. Bounds may follow: idle "
                        "(seconds without a run), runs, age (seconds since the start), memory (MiB). "
                        "off, 0 or empty: none.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "2,idle=600,runs=50,age=21600,memory=4096",
                        "default": "2",
                    },
                },
            }
        },
    }


@cache
def _types_of_others() -> frozenset[str]:
    """Return the connection types that other installed providers bring.

    Of two providers of one type Airflow takes the first by the alphabet, and this one stands before Airflow's own.
    """
    types: set[str] = set()
    for entry in entry_points(group="apache_airflow_provider"):
        if entry.value != f"{__name__}:{get_provider_info.__name__}":
            with suppress(Exception):  # it is broken, which Airflow says when it reads that one
                types |= {kind["connection-type"] for kind in entry.load()().get("connection-types", ())}
    return frozenset(types)


def _samza_connection() -> dict[str, Any]:
    return {
        "connection-type": "samza",
        "hook-class-name": "airflow_samza.provider.hooks.samza.SamzaHook",
        "hook-name": "Samza",
        "ui-field-behaviour": {
            "hidden-fields": ["host", "schema", "login", "password", "port", "extra"],
            "relabeling": {},
            "placeholders": {
                "root": "/data/samza",
                "root_conn_id": "aws_default",
                "default_system": "log",
                "spark_conn_id": "spark_default",
            },
        },
        "conn-fields": {
            "root": {
                "label": "Root",
                "description": "Folder of topics and run records, under this path on Airflow's workers and on "
                "Spark's hosts, or a URL such as s3://bucket/samza.",
                "schema": dict(_TEXT),
            },
            "root_conn_id": {
                "label": "Root connection",
                "description": "Connection of type aws, google_cloud_platform or wasb that opens a root on an object "
                "store. Without it the environment or the host's role opens it.",
                "schema": dict(_TEXT),
            },
            "default_system": {
                "label": "Default system",
                "description": "System of streams that name none, if the application has no default system of its "
                "own. Without it: log, the log under the root.",
                "schema": dict(_TEXT),
            },
            "spark_conn_id": {
                "label": "Spark connection",
                "description": "Connection of type spark (local, standalone, YARN, Kubernetes) or spark_connect. "
                "Without it stages run on the worker's host, on local[*].",
                "schema": dict(_TEXT),
            },
            "spark_conf": {
                "label": "Spark configuration",
                "description": 'Spark settings as a JSON object, for example {"spark.driver.memory": "4g"}.',
                "schema": dict(_OBJECT),
            },
            "runner_python": {
                "label": "Python of stage runners",
                "description": "Python program of another environment, which runs stage runners and their Python "
                "workers: a path on the worker's host, in deploy mode cluster on the cluster's hosts. Without it "
                "Airflow's own Python does.",
                "schema": dict(_TEXT),
            },
            "runners_outlive_tasks": {
                "label": "Runners outlive tasks",
                "description": "If true, a process that a task leaves on its worker's host lives on, as deferrable "
                "tasks need. Without it: true, unless the executor gives each task a container (Kubernetes, ECS, "
                "Batch, Lambda).",
                "schema": {"type": ["boolean", "null"]},
            },
        },
    }

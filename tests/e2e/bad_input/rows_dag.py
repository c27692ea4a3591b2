"""Rows of what a Dag file and its tasks say: modes, deferring, producers, drains."""

from __future__ import annotations

from datetime import datetime
from types import SimpleNamespace
from typing import Any

from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, OUT, VIEWS, Scene, raised

PARSE = "when the Dag file is read"


def _home(scene: Scene) -> None:
    """A home for Airflow outside the user's own, should it not be loaded yet."""
    scene.monkeypatch.setenv("AIRFLOW_HOME", str(scene.folder / "airflow"))
    scene.monkeypatch.setenv("AIRFLOW__CORE__LOAD_EXAMPLES", "False")


def _group(scene: Scene, **given: Any) -> str:
    _home(scene)
    from airflow.sdk import DAG

    from airflow_samza.provider.task_group import SamzaTaskGroup

    scene.application(f'{VIEWS}.partition_by("country", id="by-country").send_to({OUT})')
    with DAG("page_views", schedule=None):
        return raised(lambda: SamzaTaskGroup("views", application=APPLICATION, **given))


@row("dag", "A mode that does not exist", PARSE)
def _(scene: Scene) -> str:
    return _group(scene, mode="streaming")


@row("dag", 'A stage with the name of a task of mode="auto"', PARSE)
def _(scene: Scene) -> str:
    _home(scene)
    from airflow.sdk import DAG

    from airflow_samza.provider.task_group import SamzaTaskGroup

    scene.application(f'{VIEWS}.partition_by("country", id="run").send_to({OUT})')
    with DAG("page_views", schedule=None):
        return raised(lambda: SamzaTaskGroup("views", application=APPLICATION, mode="auto"))


@row("dag", "A task group that is mapped like an operator", PARSE)
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.task_group import SamzaTaskGroup

    return raised(lambda: SamzaTaskGroup.partial(application=APPLICATION))


@row("dag", "run_for= of a run that ends by itself", PARSE)
def _(scene: Scene) -> str:
    return _group(scene, mode="pipelined", run_for="1 hour")


@row("dag", "Settings for a stage that the application does not have", PARSE)
def _(scene: Scene) -> str:
    return _group(scene, stages={"by-contry": {"pool": "big"}})


@row("dag", 'stages= with mode="fused"', PARSE)
def _(scene: Scene) -> str:
    return _group(scene, mode="fused", stages={"by-country": {"pool": "big"}})


@row("dag", "conn_id and samza_conn_id with two values", PARSE)
def _(scene: Scene) -> str:
    return _group(scene, conn_id="samza_us", samza_conn_id="samza_eu")


@row("dag", "A decorated function that uses names of the Dag file", PARSE)
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.decorators import FunctionModule

    def page_views(app: Any) -> None:
        app.input_stream(PARSE)

    return raised(lambda: FunctionModule.of(page_views, "@task.samza_stream", "app"))


@row("dag", "poll_interval= of 0", PARSE)
def _(scene: Scene) -> str:
    return _group(scene, poll_interval=0)


@row("dag", "[samza] poll_interval = 0 in Airflow's configuration", PARSE)
def _(scene: Scene) -> str:
    scene.monkeypatch.setenv("AIRFLOW__SAMZA__POLL_INTERVAL", "0")
    return _group(scene)


@row("dag", "[samza] keep_topics_after_success = inf in Airflow's configuration", PARSE)
def _(scene: Scene) -> str:
    scene.monkeypatch.setenv("AIRFLOW__SAMZA__KEEP_TOPICS_AFTER_SUCCESS", "inf")
    return _group(scene)


@row("dag", "keep_runs= of less than no runs", PARSE)
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.operators.retention import SamzaRetentionOperator

    return raised(lambda: SamzaRetentionOperator(task_id="sweep", keep_runs=-1))


@row("dag", "partition_key= in an Airflow without partitions of asset events", PARSE)
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider import airflow_versions
    from airflow_samza.provider.operators.table_push import SamzaTablePushOperator

    scene.monkeypatch.setattr(airflow_versions, "events_take_partitions", lambda: False)
    scene.monkeypatch.setattr(airflow_versions, "airflow_version", lambda: "3.2.2")
    given: dict[str, Any] = {
        "application": APPLICATION,
        "table": "tiers",
        "source": "/in",
        "partition_key": "2026-01-01",
    }
    return raised(lambda: SamzaTablePushOperator(task_id="push", **given))


@row("dag", "A partition key of another day than its partition date, in the zone of the Dag", "when the run is planned")
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.run_identity import interval_of

    midnight = datetime.fromisoformat("2025-12-31T15:00:00+00:00")  # in Tokyo
    dag = SimpleNamespace(timezone="UTC")
    return raised(lambda: interval_of({"partition_key": "2026-01-01", "partition_date": midnight, "dag": dag}))


@row("dag", "Deferring where the stage runner ends with the task", "when the run is planned, else when the task starts")
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.deferral import reject_short_lived

    connection = SimpleNamespace(extra="")
    return raised(
        lambda: reject_short_lived("views.by-country", "samza_default", connection, "KubernetesExecutor", False)
    )


@row("dag", "A root on the disk of a task's container", "when the run is planned")
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider import containers

    scene.monkeypatch.setattr(containers, "_own_disk", lambda root: "overlay")
    why = "the KubernetesExecutor ends a task's container with the task"
    return raised(lambda: containers.reject_own_disk("samza_default", "/tmp/samza", why))


@row("dag", "A triggerer that does not see the root", "when the task is back, after five minutes")
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.deferral import NOT_SEEN, raise_what_the_trigger_met

    why = (
        "the triggerer on trigger-1 cannot read the run under /samza: The run record "
        "/samza/runs/page-views/run-1/plan/1.json is missing."
    )
    return raised(lambda: raise_what_the_trigger_met({NOT_SEEN: why}, "views.by-country"))


@row("dag", "A producer that failed for good, in a pipelined run", "by its consumers' tasks")
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.producer_tasks import producer_failed

    def fail() -> None:
        raise producer_failed("by-country", SimpleNamespace(run_id="run-1"), "views")  # type: ignore[arg-type]

    return raised(fail)


@row("dag", "A drain where no run is running", "by the task")
def _(scene: Scene) -> str:
    _home(scene)
    from airflow_samza.provider.hooks.samza import SamzaHook
    from airflow_samza.provider.operators.drain import SamzaDrainOperator
    from airflow_samza.systems.filesystems.root_access import NO_ACCESS

    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.monkeypatch.setattr(SamzaHook, "root", str(scene.folder / "samza"))
    scene.monkeypatch.setattr(SamzaHook, "access", NO_ACCESS)
    operator = SamzaDrainOperator(task_id="drain", application=APPLICATION)
    try:
        operator.execute({})
    except Exception as error:  # Airflow's, which says what ours says
        return str(error)
    raise AssertionError("it was not rejected")

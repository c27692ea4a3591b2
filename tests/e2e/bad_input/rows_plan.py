"""Rows that the plan step says of the application and its systems, before anything runs."""

from __future__ import annotations

from types import SimpleNamespace

from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.connections.bindings import binding_of
from airflow_samza.runs.records.data_interval import DataInterval
from tests.e2e.bad_input.page import row
from tests.e2e.bad_input.scene import APPLICATION, HEAD, MODULE, OUT, VIEWS, Scene, raised

PLAN = "by `plan`"


@row("plan", "An unknown system", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="laek", schema=View).send_to({OUT})')
    return scene.plan()


@row("plan", "An unknown kind of system", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.systems["lake"] = "parquet:/data"
    return scene.plan()


@row("plan", "A system in memory, for a real run", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.systems["lake"] = "memory"
    return scene.plan()


@row("plan", "A connection of a type that holds no streams", PLAN)
def _(scene: Scene) -> str:
    connection = SimpleNamespace(conn_type="postgres", extra=None)
    return raised(lambda: binding_of("lake", "my_db", connection, lambda _: connection))


@row("plan", "A connection of a system that is not defined", PLAN)
def _(scene: Scene) -> str:
    from airflow_samza.provider.airflow_versions import AirflowNotFoundException
    from airflow_samza.provider.hooks.samza import SamzaHook

    def missing(conn_id: str) -> None:
        raise AirflowNotFoundException(conn_id)

    scene.application('app.system("lake", kind="files")', f"{VIEWS}.send_to({OUT})")
    scene.monkeypatch.setattr(SamzaHook, "get_connection", staticmethod(missing))
    scene.monkeypatch.setenv("AIRFLOW_CONN_MY_LAKE", "fs:///data")
    hook = SamzaHook(systems={"lake": "my_laek"})
    hook.application = APPLICATION
    return raised(hook.bindings)


@row("plan", "A connection without a path", PLAN)
def _(scene: Scene) -> str:
    connection = SimpleNamespace(conn_type="fs", extra=None)
    return raised(lambda: binding_of("lake", "my_lake", connection, lambda _: connection))


@row("plan", "An unknown stream (no topic of that name)", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("page-veiws", system="log").send_to({OUT})')
    return scene.plan()


@row("plan", "A root on storage that cannot hold one", PLAN)
def _(scene: Scene) -> str:
    from airflow_samza.launch.runtime import SparkRuntime

    return raised(lambda: SparkRuntime("ftp://host/samza"))


@row("plan", "A user in the URL of a root on HDFS", PLAN)
def _(scene: Scene) -> str:
    from airflow_samza.launch.runtime import SparkRuntime

    return raised(lambda: SparkRuntime("webhdfs://jo:hunter2@namenode:9870/samza"))


@row("plan", "Copies of an input without an end, without within=", PLAN)
def _(scene: Scene) -> str:
    views = VIEWS.replace("partitions=2", 'partitions=1, timestamp="dwell_ms", bounded=False')
    scene.application(f'{views}.distinct("member_id", id="once").send_to({OUT})')
    return scene.plan()


@row("plan", "Partition counts that differ in a join, all conflicts at once", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'schema = "member_id bigint, n bigint"',
        *(
            f'{name} = app.input_stream("{name}", system="lake", schema=schema, key="member_id", partitions={count})'
            for name, count in (("views", 4), ("clicks", 6), ("likes", 8))
        ),
        'views.join(clicks, lambda view, click: view, id="clicked", ttl="1 hour").send_to(app.output_stream("a"))',
        'views.join(likes, lambda view, like: view, id="liked", ttl="1 hour").send_to(app.output_stream("b"))',
    )
    for name in ("views", "clicks", "likes"):
        scene.write(f"data/{name}/1.jsonl", '{"member_id": 7, "n": 1}')
    return scene.plan()


@row("plan", "An input without a key in a join", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        f"views = {VIEWS}",
        'tiers = app.local_table("tiers", key="member_id", schema="member_id bigint, tier string")',
        'members = app.input_stream("members", system="lake", schema="member_id bigint, tier string", partitions=2)',
        'members.partition_by("member_id", id="members-by-id").send_to(tiers)',
        f'views.join(tiers, id="with-tier").send_to({OUT})',
    )
    scene.views()
    scene.write("data/members/1.jsonl", '{"member_id": 7, "tier": "gold"}')
    return scene.plan()


@row("plan", "An aggregation whose keys lie in several partitions", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.aggregate("country", views=count(), id="per-country").send_to({OUT})')
    scene.views()
    return scene.plan()


@row("plan", "A window by an event time that an expression has made", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'events = app.input_stream("events", system="lake", schema="country string, at timestamp", timestamp="at")',
        'days = events.select("country", "date_trunc(\'day\', at) AS at")',
        f'days.window(tumbling("1 day"), id="days", views=count()).send_to({OUT})',
    )
    return scene.plan()


@row("plan", "Join keys of different types", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        'tiers = app.local_table("tiers", key="member_id", schema="member_id string, tier string")',
        'members = app.input_stream("members", system="lake", schema="member_id string, tier string")',
        'members.partition_by("member_id", id="members-by-id").send_to(tiers)',
        f'{VIEWS}.partition_by("member_id", id="by-id").join(tiers, id="with-tier").send_to({OUT})',
    )
    scene.views()
    scene.write("data/members/1.jsonl", '{"member_id": "7", "tier": "gold"}')
    return scene.plan()


@row("plan", "An invalid partition count", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.partition_by("country", id="by-country").send_to({OUT})')
    scene.views()
    return scene.plan("--config", "job.intermediate.stream.partitions=0")


@row("plan", "A mode of the application that does not exist", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    return scene.plan("--config", "app.mode=SOMETIMES")


@row("plan", "Standby copies without host affinity", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.partition_by("country", id="by-country").send_to({OUT})')
    scene.views()
    return scene.plan(
        "--config", "job.host-affinity.enabled=false", "--config", "job.standbytasks.replication.factor=2"
    )


@row("plan", "A column that does not exist in an SQL expression", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"views = {VIEWS}", 'slow = views.where("dwel_ms > 1000")', f"slow.send_to({OUT})")
    scene.views()
    return scene.plan()


@row("plan", "SQL of another type than is needed", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'{VIEWS}.where("dwell_ms + 1").send_to({OUT})')
    scene.views()
    return scene.plan()


@row("plan", "No data interval where a path needs one", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{ds}}").send_to({OUT})')
    return scene.plan()


@row("plan", "A partition key that names no data interval, where one is needed", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{ds}}").send_to({OUT})')
    return scene.plan("--partition-key", "europe")


@row("plan", "A partition key that is the beginning of a data interval, where its end is needed", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{ds}}").send_to({OUT})')
    return scene.plan("--partition-key", "2026-01-01T00:00:00")


@row("plan", "A path with a partition key, in a run that has none", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{partition_key}}").send_to({OUT})')
    return scene.plan()


@row("plan", "A data interval whose length is none", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{ds}}").send_to({OUT})')
    return scene.plan("--interval", "2026-01-01/P1X")


@row("plan", "An empty data interval", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{ds}}").send_to({OUT})')
    return scene.prepare(interval=DataInterval.from_iso("2026-01-01", "2026-01-01"))


@row("plan", "A data interval that ends before it starts", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="{{ds}}").send_to({OUT})')
    return scene.plan("--interval", "2026-01-02/2026-01-01")


@row("plan", "A value in a path that is not a plain name", PLAN)
def _(scene: Scene) -> str:
    scene.application(
        f'app.input_stream("views", system="lake", schema=View, path="views/{{config[day]}}").send_to({OUT})'
    )
    return scene.plan("--config", "day=../secret")


@row("plan", "A path that leads out of its system's root", PLAN)
def _(scene: Scene) -> str:
    scene.application(f'app.input_stream("views", system="lake", schema=View, path="../secret").send_to({OUT})')
    return scene.plan()


@row("plan", "A run id that another copy of the application has", PLAN)
def _(scene: Scene) -> str:
    line = f"    {VIEWS}.send_to({OUT})"
    scene.views()
    scene.application(*HEAD.splitlines(), line)
    scene.runtime().prepare(RunRequest(APPLICATION, "run-1"))
    scene.application(*HEAD.replace('("page-views")', '("page-views", app_id="eu")').splitlines(), line)
    return scene.prepare()


@row("plan", "A run id that another application of the same name has", PLAN)
def _(scene: Scene) -> str:
    scene.views()
    scene.application(f"{VIEWS}.where(\"country = 'NL'\").send_to({OUT})")
    (scene.folder / "dags" / f"{MODULE}.py").rename(scene.folder / "dags" / "views_of_nl.py")
    scene.runtime().prepare(RunRequest("views_of_nl:page_views", "run-1"))
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.command("run", APPLICATION, "--run-id", "run-1")


@row("plan", "A Spark setting that stages cannot run with", PLAN)
def _(scene: Scene) -> str:
    return raised(lambda: scene.runtime(spark_conf={"spark.sql.ansi.enabled": "false"}))


@row(
    "plan",
    "The application changed since the run was planned",
    "by `plan`, the task of a stage, or `airflow-samza run`",
)
def _(scene: Scene) -> str:
    stage = '.partition_by("country", id="by-country").aggregate("country", id="totals", ms={}).send_to({})'
    scene.application(VIEWS + stage.format("sum_('dwell_ms')", OUT))
    scene.views()
    scene.runtime().prepare(RunRequest(APPLICATION, "run-1"))
    scene.application(VIEWS + stage.format("max_('dwell_ms')", OUT))
    return scene.command("run", APPLICATION, "--run-id", "run-1")


@row("plan", "A stage that the plan does not have", PLAN)
def _(scene: Scene) -> str:
    from airflow_samza.application.loader import load_application
    from airflow_samza.planner.planner import plan_shape

    scene.application(f'{VIEWS}.partition_by("country", id="by-country").send_to({OUT})')
    scene.runtime()
    return raised(lambda: plan_shape(load_application(APPLICATION).spec()).stage("by-contry"))


@row("plan", "A run is resumed with other options than it was planned with", "by `airflow-samza run`")
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    scene.runtime().prepare(RunRequest(APPLICATION, "run-1", config={"day": "1"}))
    return scene.command("run", APPLICATION, "--run-id", "run-1", "--config", "day=2")


@row("plan", "A run id that is empty", "by `airflow-samza run`")
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    return scene.command("run", APPLICATION, "--run-id", "")


@row("plan", "state_from= of an application without state", PLAN)
def _(scene: Scene) -> str:
    scene.application(f"{VIEWS}.send_to({OUT})")
    scene.views()
    return scene.prepare(state_from="monday")


@row("plan", "A Spark setting that does not begin with spark.", PLAN)
def _(scene: Scene) -> str:
    return raised(lambda: scene.runtime(spark_conf={"master": "local[2]"}))

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError, SamzaError
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.launch.warm.settings import DEFAULT, VARIABLE
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.provider.airflow_versions import AirflowNotFoundException
from airflow_samza.provider.connections.spark import SparkPlace
from airflow_samza.provider.hooks.samza import SamzaHook
from airflow_samza.provider.operators.planning import SamzaPlanOperator
from demo.store_servers import BUCKET, S3Server
from tests.support.changing_modules import ChangingModules
from tests.support.faulty_store import FaultyStore
from tests.support.second_environment import make_environment


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Connection]:
    """Connections by id, in the place of Airflow's; ``samza_default`` is there."""
    known: dict[str, Connection] = {}

    def get(conn_id: str) -> Connection:
        if conn_id not in known:
            raise AirflowNotFoundException(conn_id)
        return known[conn_id]

    monkeypatch.setattr(SamzaHook, "get_connection", staticmethod(get))
    add(known, "samza_default", "samza", root=str(tmp_path))
    return known


def add(known: dict[str, Connection], conn_id: str, kind: str, host: str | None = None, **extra: Any) -> None:
    known[conn_id] = Connection(conn_id=conn_id, conn_type=kind, host=host, extra=json.dumps(extra))


def test_the_hook_gives_a_runtime_under_the_connections_root(connections: Any) -> None:
    hook = SamzaHook()
    assert isinstance(hook.get_conn(), SparkRuntime)
    assert hook.get_conn() is hook.get_conn()


@pytest.mark.parametrize(("said", "found"), [("/var/archives", "/var/archives"), ("", None)])
def test_the_folder_for_archives_of_classes_is_airflows_setting(
    connections: Any, monkeypatch: pytest.MonkeyPatch, said: str, found: str | None
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow_samza.launch.runtime.SparkRuntime", lambda *positional, **options: given.update(options)
    )
    monkeypatch.setenv("AIRFLOW__SAMZA__CLASS_ARCHIVES", said)
    SamzaHook().get_conn()
    assert given["class_archives"] == found


@pytest.mark.parametrize(
    ("operators", "connections_", "found"),
    [(None, None, ""), (None, "/a/python", "/a/python"), ("/b/python", "/a/python", "/b/python"), ("", "", "")],
)
def test_the_python_of_runners_is_the_operators_before_the_connections(
    connections: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operators: str, connections_: str, found: str
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow_samza.launch.runtime.SparkRuntime", lambda *positional, **options: given.update(options)
    )
    add(connections, "samza_default", "samza", root=str(tmp_path), runner_python=connections_)
    SamzaHook(runner_python=operators).get_conn()
    assert given["runner_python"] == found


def test_the_test_of_a_connection_runs_the_python_of_runners(connections: Any, tmp_path: Path) -> None:
    python = make_environment(tmp_path / "environment")
    add(connections, "samza_default", "samza", root=str(tmp_path), runner_python=str(python))
    fine, text = SamzaHook().test_connection()
    assert fine, text
    assert re.search(rf"stages run on local\[\*\], by Python [\d.]+ at {python}\.$", text)
    add(connections, "samza_default", "samza", root=str(tmp_path), runner_python="/no/python")
    assert SamzaHook().test_connection()[1].startswith("There is no Python at /no/python, which runner_python names.")


@pytest.mark.parametrize(("said", "found"), [("2,idle=60", "2,idle=60"), ("", ""), (None, DEFAULT)])
def test_warm_runners_are_airflows_setting_and_those_of_one_connection(
    connections: Any, monkeypatch: pytest.MonkeyPatch, said: str | None, found: str
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(
        "airflow_samza.launch.runtime.SparkRuntime", lambda *positional, **options: given.update(options)
    )
    monkeypatch.delenv(VARIABLE)
    if said is not None:
        monkeypatch.setenv(VARIABLE, said)
    SamzaHook().get_conn()
    assert (given["warm_runners"], given["tenant"]) == (found, "samza_default")


def test_a_connection_that_is_not_defined_is_named_with_the_command_that_defines_it(connections: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"'prod_samza' is not defined(.|\n)*airflow connections add prod_samza --conn-type samza"
    ):
        SamzaHook("prod_samza").get_conn()
    with pytest.raises(ConfigError, match="'nowhere' is not defined"):
        SamzaHook(systems={"logs": "nowhere"}).get_conn()


def test_systems_are_bound_by_their_connections(connections: Any) -> None:
    add(connections, "in", "fs", path="/in")
    add(connections, "logs", "samza", root="/log")
    bound = SamzaHook(systems={"data": "in", "log": "logs"}).bindings()
    assert {name: (binding.kind, binding.options["root"]) for name, binding in bound.items()} == {
        "data": ("files", "/in"),
        "log": ("log", "/log"),
    }


def test_the_button_in_the_form_says_where_stages_run(connections: Any) -> None:
    assert SamzaHook().test_connection() == (True, "The root can be used, and stages run on local[*].")


def test_the_button_in_the_form_says_what_is_wrong(connections: Any) -> None:
    add(connections, "samza_default", "samza")
    working, told = SamzaHook().test_connection()
    assert not working
    assert "has no root" in told


def test_the_button_in_the_form_asks_the_bucket_with_the_connection_that_opens_it(
    connections: Any, s3: S3Server
) -> None:
    add(connections, "store", "aws", endpoint_url=s3.endpoint, aws_access_key_id="key", aws_secret_access_key="hush")
    for bucket, works in ((BUCKET, True), ("no-such-bucket", False)):
        add(connections, "samza_default", "samza", root=s3.url("hooks", bucket), root_conn_id="store")
        found, told = SamzaHook().test_connection()
        assert found is works
        assert ("there is no bucket 'no-such-bucket'" in told) is not works
        assert "hush" not in told
        assert SamzaHook().place_of_root == {"root": s3.url("hooks", bucket), "conn_id": "samza_default"}


def test_the_button_in_the_form_asks_the_bucket_each_time(connections: Any, s3: S3Server) -> None:
    with FaultyStore(s3.endpoint) as store:
        add(
            connections, "store", "aws", endpoint_url=store.endpoint, aws_access_key_id="key", aws_secret_access_key="-"
        )
        add(connections, "samza_default", "samza", root=s3.url("each-time"), root_conn_id="store")
        assert SamzaHook().test_connection()[0]
        store.fault = lambda asked: "denied" if asked.method == "PUT" else None
        working, told = SamzaHook().test_connection()
    assert not working
    assert "create objects" in told


@pytest.mark.parametrize(("mode", "rejected"), [("client", True), ("cluster", False)])
def test_a_driver_in_the_cluster_outlives_any_task(
    connections: Any, monkeypatch: pytest.MonkeyPatch, mode: str, rejected: bool
) -> None:
    place = SparkPlace("spark://spark:7077", SubmitOptions(mode, "", 600.0))
    monkeypatch.setattr(SamzaHook, "spark_place", lambda self: place)
    with pytest.raises(ConfigError, match="would end with the task") if rejected else nullcontext():
        SamzaHook().reject_short_lived("views", "KubernetesExecutor")


@pytest.mark.parametrize(
    ("executor", "deploy_mode", "own"),
    [
        ("LocalExecutor", "client", False),
        ("KubernetesExecutor", "client", True),
        ("KubernetesExecutor", "cluster", False),
    ],
)
def test_a_runner_that_ends_with_its_task_is_the_tasks_own(
    connections: Any, monkeypatch: pytest.MonkeyPatch, executor: str, deploy_mode: str, own: bool
) -> None:
    """Two tasks ask, each in a process of its own: they get one runner only where it outlives the first."""
    monkeypatch.setattr(
        SamzaHook, "spark_place", lambda self: SparkPlace("spark://spark:7077", SubmitOptions(deploy_mode, "", 600.0))
    )
    owners = []
    for process in (101, 102):
        monkeypatch.setattr("airflow_samza.provider.hooks.runtime.os.getpid", lambda number=process: number)
        given: dict[str, Any] = {}
        monkeypatch.setattr(
            "airflow_samza.launch.runtime.SparkRuntime", lambda *_, given=given, **options: given.update(options)
        )
        SamzaHook(executor=executor).get_conn()
        owners.append(given["owner"])
    keys = {RunnerSettings("/samza", {}, owner=owner).key for owner in owners}
    assert len(keys) == (2 if own else 1)


@pytest.mark.parametrize("conf", ['{"spark.x"', [1]])
def test_spark_settings_that_are_none_are_rejected(connections: Any, conf: Any) -> None:
    with pytest.raises(SamzaError, match="spark_conf is not a mapping"):
        SamzaHook(spark_conf=conf)


@pytest.fixture
def declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    ChangingModules(tmp_path, monkeypatch).write(
        "declaring_app",
        """
from airflow_samza import stream_application

@stream_application("declaring")
def app(app):
    app.system("lake", kind="files")
    app.system("events", kind="kafka")
    app.system("house", kind="spark")
    app.input_stream("in", system="lake", schema="n int").send_to(app.output_stream("out", system="anything"))
""",
    )
    return "declaring_app:app"


@pytest.mark.parametrize(
    ("system", "command"),
    [
        ("lake", """airflow connections add nowhere --conn-type fs --conn-extra '{"path": "/data"}'."""),
        (
            "events",
            """airflow connections add nowhere --conn-type kafka --conn-extra '{"bootstrap.servers": "broker:9092"}'.""",
        ),
        ("house", "(spark_sql or jdbc), for example: airflow connections add nowhere --conn-type spark_sql."),
        ("log", "--conn-type samza"),
    ],
)
def test_a_connection_of_a_system_that_is_not_defined_is_named_with_the_type_of_the_declared_kind(
    connections: Any, declared: str, system: str, command: str
) -> None:
    hook = SamzaHook(systems={system: "nowhere"})
    with pytest.raises(ConfigError) as raised:
        hook.plan(declared, run_id="r1")
    error = raised.value
    assert error.sentence == f"The connection 'nowhere' is not defined, by which the system {system!r} is bound."
    assert error.hint.startswith("Define it")
    assert command in error.hint
    assert system == "log" or "samza" not in error.hint


def test_a_connection_of_a_system_of_no_declared_kind_is_named_with_all_types_that_can_bind_it(
    connections: Any, declared: str
) -> None:
    for hook in (SamzaHook(systems={"anything": "nowhere"}), SamzaHook(systems={"lake": "nowhere"})):
        with pytest.raises(ConfigError, match=r"by which the system '(anything|lake)' is bound") as raised:
            hook.bindings()
        assert "samza (a log under a root), fs (files under a path), kafka (topics)" in raised.value.hint


def test_what_an_operator_binds_is_told_by_the_kinds_of_its_application(connections: Any, declared: str) -> None:
    plan = SamzaPlanOperator(task_id="plan", application=declared, systems={"lake": "nowhere"})
    with pytest.raises(ConfigError, match=r"(?s)the system 'lake' is bound.*--conn-type fs"):
        plan.hook.bindings()


def test_a_connection_that_is_near_the_one_that_is_not_defined_is_named(
    connections: Any, declared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LANDING_FILES", "fs:///data")
    with pytest.raises(ConfigError, match=r"(?s)'landing_file'.*Did you mean 'landing_files'\? Define it"):
        SamzaHook(systems={"lake": "landing_file"}).bindings()
    add(connections, "lake_default", "fs", path="/in")
    with pytest.raises(ConfigError, match=r"(?s)'lake_defualt'.*Did you mean 'lake_default'\?"):
        SamzaHook(systems={"lake": "lake_defualt"}).bindings()


def test_other_connections_that_are_not_defined_are_named_with_their_own_types(connections: Any) -> None:
    add(connections, "samza_default", "samza", root="s3://bucket/root", root_conn_id="no_store")
    with pytest.raises(ConfigError, match=r"(?s)'no_store' is not defined.*--conn-type aws"):
        _ = SamzaHook().access
    add(connections, "samza_default", "samza", root="/data", spark_conn_id="no_spark")
    with pytest.raises(ConfigError, match=r"(?s)'no_spark' is not defined.*spark or spark_connect.*--conn-type spark "):
        SamzaHook().spark_place()
    with pytest.raises(ConfigError, match=r"(?s)'no_database' is not defined.*--conn-type jdbc "):
        SamzaHook().source_url("no_database")


@pytest.mark.parametrize("opens", [lambda hook: hook.files, lambda hook: hook.get_conn()], ids=["records", "runtime"])
def test_a_connection_that_opens_a_root_on_no_object_store_is_rejected_by_whatever_opens_it(
    connections: Any, tmp_path: Path, opens: Callable[[SamzaHook], object]
) -> None:
    add(connections, "samza_default", "samza", root=str(tmp_path), root_conn_id="no_store")
    with pytest.raises(ConfigError, match=r"'no_store' as its root_conn_id, and its root .* is on no object store"):
        opens(SamzaHook())


def test_the_hook_plans_with_every_option_of_a_request() -> None:
    # It never waits, only a task knows the bundle of its Dag, and what is compared is asked for by request_to_compare.
    asked = {option.name for option in dataclasses.fields(RunRequest)} - {"wait_seconds", "bundle", "compares"}
    assert asked <= set(inspect.signature(SamzaHook.plan).parameters)

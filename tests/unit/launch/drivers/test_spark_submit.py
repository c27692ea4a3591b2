"""The command line and settings of spark-submit, for each kind of cluster; Kubernetes is held by these alone."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError, RuntimeMissing, StageFailed
from airflow_samza.launch.drivers.spark_submit import (
    check_hadoop_conf,
    cluster_conf,
    find_spark_submit,
    leave_properties,
    own_address,
    reach_master,
    submit_command,
    with_package,
)
from airflow_samza.launch.masters import SubmitOptions, parse_master

PACKAGE = "/shared/code/airflow_samza-1.zip"


def command_for(url: str, deploy_mode: str) -> list[str]:
    return submit_command(
        parse_master(url),
        SubmitOptions(deploy_mode),
        name="airflow_samza views run-1",
        properties="/shared/spark.conf",
        driver="/shared/driver.py",
        arguments=["/shared", "views"],
    )


def test_the_spark_submit_is_that_of_the_installed_pyspark() -> None:
    assert Path(find_spark_submit("")).parts[-3:] == ("pyspark", "bin", "spark-submit")


def test_a_spark_submit_that_is_named_is_looked_for_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "spark3-submit"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_spark_submit("spark3-submit") == str(program)
    assert find_spark_submit(str(program)) == str(program)
    with pytest.raises(RuntimeMissing, match="There is no spark-submit named 'spark2-submit' on PATH"):
        find_spark_submit("spark2-submit")
    with pytest.raises(RuntimeMissing, match=r"There is no spark-submit at /nowhere/spark-submit"):
        find_spark_submit("/nowhere/spark-submit")


@pytest.mark.parametrize(
    ("url", "deploy_mode", "program"),
    [
        ("spark://here:7077", "client", ["/shared/driver.py"]),
        ("yarn", "client", ["/shared/driver.py"]),
        ("yarn", "cluster", ["/shared/driver.py"]),
        ("k8s://https://here", "client", ["/shared/driver.py"]),
        ("k8s://https://here", "cluster", ["local:///shared/driver.py"]),
        (
            "spark://here:7077",
            "cluster",
            ["--class", "org.apache.spark.deploy.PythonRunner", "file:/shared/driver.py", "{{USER_JAR}}", ""],
        ),
    ],
)
def test_the_command_line_names_files_and_holds_no_setting(url: str, deploy_mode: str, program: list[str]) -> None:
    named = ["--master", url, "--deploy-mode", deploy_mode, "--name", "airflow_samza views run-1"]
    settings = ["--properties-file", "/shared/spark.conf", "--load-spark-defaults"]
    assert command_for(url, deploy_mode)[1:] == [
        *named,
        *settings,
        *program,
        "/shared",
        "views",
    ]


@pytest.mark.parametrize(
    ("url", "driver", "program"),
    [
        (
            "spark://here:7077",
            "hdfs://nn/driver.jar",
            ["--class", "org.apache.spark.deploy.PythonRunner", "hdfs://nn/driver.jar", "{{USER_JAR}}", ""],
        ),
        ("k8s://https://here", "hdfs://nn/driver.py", ["hdfs://nn/driver.py"]),
        ("yarn", "/tmp/driver.py", ["/tmp/driver.py"]),
    ],
)
def test_a_driver_that_the_cluster_fetches_is_named_by_its_url(url: str, driver: str, program: list[str]) -> None:
    command = submit_command(
        parse_master(url),
        SubmitOptions("cluster"),
        name="n",
        properties="/tmp/spark.conf",
        driver=driver,
        arguments=["hdfs://nn/samza"],
    )
    assert command[command.index("--load-spark-defaults") + 1 :] == [*program, "hdfs://nn/samza"]


def test_drivers_and_executors_are_the_user_of_hdfs_that_submits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "etl")

    def users(url: str, mode: str, **conf: str) -> dict[str, str]:
        found = cluster_conf(parse_master(url), SubmitOptions(mode), conf, "airflow_samza-1.zip")
        return {key: value for key, value in found.items() if key.endswith(".HADOOP_USER_NAME")}

    executors = {"spark.executorEnv.HADOOP_USER_NAME": "etl"}
    assert users("spark://here:7077", "cluster") == executors
    assert users("yarn", "client") == executors
    assert users("yarn", "cluster") == {**executors, "spark.yarn.appMasterEnv.HADOOP_USER_NAME": "etl"}
    assert users("k8s://https://here", "cluster") == {**executors, "spark.kubernetes.driverEnv.HADOOP_USER_NAME": "etl"}
    assert users("yarn", "client", **{"spark.executorEnv.HADOOP_USER_NAME": "me"}) == {
        "spark.executorEnv.HADOOP_USER_NAME": "me"
    }


def test_executors_without_the_root_as_a_folder_have_our_package_by_its_name_and_the_driver_by_its_path() -> None:
    conf = {"spark.executorEnv.PYTHONPATH": "/more"}
    told = cluster_conf(parse_master("yarn"), SubmitOptions(), conf, "airflow_samza-1.zip")
    assert told["spark.executorEnv.PYTHONPATH"] == "airflow_samza-1.zip:/more"
    here = with_package(told, "/tmp/airflow_samza-1.zip")
    assert here["spark.executorEnv.PYTHONPATH"] == "airflow_samza-1.zip:/tmp/airflow_samza-1.zip:/more"


@pytest.mark.parametrize(
    ("url", "waits"),
    [
        ("spark://here:7077", "spark.standalone.submit.waitAppCompletion"),
        ("yarn", "spark.yarn.submit.waitAppCompletion"),
        ("k8s://https://here", "spark.kubernetes.submission.waitAppCompletion"),
    ],
)
def test_spark_submit_waits_for_the_driver_so_that_it_tells_of_one_that_fails(url: str, waits: str) -> None:
    assert cluster_conf(parse_master(url), SubmitOptions("cluster"), {}, PACKAGE)[waits] == "true"


def test_workers_have_our_package_on_their_path_before_the_users() -> None:
    conf = cluster_conf(parse_master("yarn"), SubmitOptions(), {"spark.executorEnv.PYTHONPATH": "/more"}, PACKAGE)
    assert conf["spark.executorEnv.PYTHONPATH"] == f"{PACKAGE}{os.pathsep}/more"


def test_workers_run_this_python_unless_another_is_named_or_an_image_has_its_own() -> None:
    def python(url: str, **conf: str) -> str:
        return cluster_conf(parse_master(url), SubmitOptions(), conf, PACKAGE)["spark.pyspark.python"]

    assert python("spark://here:7077") == sys.executable
    assert python("k8s://https://here") == "python3"
    assert python("yarn", **{"spark.pyspark.python": "./env/bin/python"}) == "./env/bin/python"


def test_the_driver_runs_this_python_on_this_machine_and_the_workers_in_the_cluster() -> None:
    conf = {"spark.pyspark.python": "./env/bin/python"}
    assert (
        cluster_conf(parse_master("yarn"), SubmitOptions("client"), conf, PACKAGE)["spark.pyspark.driver.python"]
        == sys.executable
    )
    assert "spark.pyspark.driver.python" not in cluster_conf(
        parse_master("yarn"), SubmitOptions("cluster"), conf, PACKAGE
    )


@pytest.mark.parametrize("deploy_mode", ["client", "cluster"])
def test_a_named_python_runs_the_driver_and_workers_that_have_no_other(deploy_mode: str) -> None:
    def found(**conf: str) -> tuple[str, str]:
        made = cluster_conf(
            parse_master("k8s://https://here"), SubmitOptions(deploy_mode), conf, PACKAGE, "/etl/python"
        )
        return made["spark.pyspark.driver.python"], made["spark.pyspark.python"]

    assert found() == ("/etl/python", "/etl/python")
    assert found(**{"spark.pyspark.python": "python3"}) == ("/etl/python", "python3")


def test_spark_submit_is_that_of_the_drivers_environment(tmp_path: Path) -> None:
    program = tmp_path / "pyspark" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    assert find_spark_submit("", str(tmp_path / "pyspark")) == str(program)


def test_the_users_settings_win_over_the_defaults_of_clusters() -> None:
    conf = cluster_conf(
        parse_master("yarn"), SubmitOptions(), {"spark.ui.enabled": "false", "spark.yarn.maxAppAttempts": "3"}, PACKAGE
    )
    assert (conf["spark.ui.enabled"], conf["spark.yarn.maxAppAttempts"]) == ("false", "3")


@pytest.mark.parametrize("port", ["spark.ui.port", "spark.driver.port", "spark.driver.blockManager.port"])
def test_no_port_that_a_drivers_pod_names_is_0(port: str) -> None:
    master, cluster = parse_master("k8s://https://host:6443"), SubmitOptions("cluster")
    assert "spark.ui.port" not in cluster_conf(master, cluster, {}, PACKAGE)
    assert cluster_conf(master, cluster, {port: "4711"}, PACKAGE)[port] == "4711"
    with pytest.raises(ConfigError, match=rf"{re.escape(port)} is '0', and on Kubernetes"):
        cluster_conf(master, cluster, {port: "0"}, PACKAGE)
    assert cluster_conf(master, SubmitOptions("client"), {}, PACKAGE)["spark.ui.port"] == "0"
    assert cluster_conf(parse_master("yarn"), cluster, {}, PACKAGE)["spark.ui.port"] == "0"


def test_a_driver_in_a_pod_is_reached_by_the_pods_address(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_PUBLIC_DNS"):
        monkeypatch.delenv(name, raising=False)
    assert own_address({}) == {}
    monkeypatch.setenv(
        "KUBERNETES_SERVICE_HOST", "127.0.0.1"
    )  # towards which this host has the address of the loopback
    assert own_address({}) == {"spark.driver.host": "127.0.0.1"}
    assert own_address({"spark.driver.host": "10.1.2.3"}) == {}
    monkeypatch.setenv("SPARK_LOCAL_HOSTNAME", "driver.svc")
    assert own_address({}) == {}


@pytest.mark.parametrize(
    "form", ["spark://127.0.0.1:{port}", "k8s://https://127.0.0.1:{port}", "sc://127.0.0.1:{port}/;token=hidden"]
)
def test_a_master_that_does_not_answer_is_named_at_once(form: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach_master(parse_master(form.format(port=port)))
        reach_master(parse_master(f"spark://127.0.0.1:1,127.0.0.1:{port}"))  # one of several is enough
    with pytest.raises(StageFailed, match=f"cannot be reached: 127.0.0.1:{port} ") as caught:
        reach_master(parse_master(form.format(port=port)))
    assert caught.value.retryable
    assert "hidden" not in str(caught.value)


def test_yarn_is_found_by_the_folder_that_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigError, match="neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        check_hadoop_conf()
    monkeypatch.setenv("YARN_CONF_DIR", str(tmp_path))
    with pytest.raises(ConfigError, match=r"holds no yarn-site\.xml"):
        check_hadoop_conf()
    (tmp_path / "yarn-site.xml").touch()
    check_hadoop_conf()


def test_only_its_owner_can_read_settings_that_lie_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    previous = os.umask(0)
    try:
        leave_properties(str(path), {"password": "hidden"})
    finally:
        os.umask(previous)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text() == "password=hidden\n"


def test_what_another_file_holds_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "spark.conf"
    path.write_text("another's")
    with pytest.raises(FileExistsError):
        leave_properties(str(path), {})
    assert path.read_text() == "another's"

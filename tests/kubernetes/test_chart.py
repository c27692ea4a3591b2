"""Our values for Airflow's official Helm chart: the chart's own schema allows them, and its pods are as our pages say.

No package registry has the chart. ``AIRFLOW_CHART`` names its folder (``chart/`` of Airflow's repository), and a ``helm``
renders it; without them the tests are skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import yaml
from airflow.configuration import conf

from demo.databases import running_postgres
from demo.flights_answers import rows_of
from demo.kubernetes.airflow import volumes
from demo.kubernetes.node import ADDRESS
from demo.kubernetes.product import IMAGE
from tests.kubernetes.cluster import MANIFESTS, ROWS, Cluster, until

pytestmark = [pytest.mark.kubernetes, pytest.mark.extended]

VALUES = MANIFESTS / "values.yaml"


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the chart without its PostgreSQL, which is another chart."""
    folder = os.environ.get("AIRFLOW_CHART", "")
    if not folder:
        pytest.skip("AIRFLOW_CHART names no folder with Airflow's chart")
    alone = tmp_path_factory.mktemp("chart") / "airflow"
    shutil.copytree(folder, alone)
    described = yaml.safe_load((alone / "Chart.yaml").read_text())
    del described["dependencies"]
    (alone / "Chart.yaml").write_text(yaml.safe_dump(described))
    (alone / "Chart.lock").unlink(missing_ok=True)
    shutil.rmtree(alone / "charts", ignore_errors=True)  # of a chart as it is published
    return alone


@pytest.fixture(scope="module")
def helm() -> str:
    if shutil.which("helm") is None:
        pytest.skip("helm is not there")
    return "helm"


@pytest.fixture(scope="module")
def rendered(chart: Path, helm: str) -> list[dict[str, Any]]:
    """Return what the chart makes of our values."""
    command = [helm, "template", "airflow", str(chart), "--namespace", "etl", "--values", str(VALUES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


@pytest.fixture(scope="module")
def task_pod(rendered: list[dict[str, Any]]) -> dict[str, Any]:
    (text,) = (
        found["data"]["pod_template_file.yaml"]
        for found in rendered
        if found["kind"] == "ConfigMap" and "pod_template_file.yaml" in found["data"]
    )
    pod: dict[str, Any] = yaml.safe_load(text)
    return pod


def merged(values: Any, over: Any) -> Any:
    """Return values with others laid over them, as helm does it."""
    if not (isinstance(values, dict) and isinstance(over, dict)):
        return over
    return {**values, **{key: merged(values.get(key), value) for key, value in over.items()}}


def test_the_schema_of_the_chart_allows_our_values(chart: Path) -> None:
    schema = json.loads((chart / "values.schema.json").read_text())
    ours, theirs = (yaml.safe_load(path.read_text()) for path in (VALUES, chart / "values.yaml"))
    jsonschema.Draft7Validator(schema).validate(merged(theirs, ours))


def test_the_chart_has_each_of_our_keys(chart: Path) -> None:
    """A key that the chart does not have would do nothing, where its schema is open."""
    theirs = yaml.safe_load((chart / "values.yaml").read_text())

    def unknown(ours: dict[str, Any], theirs: dict[str, Any], path: str = "") -> list[str]:
        found = []
        for key, value in ours.items():
            if key not in theirs:
                found.append(f"{path}{key}")
            elif isinstance(value, dict) and theirs[key]:
                found += unknown(value, theirs[key], f"{path}{key}.")
        return found

    ours = yaml.safe_load(VALUES.read_text())
    settings = ours.pop("config")  # any of Airflow's, whether or not the chart has a value of its own
    assert unknown(ours, theirs) == []
    assert [
        (section, key) for section in settings for key in settings[section] if not conf.has_option(section, key)
    ] == []


def test_all_pods_have_the_image_and_the_claim(rendered: list[dict[str, Any]], task_pod: dict[str, Any]) -> None:
    specs = [
        found["spec"]["template"]["spec"] for found in rendered if found["kind"] in ("Deployment", "StatefulSet", "Job")
    ]
    assert len(specs) >= 5  # API server, scheduler, Dag processor, triggerer, migration
    for spec in [*specs, task_pod["spec"]]:
        (first, *_) = spec["containers"]
        assert first["image"] == "registry.example.com/airflow-samza:1"
        assert {"name": "samza", "mountPath": "/srv/samza"} in first["volumeMounts"]
        claims = [volume for volume in spec["volumes"] if "persistentVolumeClaim" in volume]
        # Pods in which one claim is two volumes do not start.
        assert claims == [{"name": "samza", "persistentVolumeClaim": {"claimName": "samza"}}]


def test_no_container_needs_a_script_of_another_image(rendered: list[dict[str, Any]]) -> None:
    """The probes call ``/entrypoint``, which ours has; sidecars that delete logs call ``/clean-logs``."""
    assert "/entrypoint" in json.dumps(rendered)
    assert "/clean-logs" not in json.dumps(rendered)


def test_the_pod_of_a_task_has_room_for_a_spark_and_the_connections(task_pod: dict[str, Any]) -> None:
    (container,) = task_pod["spec"]["containers"]
    assert container["name"] == "base"
    assert container["resources"] == {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    named = {one["name"] for one in container["env"]}
    assert {"AIRFLOW_CONN_SAMZA_DEFAULT", "AIRFLOW__SAMZA__CLASS_ARCHIVES"} <= named


@pytest.mark.nightly
@pytest.mark.timeout(1500)
def test_airflow_from_its_chart_runs_the_demos_dag_by_the_commands_of_the_page(
    chart: Path, helm: str, cluster: Cluster, tmp_path: Path
) -> None:
    """Differs from the page in the image's name, the room of pods, and the database, whose image no registry here has."""
    node, namespace = cluster.node, ["-n", "etl"]
    in_scheduler = [*namespace, "exec", "deploy/airflow-scheduler", "-c", "scheduler", "--", "airflow", "dags"]
    folder = cluster.folder / "of-chart"
    for name in ("root", "warehouse", "logs"):
        (folder / name).mkdir(parents=True)
        (folder / name).chmod(0o777)
    shutil.copytree(cluster.folder / "data", folder / "data")
    node.kubectl("create", "namespace", "etl")
    node.kubectl("apply", *namespace, "-f", "-", given=volumes(folder, "of-chart"))
    with running_postgres(tmp_path / "postgres") as database:
        url = urlsplit(database)
        assert url.port is not None
        node.expose(url.port)
        repository, _, tag = IMAGE.rpartition(":")
        little = "requests.cpu=50m,{0}.requests.memory=128Mi,{0}.limits.memory=3Gi".format
        settings = [
            f"defaultAirflowRepository={repository}",
            f"postgresql.enabled=false,data.metadataConnection.host={ADDRESS},data.metadataConnection.port={url.port}",
            f"data.metadataConnection.user={url.username},data.metadataConnection.db={url.path[1:]}",
            f"workers.kubernetes.resources.{little('workers.kubernetes.resources')}",
        ]
        told = [part for one in settings for part in ("--set", one)] + ["--set-string", f"defaultAirflowTag={tag}"]
        install = [helm, "install", "airflow", str(chart), *namespace, "--values", str(VALUES), *told]
        environment = {**os.environ, "KUBECONFIG": str(node.kubeconfig)}
        try:
            done = subprocess.run(
                [*install, "--timeout", "10m"], capture_output=True, text=True, env=environment, check=False
            )
            assert done.returncode == 0, done.stderr
            node.kubectl("rollout", "status", "deployment/airflow-scheduler", *namespace, "--timeout=110s")
            until(lambda: "flights_daily" in node.kubectl(*in_scheduler, "list", check=False), 300)
            node.kubectl(*in_scheduler, "unpause", "flights")
            node.kubectl(*in_scheduler, "trigger", "flights")

            def state() -> str:
                told = node.kubectl(*in_scheduler, "list-runs", "flights", "-o", "json", check=False)
                runs = json.loads(next((line for line in told.splitlines() if line.startswith("[{")), "[]"))
                return str(runs[0]["state"]) if runs else ""

            until(lambda: state() in ("success", "failed"), 600)
            assert state() == "success", node.kubectl("get", "pods,events", *namespace)
            (output,) = (folder / "warehouse/delays-of-the-year").iterdir()
            assert rows_of(output) == ROWS
            assert [path.name for path in (folder / "logs").glob("dag_id=flights/run_id=*/task_id=*plan/*.log")]
        finally:
            subprocess.run([helm, "uninstall", "airflow", *namespace], env=environment, check=False)
        until(lambda: not node.get("pods", *namespace)["items"], 200)

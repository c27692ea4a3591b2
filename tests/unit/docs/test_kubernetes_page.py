"""The page about Kubernetes: its files are there, and the arguments of its pod run."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest
import yaml

from demo import flights_data
from tests.support.documentation_pages import DOCS, text_of
from tests.support.pod_of_page import pod_of_page

ROOT = DOCS.parent
RUN = "manual__2026-01-01T00:00:00.000000+00:00_a1"


def test_the_manifests_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"docker/kubernetes/[\w.-]+", text_of("operate/kubernetes.md")))
    assert named == {f"docker/kubernetes/{path.name}" for path in (ROOT / "docker/kubernetes").iterdir()}


def test_the_claim_is_the_one_that_the_values_mount() -> None:
    claim = yaml.safe_load((ROOT / "docker/kubernetes/claim.yaml").read_text())
    values = yaml.safe_load((ROOT / "docker/kubernetes/values.yaml").read_text())
    assert {one["persistentVolumeClaim"]["claimName"] for one in values["volumes"]} == {claim["metadata"]["name"]}


def test_the_manager_of_users_that_the_values_name_is_one() -> None:
    values = yaml.safe_load((ROOT / "docker/kubernetes/values.yaml").read_text())
    module, _, name = values["config"]["core"]["auth_manager"].rpartition(".")
    assert isinstance(getattr(importlib.import_module(module), name), type)


@pytest.mark.extended
def test_a_run_has_the_arguments_of_the_pod(tmp_path: Path) -> None:
    (container,) = pod_of_page(RUN)["spec"]["containers"]
    program, *words = [word.replace("/srv/samza", str(tmp_path)) for word in container["args"]]
    assert program == "airflow-samza"
    flights_data.prepare(tmp_path / "data")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "dags")]),
        "RUNNER_DIALS": str(tmp_path),
    }
    command = [sys.executable, "-m", "tests.support.command_without_spark", *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "warehouse/delays-of-the-year").iterdir()
    assert ds.dataset(folder, format="parquet").count_rows() == 477

"""Runs over brokers that ask who one is: the plan says what they do not permit, and no file of a run has a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import PIPE

import psutil
import pytest

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import all_runners
from airflow_samza.runs.stages.stage_state import RUNNING
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.kafka import access_check
from airflow_samza.systems.system import SystemBinding
from demo.kafka import Kafka
from tests.support.kafka_topics import Topics, numbered
from tests.support.runner_without_spark import VARIABLE, Dials
from tests.support.runs_here import Here

pytestmark = [pytest.mark.extended, pytest.mark.kafka]


class Secured:
    """A topic, and the settings with which bob comes to it; he may read it if the test lets him."""

    def __init__(self, kafka: Kafka, topics: Topics) -> None:
        self.topics = topics
        self.topic = topics.make()
        topics.send(self.topic, numbered([1, 2]))
        authority = kafka.certificates.authority
        self.sasl = {
            "bootstrap.servers": kafka.sasl_address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "bob",
            "sasl.password": kafka.users["bob"],
            "ssl.ca.location": str(authority),
        }
        key, mark, certificate = kafka.certificates.client("bob").read_text().partition("-----BEGIN CERTIFICATE-----")
        self.mtls = {
            "bootstrap.servers": kafka.mtls_address,
            "security.protocol": "SSL",
            "ssl.ca.pem": authority.read_text(),
            "ssl.certificate.pem": mark + certificate,
            "ssl.key.pem": key,
        }

    def grant(self) -> None:
        self.topics.permit_reading(self.topic, "bob")

    def here(self, root: Path, settings: Mapping[str, str]) -> Here:
        return Here(root, bindings={"events": SystemBinding("kafka", settings)})

    def plan(self, here: Here) -> RunPlan:
        config = {"streams.views.samza.physical.name": self.topic}
        return here.plan("tests.support.kafka_apps:copying", "run-1", config=config)


@pytest.fixture
def secured(kafka: Kafka, topics: Topics) -> Secured:
    return Secured(kafka, topics)


def test_the_plan_rejects_a_wrong_password(secured: Secured, tmp_path: Path) -> None:
    with pytest.raises(TopicError, match=r"do not let the user 'bob' in by SCRAM-SHA-512: Authentication failed"):
        secured.plan(secured.here(tmp_path, {**secured.sasl, "sasl.password": "hunter2"}))


def test_the_plan_rejects_a_topic_that_may_not_be_read(secured: Secured, tmp_path: Path) -> None:
    with pytest.raises(TopicError, match=rf"do not let the user 'bob' read the topic '{secured.topic}'\."):
        secured.plan(secured.here(tmp_path, secured.sasl))


@pytest.mark.nightly
def test_the_plan_may_be_tried_again_when_brokers_are_not_there(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access_check.check_brokers, "__defaults__", (1.0,))
    with pytest.raises(StorageUnavailable, match=r"cannot be asked: Failed to resolve 'kafka.invalid:9092'"):
        secured.plan(secured.here(tmp_path, {"bootstrap.servers": "kafka.invalid:9092"}))


@pytest.mark.parametrize("way", ["sasl", "mtls"])
def test_a_run_reads_and_leaves_no_secret_in_its_files_and_logs(
    secured: Secured, tmp_path: Path, way: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secured.grant()
    settings: dict[str, str] = getattr(secured, way)
    here = secured.here(tmp_path / "root", settings)
    caplog.set_level("DEBUG")
    plan = secured.plan(here)
    here.stages(plan)
    here.runtime.close(plan)
    assert [row["id"] for row in here.rows("copies")] == [1, 2]
    secret = settings["sasl.password" if way == "sasl" else "ssl.key.pem"].splitlines()[1 if way == "mtls" else 0]
    files = [path for path in (tmp_path / "root").rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if secret.encode() in path.read_bytes()] == []
    shown = capfd.readouterr()
    assert secret not in f"{caplog.text}{shown.out}{shown.err}{plan!r}"


def test_a_runner_in_another_process_gets_the_secret_by_no_argument_and_no_file(
    secured: Secured, tmp_path: Path
) -> None:
    secured.grant()
    known = {name: value for name, value in secured.sasl.items() if name != "sasl.password"}
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in known.items()]
    (tmp_path / "samza.toml").write_text(
        '[env.dev]\nroot = "root"\n[env.dev.systems.events]\nkind = "kafka"\n'
        + "\n".join(lines)
        + '\n"sasl.password" = { env = "EVENTS_PASSWORD" }\n'
    )
    dials = Dials(tmp_path / "dials")
    dials.turn("hold", "")
    password = secured.sasl["sasl.password"]
    command = [
        *(sys.executable, "-m", "tests.support.command_without_spark"),
        *("run", "tests.support.kafka_apps:copying", "--env", "dev", "--run-id", "one"),
        *("--config", f"streams.views.samza.physical.name={secured.topic}"),
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "EVENTS_PASSWORD": password,
        VARIABLE: str(dials.folder),
    }
    with subprocess.Popen(command, cwd=tmp_path, stdout=PIPE, stderr=PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        assert any(RUNNING in line for line in process.stderr)
        files = open_filesystem(str(tmp_path / "root"))
        (claim,) = [runner.who(files) or {} for runner in all_runners(files, RunFolder("copying", "one"))]
        arguments = psutil.Process(claim["pid"]).cmdline()
        dials.turn("hold", None)
        shown, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert [row["id"] for row in Here(tmp_path / "root").rows("copies")] == [1, 2]
    assert password not in f"{arguments}{shown}{errors}"
    assert [path for path in tmp_path.rglob("*") if path.is_file() and password.encode() in path.read_bytes()] == []

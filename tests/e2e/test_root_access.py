"""A run whose root only one key opens: every process that the run needs gets it, and nobody else sees it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess, give_access
from airflow_samza.systems.system import SystemBinding
from demo.store_servers import BUCKET, S3Server
from tests.spark.conftest import SCHEMA, TWO_STAGES, VIEWS
from tests.support import runner_without_spark

ROOT = f"s3://{BUCKET}/samza"
POLICY = """{"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::*"]}]}"""


@dataclass
class Guarded:
    """An S3 that looks at who asks, and the one key that it knows."""

    server: S3Server
    key: dict[str, str]

    @property
    def access(self) -> RootAccess:
        return RootAccess({"endpoint": self.server.endpoint, "region": "us-east-1", **self.key})

    def revoke(self) -> None:
        self._iam("delete_access_key", UserName="etl", AccessKeyId=self.key["access_key_id"])

    def grant(self) -> None:
        """Gives the user a new key, which takes the place of the one before."""
        made = self._iam("create_access_key", UserName="etl")["AccessKey"]
        self.key = {"access_key_id": made["AccessKeyId"], "secret_access_key": made["SecretAccessKey"]}

    def _iam(self, call: str, **given: Any) -> Any:
        import boto3

        self.server.ask("POST", "/moto-api/reset-auth", b"Infinity")
        client = boto3.client(
            "iam",
            endpoint_url=self.server.endpoint,
            region_name="us-east-1",
            aws_access_key_id="root",
            aws_secret_access_key=secrets.token_hex(),
        )
        try:
            return getattr(client, call)(**given)
        finally:
            self.server.ask("POST", "/moto-api/reset-auth", b"0")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Guarded]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    runner_without_spark.use_instead(monkeypatch, tmp_path / "dials")
    (tmp_path / "store").mkdir()
    server = S3Server(tmp_path / "store")
    try:
        server.start()
        found = Guarded(server, {})
        found._iam("create_user", UserName="etl")
        found._iam("put_user_policy", UserName="etl", PolicyName="all", PolicyDocument=POLICY)
        found.grant()
        yield found
    finally:
        server.stop()
        give_access(ROOT, NO_ACCESS)


@pytest.fixture
def lake(tmp_path: Path) -> SystemBinding:
    for name in ("views", "flags"):
        (tmp_path / "data" / name).mkdir(parents=True)
        rows = VIEWS if name == "views" else []
        pq.write_table(pa.Table.from_pylist(rows, pa.schema(SCHEMA)), tmp_path / "data" / name / "0.parquet")
    return SystemBinding("files", {"root": str(tmp_path / "data")})


def runtime_of(guarded: Guarded, lake: SystemBinding) -> SparkRuntime:
    return SparkRuntime(ROOT, {"lake": lake}, access=guarded.access, idle_seconds=60)


def run_all(runtime: SparkRuntime, run: RunPlan) -> list[str]:
    """Runs all stages; returns those that have succeeded."""
    try:
        return [runtime.run_stage(run, stage.stage_id).stage_id for stage in run.plan.stages]
    finally:
        runtime.close(run, wait_seconds=30)


@pytest.mark.extended
def test_a_run_opens_its_root_with_the_key_that_it_was_handed_and_leaves_it_nowhere(
    guarded: Guarded, lake: SystemBinding
) -> None:
    runtime = runtime_of(guarded, lake)
    run = runtime.prepare(RunRequest(TWO_STAGES, "run 1"))
    seen = []
    handle = runtime.submit(run, run.plan.stages[0].stage_id)
    seen += [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    runtime.wait(handle)
    assert run_all(runtime, run) == [stage.stage_id for stage in run.plan.stages]
    hush = guarded.key["secret_access_key"]
    assert any(ROOT in line for line in seen)  # the stage runner's command line
    assert not any(hush in line for line in seen)
    files = open_location(f"s3://{BUCKET}", guarded.access.options).filesystem
    everything = [info for info in files.get_file_info(pafs.FileSelector("/", recursive=True)) if info.is_file]
    assert any(info.path.endswith(".log") for info in everything)
    for info in everything:
        with files.open_input_file(info.path) as content:
            assert hush.encode() not in content.read()


@pytest.mark.nightly
def test_a_retry_after_a_key_was_changed_gets_the_key_of_today(guarded: Guarded, lake: SystemBinding) -> None:
    runtime = runtime_of(guarded, lake)
    run = runtime.prepare(RunRequest(TWO_STAGES, "run 1"))
    first = run.plan.stages[0].stage_id
    runtime.run_stage(run, first)
    guarded.revoke()
    with pytest.raises(TopicError, match="InvalidAccessKeyId"):
        runtime.load_plan(run.application, "run 1")
    guarded.grant()
    again = runtime_of(guarded, lake)
    before = psutil.Process().children(recursive=True)
    try:
        assert [again.run_stage(run, stage.stage_id).stage_id for stage in run.plan.stages]
    finally:
        for process in before:  # the first runner would ask with its old key for most of a minute
            if any("runner_without_spark" in word for word in process.cmdline()):
                process.kill()
        again.close(run, wait_seconds=30)


@pytest.mark.nightly
def test_two_connections_of_one_process_open_a_root_with_a_key_each(guarded: Guarded, lake: SystemBinding) -> None:
    first = SparkRuntime(ROOT, {"lake": lake}, access=replace(guarded.access, of="samza_a"), idle_seconds=60)
    unknown = {"access_key_id": "AKIANOBODY", "secret_access_key": secrets.token_hex()}
    access = RootAccess({**guarded.access.options, **unknown}, "samza_b")
    second = SparkRuntime(ROOT, {"lake": lake}, access=access, idle_seconds=60)
    run = first.prepare(RunRequest(TWO_STAGES, "run 1"))
    with pytest.raises(TopicError, match="InvalidAccessKeyId"):
        second.prepare(RunRequest(TWO_STAGES, "run 2"))
    assert run_all(first, run) == [stage.stage_id for stage in run.plan.stages]


@pytest.mark.extended
def test_the_plan_names_what_a_key_may_not(guarded: Guarded, lake: SystemBinding) -> None:
    narrow = POLICY.replace('"s3:*"', '["s3:PutObject", "s3:GetObject", "s3:ListBucket"]')
    guarded._iam("put_user_policy", UserName="etl", PolicyName="all", PolicyDocument=narrow)
    with pytest.raises(
        TopicError, match=r"does not let the access key of the options delete objects.*\n.*s3:DeleteObject"
    ):
        runtime_of(guarded, lake).prepare(RunRequest(TWO_STAGES, "run 1"))

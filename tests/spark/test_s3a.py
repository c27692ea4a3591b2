"""Spark's own readers and writers on s3a://, with the jars that they take; the root lies in the bucket, too."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess, give_access
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import SystemBinding
from demo.java_servers import jars
from demo.store_servers import BUCKET, S3Server
from tests.support.topic_rows import version_rows

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(600)]

APPLICATION = "samza_spark_apps.pushed:pushed"


def test_a_push_reads_its_source_from_s3a_with_the_jar_of_sparks_hadoop(s3: S3Server, tmp_path: Path) -> None:
    tiers = {number: "gold" if number % 3 else "iron" for number in range(300)}
    place = open_location(s3.url(f"s3a/{tmp_path.name}/members"))
    with place.filesystem.open_output_stream((place / "part-0.parquet").path) as sink:
        pq.write_table(pa.table({"member_id": list(tiers), "tier": list(tiers.values())}), sink)
    root = s3.url(f"s3a/{tmp_path.name}/root")
    options = {"endpoint": s3.endpoint, "region": "us-east-1", "access_key_id": "tests", "secret_access_key": "tests"}
    runtime = SparkRuntime(
        root,
        master="local[1]",
        access=RootAccess(options),
        spark_conf={
            "spark.jars": ",".join(sorted(str(jar) for jar in jars("s3a").glob("*.jar"))),
            "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
        },
    )
    try:
        handle = runtime.push(APPLICATION, "t0", f"s3a://{BUCKET}/s3a/{tmp_path.name}/members", "monday")
        runtime.wait(handle)
        made = runtime.finish_push(handle)
        log = LogSystem("log", SystemBinding("log", {"root": root}))
        rows = version_rows(log, "t0-push", made, "member_id")
    finally:
        give_access(root, NO_ACCESS)
    assert {member: row["tier"] for member, row in rows.items()} == tiers

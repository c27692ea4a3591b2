"""Secrets of a catalog and of the storage of its tables: they stand in no range, no description and no file."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pyarrow as pa

from airflow_samza.systems.iceberg.system import IcebergSystem
from airflow_samza.systems.system import Publication, SystemBinding
from tests.support.iceberg_lake import rows_of, stream
from tests.support.table_outputs import output_stream

SECRET = "hunter2"


def test_what_is_written_and_read_has_no_credential(tmp_path: Path) -> None:
    options = {"root": str(tmp_path), "token": SECRET, "s3.secret-access-key": SECRET, "credential": f"jo:{SECRET}"}
    system = IcebergSystem("lake", SystemBinding("iceberg", {**options, "auth": {"basic": {"password": SECRET}}}))
    spec = output_stream(schema="id bigint", create="true", partition_by="id", sort_by="id")
    system.create([spec])
    fixed = system.fix_output(spec, None, "root/app/run/1")
    producer = system.producer(spec, "stage-1.1-0-0-" + "0" * 32, fixed)
    producer.write(0, pa.record_batch({"id": pa.array([1], pa.int64())}))
    described = producer.finish()
    facts = system.publish(spec, Publication("app/run/stage", "1.1", 0, {0: described}))
    read = system.slice(stream("web.out"))
    assert rows_of(system, stream("web.out"), range_=read) == [{"id": 1}]
    assert system.hold(stream("web.out"), "reader", read["snapshot"]) is None
    said = json.dumps([fixed, described, facts, read]) + f"{system.binding!r} {system.settings!r}"
    assert SECRET not in said
    assert SECRET.encode() not in pickle.dumps(producer.target)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(written) > 5
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]

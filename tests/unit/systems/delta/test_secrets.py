"""Secrets of the storage of Delta tables: they stand in no range, no file of a run and no error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_samza.errors import SamzaError
from airflow_samza.systems import made_tables
from airflow_samza.systems.delta import options
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.delta_lake import rows_of, stream, system_at, table_of
from tests.support.delta_outputs import Output
from tests.support.table_outputs import output_stream

SECRET = "hunter2"


def test_credentials_open_the_storage_and_stand_in_no_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table_of(tmp_path, pa.schema([("id", pa.int64())]), [{"id": 1}])
    given: list[dict[str, Any]] = []

    def opened(url: str, storage: dict[str, Any], *, secret: frozenset[str]) -> Any:
        given.append({**storage, "secret": secret})
        return open_location(str(tmp_path))

    monkeypatch.setattr(options, "open_location", opened)
    system = system_at("s3://lake/tables", secret_access_key=SECRET)
    fixed = system.slice(stream())
    assert rows_of(system, stream(), range_=fixed) == [{"id": 1}]
    assert given == [{"secret_access_key": SECRET, "secret": frozenset({"secret_access_key"})}]
    assert SECRET not in json.dumps(fixed) + repr(system.binding) + repr(system.settings)


def test_what_is_written_has_no_credential(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"

    def opened(url: str, storage: dict[str, Any], **_: Any) -> Any:
        assert storage == {"secret_access_key": SECRET}
        return open_location(str(lake) + url.removeprefix("s3://lake/tables"))

    def log(url: str, storage: dict[str, Any]) -> LocalFilesystem:
        assert storage == {"secret_access_key": SECRET}
        return LocalFilesystem(str(lake) + url.removeprefix("s3://lake/tables"))

    monkeypatch.setattr(options, "open_location", opened)
    monkeypatch.setattr(options, "open_filesystem", log)
    monkeypatch.setattr(made_tables, "open_filesystem", lambda _: LocalFilesystem(str(lake / "root")))
    spec = output_stream(schema="id bigint", create="true", **{"delta.checkpointInterval": "1"})
    output = Output("s3://lake/tables", spec, secret_access_key=SECRET)
    output.system.create([spec])
    output.system.check_writable(spec)
    fixed = output.system.fix_output(spec, None, "run")
    work = output.publication([{"id": 1}])
    facts = output.system.publish(spec, work)
    assert rows_of(output.system, stream("web.out")) == [{"id": 1}]
    written = b"".join(path.read_bytes() for path in lake.rglob("*") if path.is_file())
    assert len(list(lake.rglob("*.parquet"))) == 2
    assert SECRET.encode() not in written
    assert SECRET not in json.dumps([fixed, facts, work.staged[0]])


def test_no_error_shows_a_credential() -> None:
    system = system_at("s3://key:hunter2@lake/tables", secret_access_key=SECRET, not_known="x")
    with pytest.raises(SamzaError) as error:
        system.slice(stream())
    assert SECRET not in f"{error.value}{error.value.hint}"

"""Versions that a table can read: pushed by its key, with its columns."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.application.descriptors import TableDescriptor, TableKind
from airflow_samza.errors import ConfigError, SchemaError
from airflow_samza.runs.records.folders import write_once
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.runs.tables.pins import AS_OF_INTERVAL, check_columns, check_requests
from airflow_samza.runs.tables.retention import PINNED_FOR, readers_of
from airflow_samza.runs.tables.table_version import TablePin, TableVersion
from airflow_samza.schema import Schema
from airflow_samza.systems.filesystems.local import LocalFilesystem
from tests.support.planner_applications import spec_of
from tests.support.record_samples import SAMPLES

VERSION = replace(
    next(sample for sample in SAMPLES if isinstance(sample, TableVersion)),
    schema="id bigint, tier string",
    key=("id",),
)


def table(key: str, schema: str | None) -> TableDescriptor:
    return TableDescriptor("t", TableKind.PUSHED, (key,), None if schema is None else Schema.of(schema))


@pytest.mark.parametrize("schema", [None, "id bigint", "id bigint, tier string"])
def test_a_version_with_the_key_and_the_columns_of_its_table_is_read(schema: str | None) -> None:
    check_columns(table("id", schema), VERSION)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (table("tier", None), "was pushed by the key id, and the table is declared with tier"),
        (table("id", "id bigint, age int"), "has no column 'age'"),
        (table("id", "id bigint, tier date"), "has the column 'tier' as string"),
    ],
)
def test_p11_a_version_of_another_key_or_other_columns_is_rejected(declared: TableDescriptor, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        check_columns(declared, VERSION)


def test_a_run_at_work_reads_a_version_beside_one_that_has_not_been_heard_of_for_long(tmp_path: Path) -> None:
    files, folder = LocalFilesystem(str(tmp_path)), TableFolder("shop", "members-push")
    now = datetime.now(timezone.utc)
    for run, at in {"a": now - 2 * PINNED_FOR, "b": now}.items():
        write_once(files, folder.pin(7, f"shop/{run}"), TablePin(f"shop/{run}", at.isoformat()))
    assert list(readers_of(files, folder, 7)) == [("shop", "b")]


def test_a_table_that_is_joined_as_of_event_times_is_not_asked_for_as_of_the_interval() -> None:
    def described(app: Any) -> None:
        views = app.input_stream("views", system="log", schema="k bigint, at timestamp", timestamp="at", partitions=2)
        names = app.pushed_table("names", key="k", schema="k bigint, name string", partitions=2)
        joined = views.partition_by("k", id="by-k").join(names, key="k", as_of="event time", id="named")
        joined.send_to(app.output_stream("out", system="log"))

    spec = spec_of(described)
    check_requests(spec, {"names": "3"})
    with pytest.raises(ConfigError, match=r"'names' is asked for as of the data interval, and .* looks its rows up"):
        check_requests(spec, {"names": AS_OF_INTERVAL})

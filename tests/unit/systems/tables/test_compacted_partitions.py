"""Outputs that replace partitions, where others compact the table between their epochs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_samza.errors import TopicError
from tests.support import delta_outputs, iceberg_lake, iceberg_outputs
from tests.support.iceberg_outputs import output_stream

MODE = {"mode": "replace partitions"}

Outputs = iceberg_outputs.Output | delta_outputs.Output


@pytest.fixture(params=["iceberg", "delta"])
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Outputs:
    """An output to a table by partition, of which one run has committed two epochs to the same partition."""
    kinds: dict[str, Any] = {"iceberg": iceberg_outputs.Output, "delta": delta_outputs.Output}
    spec = output_stream(schema="id bigint, part string", create="true", partition_by="part", **MODE)
    made: Outputs = kinds[request.param](tmp_path, spec)
    made.system.create([spec])
    made.spec = output_stream(**MODE)
    made.publish(row(1))
    made.publish(row(2), epoch=1)
    return made


def row(number: int) -> list[dict[str, Any]]:
    return [{"id": number, "part": "a"}]


def compact(output: Outputs) -> None:
    table = output.table()
    if isinstance(table, DeltaTable):
        table.optimize.compact()
    else:
        iceberg_lake.compact(table)


def test_rows_of_the_run_that_others_have_compacted_are_not_replaced_by_its_next_epoch(output: Outputs) -> None:
    compact(output)
    with pytest.raises(TopicError, match=r"of the 2 data files that generation .* has written there 0 are left"):
        output.publish(row(3), epoch=2)
    assert sorted(output.ids()) == [1, 2]


def test_a_cleared_stage_replaces_the_partitions_that_others_have_compacted(output: Outputs) -> None:
    compact(output)
    output.publish(row(3), generation="1.2")
    assert output.ids() == [3]


def test_files_of_others_are_replaced_as_long_as_those_of_the_run_are_there(output: Outputs) -> None:
    output.publish(row(9), run="another")
    output.publish(row(3), epoch=2)
    assert 9 not in output.ids()

"""A column that names the run: what a run wrote is replaced also after others have compacted the table."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_samza.errors import SchemaError, TopicError
from tests.support.slotted import day
from tests.support.table_kinds import KINDS, Output
from tests.support.table_outputs import ids, output_stream


@pytest.fixture(params=KINDS)
def output(request: pytest.FixtureRequest, tmp_path: Path) -> Output:
    return KINDS[request.param].made(tmp_path, run_column="run")


def test_the_column_is_filled(output: Output) -> None:
    output.publish(ids([1]))
    output.publish(ids([2]), run="other")
    names = [row["run"] for row in output.scanned()]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"samza-[0-9a-f]{16}-", name) for name in names)


@pytest.mark.parametrize(("kind", "partition"), [("iceberg", ""), ("delta", ""), ("delta", "part"), ("delta", "run")])
@pytest.mark.parametrize("slotted", [False, True])
@pytest.mark.few(4)
def test_rows_are_replaced_after_a_compaction(tmp_path: Path, slotted: bool, kind: str, partition: str) -> None:
    output = KINDS[kind].made(tmp_path, run_column="run", **({"partition_by": partition} if partition else {}))
    slot = day(1) if slotted else None
    output.foreign({"id": 9, "part": None, "run": None})
    output.publish([{"id": 1, "part": "a"}, {"id": 2, "part": "b/ c=é"}], slot=slot)
    output.publish(ids([3]), epoch=1, slot=slot)
    output.publish([{"id": 7, "part": "a"}], run="tuesday", slot=day(2) if slotted else None)
    output.compact()
    table = output.table()
    if isinstance(table, DeltaTable) and not partition:
        assert not any(Path(path).name.startswith("samza-") for path in table.file_uris())
    kept = [row for row in output.scanned() if row["id"] in (7, 9)]
    before = output.versions()
    again: dict[str, Any] = {"run": "backfill"} if slotted else {"generation": "1.2"}
    output.publish(ids([4]), slot=slot, **again)
    assert output.versions() == before + 1
    now = output.table()
    if not isinstance(table, DeltaTable) and not isinstance(now, DeltaTable):
        assert now.metadata.metadata_log[-1].metadata_file == table.metadata_location, "one commit"
    assert output.ids() == [4, 7, 9]
    assert sorted(kept, key=str) == sorted((row for row in output.scanned() if row["id"] != 4), key=str)
    output.publish(ids([5]), epoch=1, slot=slot, **again)
    assert output.ids() == [4, 5, 7, 9]
    output.compact()
    output.publish(ids([6]), run="tuesday", generation="1.2", slot=day(2) if slotted else None)
    assert output.ids() == [4, 5, 6, 9]


def test_rows_that_are_not_as_many_as_were_written_are_not_doubled(output: Output) -> None:
    type(output)(output.folder).publish(ids([1]))  # without the column
    output.publish(ids([5, 6]), run="other")
    output.compact()
    with pytest.raises(TopicError, match="of its 1 data files 0 are left"):
        output.publish(ids([2]), generation="1.2")
    output.table().delete("id = 5")
    with pytest.raises(TopicError, match="of its 1 data files 0 are left"):
        output.publish(ids([2]), run="other", generation="1.2")
    assert output.ids() == [1, 6]


def test_a_column_that_cannot_name_the_run_is_rejected(output: Output) -> None:
    for name, words in (("nope", "has no such column"), ("id", "has it as long")):
        with pytest.raises(TopicError, match=words):
            type(output)(output.folder, output_stream(run_column=name)).publish(ids([1]))
    with pytest.raises(SchemaError, match="have the column 'run', which is filled"):
        output.publish([{"id": 1, "run": "mine"}])

"""Checkpoints upon checkpoints, and how little of a log a commit reads."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.runs.records.names import Generation, writer_name
from airflow_samza.systems.delta import checkpoints, state
from airflow_samza.systems.delta.log import DeltaLog, LogFile, find_log
from airflow_samza.systems.delta.options import AUTO_COMPACT
from airflow_samza.systems.files.location import open_location
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.system import Publication
from demo.store_servers import S3Server
from tests.support import delta_outputs
from tests.support.delta_lake import stream
from tests.support.delta_outputs import Output
from tests.support.table_outputs import ids

INTERVAL, LOG_RETENTION = "delta.checkpointInterval", "delta.logRetentionDuration"


def made_output(folder: Path | str, **options: str) -> Output:
    """Return an output whose versions are its epochs: no commit merges files."""
    return delta_outputs.made_output(folder, **{AUTO_COMPACT: "false", **options})


def forget_commits(output: Output) -> None:
    """Delete all commits before the last checkpoint, as a clean-up of the log does."""
    log = output.place / "_delta_log"
    last = max(path.name for path in log.glob("*.checkpoint.parquet"))
    for path in log.glob("*.json"):
        if path.name[:20] < last[:20]:
            path.unlink()


def test_a_checkpoint_upon_others_has_what_came_went_and_came_back(tmp_path: Path) -> None:
    output = made_output(tmp_path, partition_by="part", **{INTERVAL: "2"})
    for epoch in range(1, 6):
        output.publish([{"id": epoch, "part": "a b/é"}], epoch=epoch)
    output.publish([{"id": 50, "part": None}], run="other")
    output.publish([{"id": 9, "part": None}], generation="1.2")
    output.foreign({"id": 70, "part": "x"})  # the eighth version: no checkpoint of ours
    output.publish(ids([10]), generation="1.2", epoch=1)
    output.publish(ids([11]), generation="1.2", epoch=2)
    table = output.table()
    forget_commits(output)
    assert output.ids() == [9, 10, 11, 50, 70]
    assert not table.vacuum(dry_run=True)
    assert len(table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)) == 5

    output.foreign({"id": 71, "part": None})
    output.publish([], generation="1.3")
    output.table().restore(11)  # what was taken out is there again
    output.publish(ids([72]), run="third")
    assert json.loads((output.place / "_delta_log" / "_last_checkpoint").read_text())["numOfAddFiles"] == 7
    forget_commits(output)
    assert output.ids() == [9, 10, 11, 50, 70, 71, 72]
    assert output.system.arrived(stream("web.out"), None)["known"]["files"] == 7


def test_what_was_taken_out_stays_in_checkpoints_until_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = made_output(tmp_path, **{INTERVAL: "2"})
    output.publish(ids([1]))
    output.publish(ids([2]), generation="1.2")
    for epoch in range(4):
        output.publish(ids([10 + epoch]), run="other", epoch=epoch)
        if epoch == 1:
            found = find_log(open_location(str(output.place)), "web.out", "out")
            assert found is not None
            assert len(checkpoints.names_in_use(state.newest_state(found), is_ours=True) or ()) == 4
            monkeypatch.setattr(checkpoints, "_oldest_removal", lambda _: 2**60)
        (last,) = sorted((output.place / "_delta_log").glob("*.checkpoint.parquet"))[-1:]
        assert pq.read_table(last)["remove"].null_count == len(pq.read_table(last)) - (1 if epoch < 3 else 0)
    forget_commits(output)
    assert output.ids() == [2, 10, 11, 12, 13]


def test_a_commit_reads_what_is_behind_the_last_checkpoint_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = made_output(tmp_path)
    for epoch in range(1, 14):
        output.publish(ids([epoch]), epoch=epoch)
    opened, read = DeltaLog.opened, list[str]()

    def noted(log: DeltaLog, file: LogFile) -> object:
        read.append(file.path.rpartition("/")[2].lstrip("0"))
        return opened(log, file)

    def rejected(*_: object) -> None:
        raise AssertionError("data files of the checkpoint")

    work = output.publication(ids([14]), epoch=14)
    clear = output.publication(ids([20]), generation="1.2")
    monkeypatch.setattr(DeltaLog, "opened", noted)
    with monkeypatch.context() as patched:
        patched.setattr(state, "_checkpoint_files", rejected)
        output.system.publish(output.spec, work)
    assert read == ["10.checkpoint.parquet", "11.json", "12.json", "13.json"]
    output.system.publish(output.spec, clear)
    assert output.ids() == [20]


def test_an_epoch_behind_another_reads_what_was_committed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = made_output(tmp_path)
    for epoch in range(1, 14):
        output.publish(ids([epoch]), epoch=epoch)
    works = [output.publication(ids([epoch]), epoch=epoch) for epoch in range(14, 23)]
    system, opened, read = output.system, DeltaLog.opened, list[str]()

    def noted(log: DeltaLog, file: LogFile) -> object:
        read.append(file.path.rpartition("/")[2].lstrip("0"))
        return opened(log, file)

    monkeypatch.setattr(DeltaLog, "opened", noted)
    looks = []
    for number, work in enumerate(works):
        if number == 3:
            output.foreign({"id": 70, "part": None})
        read.clear()
        system.publish(output.spec, work)
        looks.append(read.copy())
    assert looks[:4] == [
        ["10.checkpoint.parquet", "11.json", "12.json", "13.json"],
        ["14.json"],
        ["15.json"],
        ["16.json", "17.json"],
    ]
    read.clear()
    system.publish(output.spec, output.publication(ids([30]), generation="1.2"))  # takes out what the log names
    system.publish(output.spec, output.publication(ids([31]), generation="1.2", epoch=1))
    assert output.ids() == [30, 31, 70]


def test_a_table_that_was_made_anew_is_not_taken_for_the_former_one(tmp_path: Path) -> None:
    output = made_output(tmp_path)
    output.publish(ids([1]))
    system, work = output.system, output.publication(ids([2]), epoch=1)
    system.publish(output.spec, work)
    shutil.rmtree(output.place)
    output.system.create([output.spec])
    for epoch in range(3):
        output.publish(ids([10 + epoch]), run="other", epoch=epoch)
    assert system.publish(output.spec, output.publication(ids([3]), run="third"))["version"] == "4"
    assert output.ids() == [3, 10, 11, 12]


@pytest.mark.extended
def test_commits_to_a_bucket_list_what_is_behind_the_last_version_and_clean_its_log(
    s3: S3Server, tmp_path: Path
) -> None:
    output = made_output(s3.url(f"delta/{tmp_path.name}"), **{INTERVAL: "5", LOG_RETENTION: "interval 0 seconds"})
    system = output.system
    fixed = system.fix_output(output.spec, None, "app/run/1")
    sent = []
    for epoch in range(12):
        producer = system.producer(output.spec, writer_name("stage", Generation(1, 1), epoch, 0), fixed)
        producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array([epoch]), "part": ["a"]}))
        work = Publication("app/run/stage", "1.1", epoch, {0: json.loads(json.dumps(producer.finish()))}, final=False)
        before = requests.snapshot()
        system.publish(output.spec, work)
        sent.append(requests.since(before))
    assert sent[2] == sent[7] == sent[11] == {"LIST": 1, "GET": 2, "PUT": 1}
    log = open_location(s3.url(f"delta/{tmp_path.name}/web/out/_delta_log"))
    names = [info.path.rpartition("/")[2] for info in log.filesystem.get_file_info(pafs.FileSelector(log.path))]
    assert min(names) == f"{10:020d}.checkpoint.parquet"  # of before, nothing is needed
    assert sorted(row["id"] for row in output.rows()) == list(range(12))


def versions_of_checkpoints(output: Output) -> list[int]:
    return sorted(int(path.name[:20]) for path in (output.place / "_delta_log").glob("*.checkpoint.parquet"))


@pytest.mark.parametrize(("properties", "versions"), [({}, [10, 30]), ({INTERVAL: "10"}, [10, 20, 30])])
def test_checkpoints_are_written_where_commits_behind_the_last_one_are_worth_them(
    properties: dict[str, str], versions: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "_SHARE", 1)
    output = made_output(tmp_path, **properties)
    output.publish(ids([0]))
    for epoch in range(1, 33):
        output.publish(ids([1000 + epoch]), epoch=epoch)
    assert versions_of_checkpoints(output) == versions
    assert len(output.ids()) == 33


def test_many_commits_are_followed_by_a_checkpoint_in_any_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_SHARE", 0)
    monkeypatch.setattr(checkpoints, "_LONGEST_INTERVAL", 20)
    output = made_output(tmp_path)
    for epoch in range(41):
        output.publish(ids([epoch]), epoch=epoch)
    assert versions_of_checkpoints(output) == [10, 30]


@pytest.mark.parametrize("said", ['{"version":3}', '{"version":70}', '{"version":"x"}', "[]", '{"ver', None])
def test_a_wrong_word_of_the_last_checkpoint_does_no_harm(tmp_path: Path, said: str | None) -> None:
    output = made_output(tmp_path, **{INTERVAL: "3"})
    for epoch in range(1, 8):
        output.publish(ids([epoch]), epoch=epoch)
    log = output.place / "_delta_log"
    forget_commits(output)
    (log / f"{3:020d}.checkpoint.parquet").unlink()
    (log / "_last_checkpoint").unlink() if said is None else (log / "_last_checkpoint").write_text(said)
    output.publish(ids([8]), epoch=8)
    (log / "_last_checkpoint").write_text(json.dumps({"version": 6}))
    assert output.table().version() == 8
    assert output.ids() == list(range(1, 9))


@pytest.mark.parametrize("block", [1, 2, 100])
def test_files_of_a_log_from_before_its_last_checkpoint_go_when_they_are_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr("airflow_samza.systems.delta.log._BLOCK", block)
    output = made_output(tmp_path, **{INTERVAL: "5"})
    log = output.place / "_delta_log"
    for epoch in range(1, 11):
        output.publish(ids([epoch]), epoch=epoch)
    assert len(list(log.glob("*.json"))) == 11
    for path in log.iterdir():
        if path.name < f"{7:020d}":
            os.utime(path, (1, 1))
    for epoch in range(11, 16):
        output.publish(ids([epoch]), epoch=epoch)
    assert min(int(path.name[:20]) for path in log.glob("*.json")) == 5
    assert output.ids() == list(range(1, 16))


def test_a_property_that_everybody_can_set_has_nobody_clean_a_log_or_delete_what_was_taken_out(tmp_path: Path) -> None:
    output = made_output(tmp_path, **{INTERVAL: "5", "delta.deletedFileRetentionDuration": "interval 0 seconds"})
    shutil.rmtree(f"{tmp_path}.root")  # as of a table that another root has made, or a version without this record
    assert output.table().metadata().configuration["samza.made"] == "true"
    for generation in range(1, 11):
        output.publish(ids([generation]), generation=f"1.{generation}")
    there = set(output.place.rglob("*.*"))
    for path in there:
        os.utime(path, (1, 1))
    for generation in range(11, 16):
        output.publish(ids([generation]), generation=f"1.{generation}")
    assert output.system.sweep_output(output.spec, lambda *_: False, time.time() + 40 * 86_400) == (0, 0)
    assert there <= set(output.place.rglob("*.*"))

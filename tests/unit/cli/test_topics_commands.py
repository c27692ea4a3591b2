"""``airflow-samza topics``: what each command prints, rejects and deletes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

from airflow_samza.cli.app import app
from airflow_samza.control.messages import EndOfStreamMessage
from airflow_samza.runs.records.folders import RunFolder, write_once
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.stages.stage_runners import claim_runner
from airflow_samza.runs.upkeep.topic_expiry import own_topics
from airflow_samza.systems.log.index import Floor, read_floor
from airflow_samza.systems.log.maintenance import mark_expired
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.runs_here import Here


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogSystem:
    """A log under ``root`` of the current folder, with the topic ``views`` of two partitions."""
    monkeypatch.chdir(tmp_path)
    log = LogSystem("log", SystemBinding("log", {"root": str(tmp_path / "root")}))
    spec = StreamSpec("views", partitions=2, schema="member bigint, at timestamp, raw binary")
    log.create([spec])
    for epoch in range(2):
        producer = log.producer(spec, f"attempt-{epoch}")
        for partition in range(2):
            rows = {
                "member": [epoch * 10 + partition, epoch * 10 + partition + 5],
                "at": [0, 1],
                "raw": [b"\xff", None],
            }
            schema = pa.schema([("member", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("raw", pa.binary())])
            producer.write(partition, pa.RecordBatch.from_pydict(rows, schema=schema))
        control = (EndOfStreamMessage("task-0", 1, stream_id="views"),) if epoch == 1 else ()
        log.publish(spec, Publication("app/run/stage", "1.1", epoch, {0: producer.finish()}, control))
    return log


def call(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(app, ["topics", arguments[0], *arguments[1:], "--root", "root"], input=answer)


def messages(done: Result) -> list[dict[str, Any]]:
    assert done.exit_code == 0, done.output
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_counts_messages_and_control_messages(log: LogSystem) -> None:
    done = call("list")
    heading, line = done.stdout.splitlines()
    assert heading.split() == ["TOPIC", "PARTITIONS", "MESSAGES", "CONTROL", "SIZE", "LAST", "COMMIT", "EXPIRES"]
    assert line.split()[:4] == ["views", "2", "8", "2"]


def test_list_as_json_has_an_object_per_topic(log: LogSystem) -> None:
    (found,) = messages(call("list", "--json"))
    assert {name: found[name] for name in ("topic", "partitions", "messages", "control", "expires")} == {
        "topic": "views",
        "partitions": 2,
        "messages": 8,
        "control": 2,
        "expires": None,
    }
    assert isinstance(found["last_commit"], int)
    assert messages(call("list", "nothing", "--json")) == []


def test_list_takes_a_part_of_the_name(log: LogSystem) -> None:
    assert "No topic's name holds 'nothing'." in call("list", "nothing").stdout
    assert "views" in call("list", "iew").stdout


def test_list_of_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("list").stdout.startswith("There is no topic under ")
    assert not (tmp_path / "root").exists(), "looking must not make anything"


def test_show_names_schema_offsets_and_writers(log: LogSystem) -> None:
    text = call("show", "views").stdout
    assert "member bigint" in text
    assert "app/run/stage" in text
    partitions = [line.split() for line in text.splitlines() if line.strip().startswith(("0 ", "1 "))]
    assert ["0", "0", "5", "4", "1"] in partitions


def test_tail_prints_the_last_messages_of_each_partition_as_json(log: LogSystem) -> None:
    found = messages(call("tail", "views", "-n", "1"))
    assert found == [
        {"partition": 0, "offset": 3, "message": {"member": 15, "at": "1970-01-01T00:00:00.000001+00:00", "raw": None}},
        {"partition": 1, "offset": 3, "message": {"member": 16, "at": "1970-01-01T00:00:00.000001+00:00", "raw": None}},
    ]


def test_tail_of_one_partition_goes_over_commits(log: LogSystem) -> None:
    found = messages(call("tail", "views", "--partition", "1", "-n", "3"))
    assert [line["offset"] for line in found] == [1, 2, 3]
    assert messages(call("tail", "views", "-p", "1", "-n", "99"))[0]["message"] == {
        "member": 1,
        "at": "1970-01-01T00:00:00+00:00",
        "raw": "/w==",
    }
    assert messages(call("tail", "views", "-n", "0")) == []


def test_tail_shows_control_messages_when_asked(log: LogSystem) -> None:
    found = messages(call("tail", "views", "-p", "0", "-n", "1", "--control"))
    (line,) = found
    assert line["offset"] == 4
    assert line["control"] == {
        "kind": "EndOfStream",
        "version": 1,
        "taskName": "task-0",
        "taskCount": 1,
        "streamId": "views",
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("tail", "nope"), "There is no topic 'nope'"),
        (("show", "nope"), "There is no topic 'nope'"),
        (("fsck", "nope"), "There is no topic 'nope'"),
        (("expire", "nope", "--yes"), "There is no topic 'nope'"),
        (("show", ""), "is not a topic's name"),
        (("show", "../../etc"), "There is no topic"),
        (("tail", "views", "-p", "2"), "has no partition 2"),
        (("tail", "views", "-p", "-1"), "has no partition -1"),
        (("tail", "views", "-n", "-1"), "is not a number of messages"),
        (("list", "--of", "nope"), "There is no log 'nope'"),
        (("expire", "--older-than", "7 days"), "--older-than needs a topic"),
        (("expire", "views", "--older-than", "often", "--yes"), "is not a length of time"),
    ],
)
def test_what_cannot_be_is_rejected(log: LogSystem, arguments: tuple[str, ...], sentence: str) -> None:
    done = call(*arguments)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert "Hint:" in done.stderr


def test_another_log_of_the_environment_can_be_named(log: LogSystem, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["topics", "list", "--system", "second=log:root", "--of", "second", "--root", "elsewhere"]
    )
    assert "views" in done.stdout


def test_fsck_of_a_sound_log_says_so(log: LogSystem) -> None:
    assert call("fsck").stdout == "topic views: sound\n"


def test_fsck_as_json_has_an_object_per_topic(log: LogSystem) -> None:
    assert messages(call("fsck", "--json")) == [{"kind": "topic", "name": "views", "sound": True, "findings": []}]


def test_show_as_json_has_what_the_text_shows(log: LogSystem) -> None:
    (found,) = messages(call("show", "views", "--json"))
    (listed,) = messages(call("list", "--json"))
    assert sum(partition["messages"] for partition in found["partitions"]) == listed["messages"]
    for kind in ("messages", "control"):
        assert sum(commit[kind] for commit in found["commits"]) == listed[kind] > 0
    assert found["schema"] in call("show", "views").stdout


def segments(log: LogSystem) -> list[Path]:
    return sorted(Path(log.filesystem.location(f"{log.topic('views').directory}/segments")).iterdir())


def test_fsck_names_a_corrupt_segment_and_ends_with_1(log: LogSystem) -> None:
    segment = segments(log)[0]
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    done = call("fsck")
    assert done.exit_code == 1
    assert done.stdout.startswith("topic views: damaged\n")
    assert segment.name in done.stdout


def test_a_corrupt_topic_is_damaged_in_list_and_fsck_and_the_others_are_shown(log: LogSystem) -> None:
    log.create([StreamSpec("sound", partitions=1)])
    Path(log.filesystem.location("topics/views/topic.json")).write_text("{")
    done = call("list")
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["TOPIC", "sound", "views"]
    assert "damaged" in done.stdout.splitlines()[2]
    checked = call("fsck")
    assert checked.exit_code == 1
    assert checked.stdout.startswith("topic sound: sound\ntopic views: damaged\n")
    assert "damaged" in {name for found in messages(call("list", "--json")) for name in found}


def test_expire_deletes_what_is_due_and_nothing_else(log: LogSystem) -> None:
    log.create([StreamSpec("old", partitions=1)])
    mark_expired(log.topic("old"), 1)
    done = call("expire")
    assert done.stdout.startswith("Deleted the topic old.\n")
    assert log.topics() == ["views"]
    assert call("expire").stdout.startswith("Nothing is due.")


def test_expire_of_a_whole_topic_asks_first(log: LogSystem) -> None:
    rejected = call("expire", "views", answer="n\n")
    assert rejected.exit_code == 2
    assert "Nothing was expired" in rejected.stderr
    assert log.topics() == ["views"]
    done = call("expire", "views", answer="y\n")
    assert done.exit_code == 0, done.output
    assert log.topics() == []


def test_expire_by_age_keeps_what_is_young(log: LogSystem) -> None:
    done = call("expire", "views", "--older-than", "1 hour", "--yes")
    assert done.stdout.startswith("The first 0 commits of 'views' are expired")
    assert len(messages(call("tail", "views", "-n", "99"))) == 8


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPlan:
    """A run of several stages that is planned, under ``root`` of the current folder."""
    monkeypatch.chdir(tmp_path)
    here = Here(tmp_path / "root")
    clicks = pa.schema([("member", pa.int64()), ("page", pa.string()), ("n", pa.int64())])
    views = pa.schema([("member", pa.int64()), ("seconds", pa.int64())])
    for name, rows in (
        ("clicks", {"member": [1], "page": ["p"], "n": [1]}),
        ("views", {"member": [1], "seconds": [2]}),
    ):
        here.log.append(name, pa.table(rows, clicks if name == "clicks" else views), key=["member"], partitions=1)
    return here.plan("tests.support.carrying_apps:joining", "run-1")


@pytest.mark.parametrize("age", [(), ("--older-than", "1 hour")])
def test_expire_rejects_a_topic_between_stages_of_an_open_run(
    planned: RunPlan, tmp_path: Path, age: tuple[str, ...]
) -> None:
    here = Here(tmp_path / "root")
    (_, topic), *_ = own_topics(here.log.filesystem, planned)
    done = call("expire", topic, "--yes", *age)
    assert done.exit_code == 2
    assert f"The topic '{topic}' lies between stages of the run 'run-1' of 'joining', which is open." in done.stderr
    assert "airflow-samza cancel joining run-1" in done.stderr
    assert read_floor(here.log.topic(topic)) == Floor()
    here.runtime.close(planned)
    done = call("expire", topic, "--yes")
    assert done.exit_code == 0, done.output
    assert topic not in here.log.topics()


def test_expire_rejects_a_topic_between_stages_of_a_run_whose_process_lives(planned: RunPlan, tmp_path: Path) -> None:
    here = Here(tmp_path / "root")
    (_, topic), *_ = own_topics(here.log.filesystem, planned)
    here.runtime.close(planned)
    assert claim_runner(here.log.filesystem, RunFolder("joining", "run-1"), "key") is not None
    done = call("expire", topic, "--yes")
    assert done.exit_code == 2
    assert topic in here.log.topics()


def test_expire_without_a_topic_spares_what_an_open_run_needs(planned: RunPlan, tmp_path: Path) -> None:
    here = Here(tmp_path / "root")
    names = [name for _, name in own_topics(here.log.filesystem, planned)]
    for name in names:
        mark_expired(here.log.topic(name), 1)
    assert call("expire").stdout.startswith("Nothing is due.")
    assert set(names) <= set(here.log.topics())
    write_once(here.log.filesystem, RunFolder("joining", "run-1").closed, RunEnd(True, 1.0))
    assert f"Deleted the topic {names[0]}." in call("expire").stdout

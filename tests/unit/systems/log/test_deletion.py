"""Deletion of a topic where folders are not renamed: on a disk that pretends, and on S3."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.log import maintenance
from airflow_samza.systems.log.maintenance import delete_topic, mark_expired, sweep
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.log.topic import DELETING, Topic
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.faulty_filesystem import FolderlessFilesystem

ROWS = pa.table({"k": [1, 2, 3]})


class Stopped(BaseException):
    """The end of a process."""


@pytest.fixture(params=["disk", pytest.param("s3", marks=pytest.mark.extended)])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Filesystem:
    if request.param == "disk":
        return FolderlessFilesystem(tmp_path)
    return open_filesystem(request.getfixturevalue("s3").url(f"deletion/{tmp_path.name}"))


@pytest.fixture
def log(files: Filesystem) -> LogSystem:
    found = LogSystem("log", SystemBinding("log"), filesystem=files)
    found.append("views", ROWS, partitions=1, schema="k bigint")
    found.append("views/below", ROWS, partitions=1, schema="k bigint")
    return found


def stop() -> bool:
    raise Stopped


def interrupted(topic: Topic) -> None:
    """Delete a topic in a process that stops when the record is gone."""
    with pytest.raises(Stopped):
        delete_topic(topic, stop)


def test_nothing_of_a_topic_is_left_and_topics_below_it_stay(log: LogSystem) -> None:
    assert delete_topic(log.topic("views"))
    assert log.topics() == ["views/below"]
    assert log.filesystem.list("topics/views") == ["below"]
    assert log.append("views", ROWS, partitions=1, schema="k bigint")["commit"] == 0


def test_a_topic_that_is_held_is_given_back_as_it_was(log: LogSystem) -> None:
    before = log.topic("views")
    assert not delete_topic(before, lambda: True)
    assert log.topic("views").identity == before.identity
    assert log.slice(StreamSpec("views"))["offsets"] == [[0, 3]]
    assert DELETING not in log.filesystem.list("topics/views")


def test_while_a_topic_is_being_deleted_nobody_opens_it_or_makes_it(log: LogSystem) -> None:
    interrupted(log.topic("views"))
    with pytest.raises(TopicError, match="There is no topic 'views'"):
        log.topic("views")
    with pytest.raises(TopicError, match="the deletion of a former one was interrupted"):
        log.append("views", ROWS, partitions=1, schema="k bigint")


def test_a_sweep_finishes_a_deletion_whose_process_has_long_stopped_and_no_other(
    log: LogSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(log.topic("views"))
    sweep(log.filesystem, "log")
    assert "commits" in log.filesystem.list("topics/views")
    monkeypatch.setattr(maintenance, "YOUNG_SECONDS", -60.0)
    sweep(log.filesystem, "log")
    assert log.filesystem.list("topics/views") == ["below"]


def test_a_sweep_deletes_every_topic_that_has_expired(log: LogSystem) -> None:
    for name in log.topics():
        mark_expired(log.topic(name), 0)
    assert sorted(sweep(log.filesystem, "log").topics) == ["views", "views/below"]
    assert log.topics() == []


def test_who_asks_for_a_topic_to_delete_finishes_its_interrupted_deletion(
    log: LogSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(log.topic("views"))
    monkeypatch.setattr(maintenance, "YOUNG_SECONDS", -60.0)
    assert log.expiring("views") is None
    assert log.filesystem.list("topics/views") == ["below"]


def test_a_topic_that_was_made_anew_meanwhile_stays(log: LogSystem) -> None:
    former = log.topic("views")
    delete_topic(former)
    log.append("views", ROWS, partitions=1, schema="k bigint")
    assert not delete_topic(former)
    assert log.slice(StreamSpec("views"))["offsets"] == [[0, 3]]
    assert DELETING not in log.filesystem.list("topics/views")

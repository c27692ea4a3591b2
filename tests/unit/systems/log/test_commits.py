"""Commits of a topic: a writer that loses the race for a number takes the next one, after a short wait."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.log import commits
from airflow_samza.systems.log.commits import append_commit, load_tail
from airflow_samza.systems.log.tails import TAIL_CACHE
from airflow_samza.systems.log.topic import create_topic, open_topic

LOSSES = 30


class Crowded(LocalFilesystem):
    """A root where others are quicker with their commits."""

    quicker = LOSSES

    def put_if_absent(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        if "/commits/" in path and self.quicker:
            self.quicker -= 1
            others = open_topic(LocalFilesystem(self.location("")), "log", "views")
            append_commit(others, f"other-{self.quicker}", "1", 0, ())
        return super().put_if_absent(path, data, durable=durable)


def test_the_root_of_a_producer_is_known_from_commits_and_from_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "SNAPSHOT_EVERY", 3)
    topic = create_topic(LocalFilesystem(tmp_path), "log", "views", 1, "id bigint")
    append_commit(topic, "of-a-former-version", "1", 0, ())
    append_commit(topic, "app/run/stage", "1", 0, (), root="here")
    for number in range(5):
        TAIL_CACHE.forget(topic)
        with pytest.raises(TopicError, match=r"generation 1 of app/run/stage has committed, .* identity is 'here'"):
            append_commit(topic, "app/run/stage", "2", 0, (), root="there")
        assert append_commit(topic, "app/run/stage", "1", 0, (), root="here") is None
        append_commit(topic, f"other-{number}", "1", 0, ())
    assert topic.snapshot_path(5) in [
        f"{topic.directory}/snapshots/{name}" for name in topic.filesystem.list(f"{topic.directory}/snapshots")
    ]
    append_commit(topic, "of-a-former-version", "1", 1, (), root="there")


@pytest.mark.parametrize("damage", [{"seen": []}, {"roots": []}, {"slots": [1]}, {"next": None}])
def test_a_snapshot_that_holds_something_else_is_damage_of_its_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: dict[str, object]
) -> None:
    monkeypatch.setattr(commits, "SNAPSHOT_EVERY", 1)
    topic = create_topic(LocalFilesystem(tmp_path), "log", "views", 1, "id bigint")
    append_commit(topic, "app/run/stage", "1", 0, (), root="here")
    TAIL_CACHE.forget(topic)
    record = topic.read_json(topic.snapshot_path(0))
    record["state"] |= damage
    topic.filesystem.put(topic.snapshot_path(0), json.dumps(record).encode())
    with pytest.raises(TopicError, match=r"is damaged: .* cannot be understood"):
        load_tail(topic)


def test_a_writer_that_loses_races_waits_for_forty_milliseconds_at_most_and_comes_behind_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    files = Crowded(tmp_path)
    topic = create_topic(files, "log", "views", 1, "id bigint")
    commit = append_commit(topic, "mine", "1", 0, ())
    assert commit is not None
    assert (commit.number, len(waits)) == (LOSSES, LOSSES)
    assert all(0 <= wait <= min(0.002 * losses, 0.04) for losses, wait in enumerate(waits, 1))
    assert append_commit(topic, "mine", "1", 0, ()) is None

"""Topics of the log: the counts of partitions that one may be made with."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_samza.config import MAX_PARTITIONS
from airflow_samza.errors import TopicError
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.log.topic import create_topic, find_topic


@pytest.mark.parametrize("partitions", [-1, 0, MAX_PARTITIONS + 1])
def test_rejects_a_topic_without_partitions_or_with_too_many_and_makes_nothing(tmp_path: Path, partitions: int) -> None:
    files = LocalFilesystem(tmp_path)
    with pytest.raises(TopicError, match=f"'views' cannot have {partitions} partitions"):
        create_topic(files, "log", "views", partitions, "id bigint")
    assert find_topic(files, "log", "views") is None


@pytest.mark.parametrize("partitions", [1, MAX_PARTITIONS])
def test_a_topic_has_the_count_that_it_is_made_with(tmp_path: Path, partitions: int) -> None:
    files = LocalFilesystem(tmp_path)
    assert create_topic(files, "log", "views", partitions, "id bigint").partitions == partitions

"""Commits through a Hive metastore by processes that die, or stand still, while they hold the lock of a table."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.system import Publication, StreamSpec
from tests.support.hive_metastore import LOCK_SECONDS, publish_but, take_lock
from tests.support.iceberg_catalogs import binding_of, scanned, system_of
from tests.support.slotted import Slotted, day

pytestmark = pytest.mark.nightly

OUTPUT = StreamSpec(
    "out", partitions=1, schema="id bigint", written=True, options=(("table", "web.out"), ("create", "true"))
)


@pytest.fixture
def options(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    with binding_of("hive", tmp_path / "lake", request) as options:
        yield options


def work(options: dict[str, Any], number: int) -> Publication:
    return Slotted("iceberg", "", options).publication(f"run-{number}", [number], day(number))


def ids(options: dict[str, Any]) -> list[int]:
    return sorted(row["id"] for row in scanned(options))


def started(options: dict[str, Any], publication: Publication, act: str, folder: Path) -> BaseProcess:
    """Start a process that publishes, and does something when it is about to let the metastore store its commit."""
    arguments = (options, OUTPUT, publication, act, folder)
    process = multiprocessing.get_context("spawn").Process(target=publish_but, args=arguments)
    process.start()
    return process


@pytest.mark.parametrize(("act", "before"), [("dies", []), ("dies when it is stored", [1])])
def test_the_lock_of_who_has_died_is_waited_for(
    options: dict[str, Any], tmp_path: Path, act: str, before: list[int]
) -> None:
    first, second = work(options, 1), work(options, 2)
    process = started(options, first, act, tmp_path)
    process.join(120)
    assert (process.exitcode, ids(options)) == (9, before)
    system_of(options).publish(OUTPUT, second)
    system_of(options).publish(OUTPUT, first)
    assert ids(options) == [1, 2]


def test_who_stands_still_until_the_lock_is_of_another_replaces_nothing(
    options: dict[str, Any], tmp_path: Path
) -> None:
    first, second = work(options, 1), work(options, 2)
    process = started(options, first, "stands still", tmp_path)
    while not (tmp_path / "stands").exists():
        assert process.is_alive()
        time.sleep(0.05)
    system_of(options).publish(OUTPUT, second)
    (tmp_path / "go").touch()
    process.join(120)
    assert process.exitcode == 0
    assert ids(options) == [1, 2]


def test_a_lock_that_nobody_lets_go_of_is_an_error_within_bounded_time(options: dict[str, Any]) -> None:
    publication = work(options, 1)
    impatient = system_of({**options, "lock-check-retries": "2"})
    take_lock(str(options["uri"]), "web", "out")
    began = time.monotonic()
    with pytest.raises(StorageUnavailable, match=r"table web\.out of the Hive metastore .* is locked") as error:
        impatient.publish(OUTPUT, publication)
    assert time.monotonic() - began < LOCK_SECONDS
    assert error.value.retryable
    system_of(options).publish(OUTPUT, publication)
    assert ids(options) == [1]

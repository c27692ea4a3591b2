"""Object stores under roots: who creates a key knows it, also where answers are lost and writers race.

S3 (moto) runs always, Azure Blob Storage (Azurite) and the XML API of Google Cloud Storage (before moto) nightly.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.object_store.client import ONE_REQUEST, READ_WHOLE
from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem, open_object_store
from airflow_samza.systems.filesystems.object_store.probe import check_store
from demo.store_servers import Server
from tests.support.faulty_store import Asked, FaultyStore, at

STORES = ["s3", pytest.param("azure", marks=pytest.mark.nightly), pytest.param("gcs", marks=pytest.mark.nightly)]


@pytest.fixture(params=STORES)
def server(request: pytest.FixtureRequest) -> Server:
    found: Server = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def faulty(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    with FaultyStore(server.endpoint) as found:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value.replace(server.endpoint, found.endpoint))
        yield found


@pytest.fixture
def files(faulty: FaultyStore, server: Server, tmp_path: Path) -> ObjectStoreFilesystem:
    """The root of a test, behind a proxy."""
    return open_object_store(server.url(f"{tmp_path.parent.name}/{tmp_path.name}"))


def at_once(count: int, act: Callable[[int], object]) -> list[object]:
    """Results of many threads that begin together."""
    gate, answers = threading.Barrier(count), []

    def run(number: int) -> None:
        gate.wait()
        answers.append(act(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("fault", ["lost", "error after"])
def test_a_create_whose_answer_is_lost_knows_its_own_write(
    faulty: FaultyStore, files: ObjectStoreFilesystem, fault: str
) -> None:
    faulty.fault = at(fault, 1, 2)
    assert files.put_if_absent("a", b"x")
    assert [asked.method for asked in faulty.asked] == ["PUT", "PUT", "PUT", "HEAD"]


def test_a_create_that_lost_its_answer_after_another_had_won_does_not_take_the_others_file_for_its_own(
    faulty: FaultyStore, files: ObjectStoreFilesystem
) -> None:
    assert files.put_if_absent("a", b"the same bytes")
    faulty.fault = at("lost", 1)
    assert not files.put_if_absent("a", b"the same bytes")


@pytest.mark.extended
def test_of_fifty_writers_of_one_key_one_wins_and_each_knows_though_every_third_answer_is_lost(
    faulty: FaultyStore, files: ObjectStoreFilesystem
) -> None:
    faulty.fault = lambda asked: "lost" if asked.method == "PUT" and asked.number % 3 == 0 else None
    answers = at_once(50, lambda number: files.put_if_absent("a", b"the same bytes"))
    assert (answers.count(True), answers.count(False)) == (1, 49)


def test_every_create_carries_its_condition(faulty: FaultyStore, files: ObjectStoreFilesystem) -> None:
    files.put_if_absent("a", b"x")
    files.put("a", b"y")
    assert [asked.conditional for asked in faulty.asked] == [True, False]


@pytest.mark.extended
def test_a_large_file_appears_whole_and_once_whatever_answers_are_lost(
    faulty: FaultyStore, files: ObjectStoreFilesystem
) -> None:
    lost: list[str] = []

    def lose_each_once(asked: Asked) -> str | None:
        what = f"{asked.method} {'.tmp-' in asked.path} {'comp=' in asked.path or 'upload' in asked.path.lower()}"
        if asked.method in ("PUT", "POST") and what not in lost:
            lost.append(what)
            return "lost"
        return None

    with files.open_output("large") as file:
        file.write(b"\1" * (ONE_REQUEST + 1))
        faulty.fault = lose_each_once
    faulty.fault = lambda asked: None
    assert lost
    assert files.list(".") == ["large"]
    assert files.size("large") == ONE_REQUEST + 1
    assert len(files.client.below(files.key("."))) == 1


@pytest.mark.nightly
def test_a_large_file_that_another_has_written_meanwhile_is_left_alone(files: ObjectStoreFilesystem) -> None:
    first, second = files.open_output("large"), files.open_output("large")
    for number, file in enumerate((first, second)):
        file.write(bytes([number]) * (ONE_REQUEST + 1))
    second.close()
    with pytest.raises(FileExistsError):
        first.close()
    assert set(files.read("large")) == {1}
    assert len(files.client.below(files.key("."))) == 1


def test_a_small_file_is_read_in_one_request_and_the_end_of_a_large_one_too(
    faulty: FaultyStore, files: ObjectStoreFilesystem
) -> None:
    table = pa.table({"n": range(1000)})
    for name, rows in {"small": table, "large": pa.table({"n": pa.array(range(1_000_000)).cast(pa.float64())})}.items():
        content = io.BytesIO()
        pq.write_table(rows, content, use_dictionary=False, compression="none")
        files.put(name, content.getvalue())
    assert files.size("large") > 4 * READ_WHOLE
    del faulty.asked[:]
    assert pq.read_table(files.open_input("small")) == table
    assert len(faulty.asked) == 1
    assert pq.ParquetFile(files.open_input("large")).metadata.num_rows == 1_000_000
    from_the_end = files.client.address.store != "azure"
    assert len(faulty.asked) == (2 if from_the_end else 3)


def test_a_large_file_is_read_ahead_more_and_more(faulty: FaultyStore, files: ObjectStoreFilesystem) -> None:
    content = bytes(range(256)) * (1 << 16)
    files.put("a", content)
    del faulty.asked[:]
    file, read = files.open_input("a"), b""
    while piece := file.read(300_000):
        read += piece
    assert read == content
    assert len(faulty.asked) < 8  # half a megabyte at a time they would be 32


def test_a_root_on_the_store_passes_its_check(faulty: FaultyStore, files: ObjectStoreFilesystem) -> None:
    assert check_store(files) == ()
    assert files.client.below(files.key(".")) == ()


def test_every_request_is_counted(faulty: FaultyStore, files: ObjectStoreFilesystem) -> None:
    before = requests.snapshot()
    for number in range(3):
        files.put_if_absent(f"d/{number}", b"x" * number)
        files.put_if_absent(f"d/{number}", b"x")
        files.open_input(f"d/{number}").read()
    files.rename("d/0", "d/3")
    files.exists("d")
    files.list("d")
    files.delete_tree("d")
    counted = requests.since(before)
    assert sum(counted.values()) - counted.get("retried", 0) == len(faulty.asked)

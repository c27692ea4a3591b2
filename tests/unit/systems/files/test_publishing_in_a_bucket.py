"""Views of an output in a bucket while it is published there, and after its publisher has died."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.systems.files.location import Location, open_location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.filesystems.arrow_handler import ObjectStoreHandler
from airflow_samza.systems.filesystems.object_store.client import ObjectClient
from airflow_samza.systems.system import MessageRun, Publication, StreamSpec, SystemBinding, SystemStreamPartition
from demo.store_servers import S3Server
from tests.support.slotted import day

STREAM = StreamSpec("out", schema="id bigint", format="parquet")
OLD, NEW = [[1, 2]], [[11, 12], [13]]
"""The rows of each task in the generation before, and in the one that is published."""


class Crash(BaseException):
    """The process died here."""


def watched(client: ObjectClient, before: Callable[[str], None]) -> ObjectClient:
    """A client of the same bucket that asks before each request that changes something."""
    found = ObjectClient(client.address, client.access)

    def asking(name: str, request: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*arguments: Any, **options: Any) -> Any:
            before(name)
            return request(*arguments, **options)

        return asked

    for name in ("copy", "delete", "put", "upload"):
        setattr(found, name, asking(name, getattr(found, name)))
    return found


def system(url: str, before: Callable[[str], None] | None = None) -> FilesSystem:
    place = open_location(url)
    if before is not None:
        client = watched(place.filesystem.handler._client, before)
        place = Location(pafs.PyFileSystem(ObjectStoreHandler(client)), place.path, place.prefix)
    return FilesSystem("lake", SystemBinding("files", {"root": url}), location=place)


def staged(url: str, rows: list[list[int]], generation: str, run: str = "run", *, slot: bool = False) -> Publication:
    files = {}
    for task, ids in enumerate(rows):
        producer = system(url).producer(STREAM, f"{generation}-{task}")
        producer.write(0, pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64())}))
        files[task] = json.loads(json.dumps(producer.finish()))
    return Publication(f"app/{run}/stage", generation, 0, files, slot=day(1) if slot else None)


def replacement(url: str, by: str) -> Publication:
    """Publish the rows before; return what replaces them: the stage's next generation, or another run."""
    system(url).publish(STREAM, staged(url, OLD, "1.1", slot=by == "another run"))
    if by == "another run":
        return staged(url, NEW, "1.1", "backfill", slot=True)
    return staged(url, NEW, "1.2")


by_whom = pytest.mark.parametrize("by", ["a clear", "another run"])


def of_others(url: str) -> list[list[int]]:
    """The rows of each file that another engine sees: of all that are not hidden."""
    place = open_location(url) / "out"
    infos = place.filesystem.get_file_info(pafs.FileSelector(place.path))
    return sorted(
        pq.read_table(info.path, filesystem=place.filesystem)["id"].to_pylist() for info in infos if info.is_file
    )


def of_ours(url: str) -> list[int]:
    files = system(url)
    stream = StreamSpec("out", schema="id bigint", format="parquet")
    runs = files.consumer(stream, files.slice(stream)).read(SystemStreamPartition("lake", "out", 0), None)
    return sorted(number for run in runs if isinstance(run, MessageRun) for number in run.batch["id"].to_pylist())


def flat(rows: list[list[int]]) -> list[int]:
    return [number for ids in rows for number in ids]


@pytest.fixture
def url(s3: S3Server, tmp_path: Path) -> str:
    return s3.url(f"publishing/{tmp_path.parent.name}/{tmp_path.name}")


@by_whom
@pytest.mark.extended
def test_each_file_is_seen_whole_or_not_at_all_and_by_our_readers_each_set_is(url: str, by: str) -> None:
    work = replacement(url, by)
    others: list[list[list[int]]] = []
    ours: list[list[int]] = []

    def look(name: str) -> None:
        others.append(of_others(url))
        ours.append(of_ours(url))

    system(url, look).publish(STREAM, work)
    look("at the end")
    assert all(ids in OLD + NEW for seen in others for ids in seen)
    assert [*OLD, NEW[0]] in others  # of a set of files, other engines may see a part
    assert [*OLD, *NEW] in others  # and two generations
    assert [seen for number, seen in enumerate(ours) if number == 0 or seen != ours[number - 1]] == [
        flat(OLD),
        flat(NEW),
    ]
    assert others[-1] == NEW


@pytest.mark.extended
@by_whom
def test_what_a_publisher_that_dies_at_any_request_leaves_is_finished_by_the_next(url: str, by: str) -> None:
    point, died = 0, True
    while died:
        place, point, seen = f"{url}/{point}", point + 1, 0

        def die(name: str, point: int = point) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                raise Crash(name)

        work = replacement(place, by)
        try:
            system(place, die).publish(STREAM, work)
            died = False
        except Crash:
            assert of_ours(place) in (flat(OLD), flat(NEW))
            assert all(ids in OLD + NEW for ids in of_others(place))
            system(place).publish(STREAM, work)
        assert (of_others(place), of_ours(place)) == (NEW, flat(NEW))
    assert point > 8  # two copies, a manifest, and what is deleted


KILLED = """
import os, signal, sys
from tests.unit.systems.files.test_publishing_in_a_bucket import NEW, STREAM, staged, system

copies = 0

def die(name):
    global copies
    copies += name == "copy"
    if copies == 2:
        os.kill(os.getpid(), signal.SIGKILL)

system(sys.argv[1], die).publish(STREAM, staged(sys.argv[1], NEW, "1.2"))
"""


@pytest.mark.extended
def test_a_publication_whose_process_was_killed_between_two_files_is_finished_by_another(url: str) -> None:
    system(url).publish(STREAM, staged(url, OLD, "1.1"))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[4])}
    done = subprocess.run([sys.executable, "-c", KILLED, url], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    assert of_others(url) == [*OLD, NEW[0]]
    assert of_ours(url) == flat(OLD)
    system(url).publish(STREAM, Publication("app/run/stage", "1.2", 0, described(url)))
    assert (of_others(url), of_ours(url)) == (NEW, flat(NEW))


def described(url: str) -> dict[int, Any]:
    """The record of the staged files that the killed process had, from those of the same rows staged elsewhere."""
    return dict(staged(f"{url}/again", NEW, "1.2").staged)

"""Runs of one name under several roots at one folder: only the first publishes, whatever dies or comes between."""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import TopicError
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.systems.system import Publication, SystemBinding
from tests.support.faulty_arrow import FaultyHandler
from tests.support.slotted import Slotted, day

ROWS = {"here": [1, 2, 3], "there": [4]}


class Crash(Exception):
    """The process died here."""


def publishes(output: Slotted, work: Publication, before: Callable[[], None] = lambda: None, point: int = 0) -> str:
    """Publish in a process in which something happens before an operation; return what became of it."""
    counted = itertools.count(1)

    def tick(name: str) -> None:
        if next(counted) == point:
            before()

    place = Location(pafs.PyFileSystem(FaultyHandler(tick)), output.root)
    system = FilesSystem("here", SystemBinding("files", {"root": output.root}), location=place)
    try:
        system.publish(output.stream, work)
    except Crash:
        return "died"
    except TopicError as error:
        return "rejected" if "another run of this name, under another root" in error.sentence else error.sentence
    return "published" if next(counted) > point else "published before"


def of_others(output: Slotted) -> list[int]:
    """Return the rows that any other engine finds: in all files that are not hidden."""
    folder = Path(output.root) / "out"
    return sorted(id for path in folder.glob("*.parquet") for id in pq.read_table(path)["id"].to_pylist())


def works(output: Slotted, slot: OutputSlot | None) -> dict[str, Publication]:
    """Return the publications of two namesakes."""
    return {root: output.publication("monday", ids, slot, root=root) for root, ids in ROWS.items()}


@pytest.mark.parametrize("slot", [None, day(1)], ids=["of no slot", "of a day"])
def test_a_namesake_that_publishes_at_any_operation_of_another_mixes_no_rows(
    tmp_path: Path, slot: OutputSlot | None
) -> None:
    seen = set()
    for point in itertools.count(1):
        output = Slotted("files", str(tmp_path / str(point)))
        work, ends = works(output, slot), dict.fromkeys(ROWS, "")

        def namesake(output: Slotted = output, work: Publication = work["there"], ends: dict[str, str] = ends) -> None:
            ends["there"] = publishes(output, work)

        ends["here"] = publishes(output, work["here"], namesake, point)
        if ends["here"] == "published before":
            break
        seen.add((ends["here"], ends["there"]))
        written = [id for root, end in ends.items() if end == "published" for id in ROWS[root]]
        assert output.rows() == of_others(output) == written, f"at operation {point}"
    assert seen == {("rejected", "published"), ("published", "rejected")}


@pytest.mark.extended
def test_a_namesake_that_dies_anywhere_within_the_publication_of_another_mixes_no_rows(tmp_path: Path) -> None:
    def die() -> None:
        raise Crash

    for point, death in itertools.product(range(1, 16, 2), range(1, 20, 2)):
        output = Slotted("files", str(tmp_path / f"{point}-{death}"))
        work = works(output, day(1))

        def namesake(output: Slotted = output, work: Publication = work["there"], death: int = death) -> None:
            publishes(output, work, die, death)

        publishes(output, work["here"], namesake, point)
        again = {root: publishes(output, work[root]) for root in ("there", "here")}
        assert sorted(again.values()) == ["published", "rejected"], f"at operations {point} and {death}"
        written = next(ROWS[root] for root, end in again.items() if end == "published")
        assert output.rows() == of_others(output) == written, f"at operations {point} and {death}"


def test_a_claim_of_a_namesake_that_died_long_ago_counts_no_more(tmp_path: Path) -> None:
    def die() -> None:
        raise Crash

    output = Slotted("files", str(tmp_path))
    work = works(output, None)
    assert publishes(output, work["there"], die, 4) == "died"
    claim = next((tmp_path / "out/_samza/staging").glob("claim-*"))
    assert publishes(output, work["here"]) == "rejected"
    os.utime(claim, (time.time() - 8 * 86400,) * 2)
    assert publishes(output, work["here"]) == "published"
    assert output.rows() == of_others(output) == ROWS["here"]
    assert not any((tmp_path / "out/_samza/staging").glob("claim-*"))


def test_a_manifest_of_a_former_version_is_that_of_any_root(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    first = output.publication("monday", [1], None, root="here", final=False)
    output.system.publish(output.stream, first)
    (place,) = (tmp_path / "out/_samza/manifests").iterdir()
    manifest = json.loads(place.read_text())
    assert manifest.pop("root") == "here"
    place.write_text(json.dumps(manifest))
    assert output.system.publish(output.stream, first)["rows"] == 1
    output.publish("monday", [2], None, root="here", epoch=1)
    assert output.rows() == [1, 2]
    with pytest.raises(TopicError, match="whose identity is 'here'"):
        output.publish("monday", [3], None, root="there", epoch=2)
    output.publish("monday", [4], None, "1.2", root="here")
    assert output.rows() == of_others(output) == [4]


def test_a_run_that_was_replaced_is_still_known_by_its_root(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.publish("monday", [1], day(1), root="here")
    output.publish("backfill", [2], day(1), root="there")
    with pytest.raises(TopicError, match=r"generation 1\.1 of app/monday/stage has committed, .* identity is 'here'"):
        output.publish("monday", [3], day(1), "2.1", root="there")
    output.publish("monday", [4], day(1), "2.1", root="here")
    assert output.rows() == [4]

"""Slots of files: deaths and races of publishers at each operation, what other engines find, and what fsck says."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from airflow_samza.errors import StateError, TopicError
from airflow_samza.records import from_plain
from airflow_samza.systems.files.formats.options import FollowOptions
from airflow_samza.systems.files.fsck import fsck_output
from airflow_samza.systems.files.listing import find_files
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.new_files import FilesRead, find_new_files
from airflow_samza.systems.files.published_files import View
from airflow_samza.systems.files.system import FilesSystem
from airflow_samza.systems.system import Publication, StreamSpec, SystemBinding
from tests.support.faulty_arrow import FaultyHandler
from tests.support.slotted import Slotted, day


class Crash(Exception):
    """The process died here."""


def of_others(output: Slotted) -> list[int]:
    """Return the rows that any other engine finds: in all files that are not hidden."""
    folder = Path(output.root) / "out"
    return sorted(id for path in folder.glob("*.parquet") for id in pq.read_table(path)["id"].to_pylist())


def publisher(
    output: Slotted, before: Callable[[str], None], after: Callable[[str], None] = lambda name: None
) -> FilesSystem:
    """Return the system in a process that calls a function around each operation."""
    place = Location(pafs.PyFileSystem(FaultyHandler(before, after=after)), output.root)
    return FilesSystem("here", SystemBinding("files", {"root": output.root}), location=place)


def left(output: Slotted) -> set[str]:
    root = Path(output.root)
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and "draft-" not in path.name}


@pytest.mark.parametrize("after", [False, True])
def test_a_death_at_any_operation_of_a_replacement_is_made_good_by_the_retry(tmp_path: Path, after: bool) -> None:
    def prepared(name: str) -> tuple[Slotted, Publication]:
        output = Slotted("files", str(tmp_path / name))
        output.publish("tuesday", [100], day(2))
        output.publish("monday", [1], day(1), epoch=0, final=False)
        output.publish("monday", [2], day(1), epoch=1)
        output.publish("monday", [3], day(1), stage="other")
        return output, output.publication("backfill", [4, 5], day(1))

    reference, work = prepared("reference")
    reference.system.publish(reference.stream, work)
    for point in itertools.count(1):
        output, work = prepared(f"{point}")
        seen = 0

        def tick(name: str, point: int = point) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                raise Crash(name)

        dying = publisher(output, *((lambda name: None, tick) if after else (tick, lambda name: None)))
        try:
            dying.publish(output.stream, work)
        except Crash:
            assert output.rows() in ([1, 2, 3, 100], [4, 5, 100])  # one run or the other, never a mixture
            output.system.publish(output.stream, work)
        assert output.rows() == of_others(output) == [4, 5, 100]
        assert left(output) == left(reference), f"after operation {point}"
        if seen < point:
            assert point > 10  # the turn, the move, the manifest, removals: there were many places to die at
            return


def test_of_two_runs_that_publish_at_once_one_stands_whole_at_each_operation(tmp_path: Path) -> None:
    def prepared(name: str) -> tuple[Slotted, Publication, Publication]:
        output = Slotted("files", str(tmp_path / name))
        output.publish("monday", [1], day(1))
        return output, output.publication("one", [10, 11], day(1)), output.publication("two", [20], day(1))

    outcomes = set()
    for point in itertools.count(1):
        output, one, two = prepared(f"{point}")
        seen = 0

        def overtake(name: str, output: Slotted = output, two: Publication = two, point: int = point) -> None:
            nonlocal seen
            seen += 1
            if seen == point:
                output.system.publish(output.stream, two)
            assert output.rows() in ([1], [10, 11], [20])

        told = ""
        try:
            publisher(output, overtake).publish(output.stream, one)
        except TopicError as error:
            told = error.sentence
        if seen < point:
            break
        stands = output.rows()
        assert stands == of_others(output)
        outcomes.add((bool(told), *stands))
        assert "the run 'two' has replaced what it wrote" in told or not told
        with suppress(TopicError):
            output.system.publish(output.stream, one)  # its retry changes nothing
        assert output.rows() == of_others(output) == stands
    # The one that began later stands; a run that had published when it was replaced was told that it has.
    assert outcomes == {(False, 10, 11), (True, 20), (False, 20)}


def test_a_run_that_died_while_it_published_leaves_nothing_that_others_find(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    two_tasks = output.publication("monday", [1], day(1))
    two_tasks = two_tasks._replace(staged={**two_tasks.staged, 1: output.stage([2])[0]})

    def at_the_manifest(name: str) -> None:
        if name == "move" and len(of_others(output)) == 2:
            raise Crash(name)

    with pytest.raises(Crash):
        publisher(output, at_the_manifest).publish(output.stream, two_tasks)
    assert (output.rows(), of_others(output)) == ([], [1, 2])
    output.publish("backfill", [4], day(1))
    assert output.rows() == of_others(output) == [4]
    with pytest.raises(TopicError, match="the run 'backfill' has replaced"):
        output.system.publish(output.stream, two_tasks)
    assert output.rows() == of_others(output) == [4]


def test_a_run_that_has_begun_and_not_published_replaces_nothing(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.publish("monday", [1], day(1), epoch=0, final=False)

    def at_the_first_part(name: str) -> None:
        if name == "move" and list(Path(output.root).glob("out/_samza/slots/*.2.*")):
            raise Crash(name)

    with pytest.raises(Crash):
        publisher(output, at_the_first_part).publish(output.stream, output.publication("backfill", [4], day(1)))
    output.publish("monday", [2], day(1), epoch=1)
    output.publish("monday", [3], day(1), stage="other")
    assert output.rows() == of_others(output) == [1, 2, 3]


def test_other_engines_find_the_rows_of_one_run_when_a_publication_has_ended(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.append([100])
    for run, ids in (("monday", [1, 2]), ("backfill", [3]), ("by-hand", [])):
        output.publish(run, ids, day(1))
        assert of_others(output) == [*ids, 100]


def test_a_replacement_tells_what_it_removed(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    first = output.publish("monday", [1], day(1))
    assert output.publish("backfill", [4], day(1))["superseded"] == first["files"]


def test_a_folder_that_was_replaced_twenty_times_keeps_a_small_record_of_each_run(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    for number in range(20):
        output.publish(f"run-{number}", [number], day(1))
        for clear in (2, 3):
            output.publish(f"run-{number}", [number], day(1), f"1.{clear}")
    records = [path for path in Path(output.root).rglob("*") if path.is_file()]
    assert len([path for path in records if path.parent.name == "slots"]) == 20
    assert len([path for path in records if path.parent.name == "manifests"]) == 1
    assert all(path.stat().st_size < 400 for path in records if path.parent.name == "slots")


def test_a_version_without_slots_reads_a_folder_that_was_written_by_slots(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.publish("monday", [1], day(1))
    output.publish("backfill", [4], day(1))
    for path in Path(output.root).glob("out/_samza/slots/*"):
        path.unlink()  # it knows none
    assert output.rows() == [4]


def test_files_of_a_former_version_stay_and_a_clear_of_their_run_takes_the_slot(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.publish("monday", [1], None)
    output.publish("backfill", [4], day(1))
    assert output.rows() == [1, 4]
    output.publish("monday", [2], day(1), "2.1")
    assert output.rows() == of_others(output) == [2]


def test_a_follower_rejects_files_that_take_the_place_of_read_ones(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    place = Location(pafs.LocalFileSystem(), output.root)
    stream = StreamSpec("out", schema="id bigint", options=(("order", "name"),))

    def look(read: FilesRead | None, on_rewrite: str = "reject") -> FilesRead:
        options = FollowOptions(order="name", on_rewrite=on_rewrite)
        found = find_new_files(find_files(place, "out"), stream, options, read, all_of_it=False)
        assert all(file.name not in (read.names if read is not None else ()) for file in found.new.files)
        return from_plain(FilesRead, found.record(unread=False))

    output.publish("monday", [1], day(1))
    output.publish("tuesday", [2], day(2))
    read = look(None)
    assert len(read.names) == 2
    output.publish("backfill", [4], day(1))
    with pytest.raises(StateError, match=r"takes the place of what .*, or an earlier run for the same interval"):
        look(read)
    assert len(look(read, "ignore").names) == 3
    output.publish("monday", [5], day(1), "1.2")
    with pytest.raises(StateError, match="takes the place"):
        look(read)
    assert len(look(look(None)).names) == 2  # by whoever had not read what was replaced


def test_fsck_finds_what_is_missing_of_a_slot_and_ignores_what_was_replaced(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    place = Location(pafs.LocalFileSystem(), str(tmp_path / "out"))
    output.publish("monday", [1], day(1))
    facts = output.publish("backfill", [4], day(1))
    assert list(fsck_output(place)) == []
    (tmp_path / "out" / facts["files"][0]).unlink()
    assert ["is missing" in finding.what for finding in fsck_output(place)] == [True]


def test_fsck_passes_over_what_is_replaced_while_it_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = Slotted("files", str(tmp_path))
    place = Location(pafs.LocalFileSystem(), str(tmp_path / "out"))
    output.publish("monday", [1], day(1))
    before = View.of(place)
    for path in (tmp_path / "out" / "_samza").glob("*/*.json"):
        path.unlink()
    monkeypatch.setattr(View, "of", lambda place: before)
    assert list(fsck_output(place)) == []


def test_a_damaged_record_of_a_slot_is_found_and_does_not_change_what_stands(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.publish("monday", [1], day(1))
    for path in Path(output.root).glob("out/_samza/slots/*"):
        path.write_bytes(b"{")
    place = Location(pafs.LocalFileSystem(), str(tmp_path / "out"))
    (finding,) = fsck_output(place)
    assert "is damaged" in str(finding)
    assert not finding.serious
    with pytest.raises(TopicError, match=r"The record .*slot\..* is damaged") as caught:
        output.slots.slot_writers(output.stream, day(1))
    assert "run that interval again" in caught.value.hint
    assert output.rows() == [1]


def test_a_record_that_was_copied_to_another_slot_is_damaged(tmp_path: Path) -> None:
    output = Slotted("files", str(tmp_path))
    output.publish("monday", [1], day(1))
    output.publish("tuesday", [2], day(2))
    monday, tuesday = sorted(Path(output.root).glob("out/_samza/slots/*"))
    tuesday.write_bytes(monday.read_bytes())
    with pytest.raises(TopicError, match="is damaged: it is of another slot than its name says"):
        output.slots.slot_writers(output.stream, day(2))

"""New files of a listing, by the record of what was read before."""

from __future__ import annotations

from airflow_samza.systems.files.formats.options import NAME, FollowOptions
from airflow_samza.systems.files.listing import FileEntry
from airflow_samza.systems.files.new_files import FilesRead, new_files


def test_a_file_that_comes_behind_the_horizon_is_counted_as_late_once() -> None:
    options = FollowOptions(order=NAME)
    read = FilesRead(NAME, {"c": (1, None, None)}, horizon=(0, "b"), passed=1)
    listed = [FileEntry(name, 1, name=name) for name in ("a", "b", "c", "d")]
    new = new_files(read, listed, options, lambda file: True)
    assert ([file.name for file in new.files], new.passed, new.late) == (["d"], 2, 1)
    again = new_files(read.after(new, options.remember), listed, options, lambda file: True)
    assert (again.files, again.passed, again.late) == ((), 2, 0)
    fewer = new_files(read, listed[2:], options, lambda file: True)
    assert (fewer.passed, fewer.late) == (0, 0)

"""Changes of a table since it was read last: commit by commit, as the input range of an input with ``changes=True``.

A commit that has only added files brings rows as they are read in any case. Of one that has taken files out and put
others in, the parts are read together, so that rows that were only written anew cancel out (decision 115).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_samza.errors import StateError
from airflow_samza.systems.files.packing import Unit, pack_chunks
from airflow_samza.systems.files.slicing import CHUNK_BYTES, cut_from
from airflow_samza.systems.tables.inputs.arrivals import RESET, ArrivalsRequest, Commit, recorded_range
from airflow_samza.systems.tables.inputs.change_columns import ADDED, REMOVED
from airflow_samza.systems.tables.inputs.changes import ChangedPart, check_comparable, described_parts, files_there
from airflow_samza.systems.tables.inputs.table_version import TableVersion

_NAME = re.compile(r"(\d*)\.\.(\d+)/\d+")
"""Name of parts that are read together: two versions, and a number; files have others in records of appended rows."""


class _Entry(NamedTuple):
    """Parts that are read together, with a name that stays the same in other ranges."""

    parts: Sequence[ChangedPart]
    commit: Commit
    name: str

    @property
    def size(self) -> int:
        return sum(part.file.size for part in self.parts)


def changes_range(request: ArrivalsRequest) -> dict[str, Any]:
    """Return the range of the changes since a record, with the record of it, as a system of arrivals has it.

    Parts that the run before has left unread come first. Appended rows are read by all partitions; where rows were
    taken away, the first one reads the range, in the order of commits.
    """
    version, intake = request.version, request.intake
    spans = version.spans(intake)
    since = intake[version.word] if intake is not None else None
    then = version.at(since) if since is not None else None
    if then is not None:
        check_comparable(then.columns, version, f"the {version.word} {since}", f"To go on, {RESET}")
    entries = [entry for span in spans for entry in _entries(version.commit(*span))]
    skipped = len(entries) if request.unread else 0
    entries = [] if request.unread else [*_left(request), *entries]
    parts = [part for entry in entries for part in entry.parts]
    range_ = {**described_parts(parts, version), "remedy": f"{version.keep} To go on, {RESET}"}
    commits = {(entry.commit.number, entry.commit.time): None for entry in entries}
    places = {commit: place for place, commit in enumerate(commits)}
    listed = iter(range_["files"])
    range_["files"] = [
        {
            **_together([next(listed) for _ in entry.parts]),
            "commit": places[entry.commit.number, entry.commit.time],
            "name": entry.name,
        }
        for entry in entries
    ]
    range_["commits"] = [{"number": number, "time": time} for number, time in commits]
    spread = request.partitions if all(part.change == ADDED for part in parts) else 1
    with files_there(range_):
        cut = _cut(entries, version, min(cut_from(int(range_["bytes"]), spread), CHUNK_BYTES))
    nothing: list[Any] = [[] for _ in range(request.partitions - spread)]
    chunks = [[*chunk, *nothing] for chunk in pack_chunks(cut, spread, CHUNK_BYTES)]
    return recorded_range(request, range_, chunks, skipped=skipped)


def _entries(commit: Commit) -> list[_Entry]:
    """Return what of a commit is read one after the other: rows that are gone before those that have come."""
    gone, come = ([part for part in commit.parts if part.change == change] for change in (REMOVED, ADDED))
    ordered = [*gone, *come]
    groups = [ordered] if gone and come and not ordered[0].feed else [[part] for part in ordered]
    return [_Entry(group, commit, f"{commit.since}..{commit.until}/{place}") for place, group in enumerate(groups)]


def _together(files: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the description of parts that are read together as one file of a range."""
    if len(files) == 1:
        return files[0]
    return {"path": files[0]["path"], "size": sum(int(file["size"]) for file in files), "parts": list(files)}


def _cut(entries: Sequence[_Entry], version: TableVersion, threshold: int) -> list[Unit]:
    """Return the units of entries: large files are cut by row groups, what is read together is not."""
    single = [place for place, entry in enumerate(entries) if len(entry.parts) == 1]
    cut = [
        unit._replace(file=single[unit.file])
        for unit in version.units([entries[place].parts[0].file for place in single], threshold)
    ]
    together = [Unit(place, 0, None, entry.size) for place, entry in enumerate(entries) if len(entry.parts) > 1]
    return sorted([*cut, *together], key=lambda unit: (unit.file, unit.start))


def _left(request: ArrivalsRequest) -> list[_Entry]:
    """Return the parts that the run before has left unread; one that cannot be read any more is an error."""
    names = dict.fromkeys((request.intake or {}).get("unread", ()))
    spans = dict.fromkeys(named.group(1, 2) for name in names if (named := _NAME.fullmatch(name)) is not None)
    entries = [entry for span in spans for entry in _entries(request.version.commit(*span)) if entry.name in names]
    gone = sorted(set(names).difference(entry.name for entry in entries))
    if gone:
        table, stream = request.version.name, request.version.stream.name
        raise StateError(
            f"The run before has left changes of the table {table} (input {stream!r}) unread, those of "
            f"{gone[0]}, and they are not there any more.",
            hint=f"To go on, {RESET}",
            table=table,
            stream=stream,
        )
    return sorted(entries, key=lambda entry: (entry.commit.number, entry.commit.time, _place(entry)))


def _place(entry: _Entry) -> int:
    return int(entry.name.rpartition("/")[2])

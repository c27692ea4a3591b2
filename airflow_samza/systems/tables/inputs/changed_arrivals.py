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


class _PartGroup(NamedTuple):
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
    groups = [group for span in spans for group in _groups(version.commit(*span))]
    skipped = len(groups) if request.unread else 0
    groups = [] if request.unread else [*_unread_groups(request), *groups]
    parts = [part for group in groups for part in group.parts]
    range_ = {**described_parts(parts, version), "remedy": f"{version.keep} To go on, {RESET}"}
    commits = {(group.commit.number, group.commit.time): None for group in groups}
    places = {commit: place for place, commit in enumerate(commits)}
    listed = iter(range_["files"])
    range_["files"] = [
        {
            **_as_one_file([next(listed) for _ in group.parts]),
            "commit": places[group.commit.number, group.commit.time],
            "name": group.name,
        }
        for group in groups
    ]
    range_["commits"] = [{"number": number, "time": time} for number, time in commits]
    spread = request.partitions if all(part.change == ADDED for part in parts) else 1
    with files_there(range_):
        cut = _units(groups, version, min(cut_from(int(range_["bytes"]), spread), CHUNK_BYTES))
    nothing: list[Any] = [[] for _ in range(request.partitions - spread)]
    chunks = [[*chunk, *nothing] for chunk in pack_chunks(cut, spread, CHUNK_BYTES)]
    return recorded_range(request, range_, chunks, skipped=skipped)


def _groups(commit: Commit) -> list[_PartGroup]:
    """Return what of a commit is read one after the other: rows that are gone before those that have come."""
    removed, added = ([part for part in commit.parts if part.change == change] for change in (REMOVED, ADDED))
    ordered = [*removed, *added]
    groups = [ordered] if removed and added and not ordered[0].feed else [[part] for part in ordered]
    return [
        _PartGroup(group, commit, f"{commit.since}..{commit.until}/{number}") for number, group in enumerate(groups)
    ]


def _as_one_file(files: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the description of parts that are read together as one file of a range."""
    if len(files) == 1:
        return files[0]
    return {"path": files[0]["path"], "size": sum(int(file["size"]) for file in files), "parts": list(files)}


def _units(groups: Sequence[_PartGroup], version: TableVersion, threshold: int) -> list[Unit]:
    """Return the units of groups: large files are cut by row groups, what is read together is not."""
    single = [place for place, group in enumerate(groups) if len(group.parts) == 1]
    cut = [
        unit._replace(file=single[unit.file])
        for unit in version.units([groups[place].parts[0].file for place in single], threshold)
    ]
    together = [Unit(place, 0, None, group.size) for place, group in enumerate(groups) if len(group.parts) > 1]
    return sorted([*cut, *together], key=lambda unit: (unit.file, unit.start))


def _unread_groups(request: ArrivalsRequest) -> list[_PartGroup]:
    """Return the parts that the run before has left unread; one that cannot be read any more is an error."""
    names = dict.fromkeys((request.intake or {}).get("unread", ()))
    spans = dict.fromkeys(named.group(1, 2) for name in names if (named := _NAME.fullmatch(name)) is not None)
    groups = [group for span in spans for group in _groups(request.version.commit(*span)) if group.name in names]
    gone = sorted(set(names).difference(group.name for group in groups))
    if gone:
        table, stream = request.version.name, request.version.stream.name
        raise StateError(
            f"The run before has left changes of the table {table} (input {stream!r}) unread, those of "
            f"{gone[0]}, and they are not there any more.",
            hint=f"To go on, {RESET}",
            table=table,
            stream=stream,
        )
    return sorted(groups, key=lambda group: (group.commit.number, group.commit.time, _number_in_commit(group)))


def _number_in_commit(group: _PartGroup) -> int:
    return int(group.name.rpartition("/")[2])

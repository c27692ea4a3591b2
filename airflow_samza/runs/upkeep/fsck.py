"""Looks at every record of runs, states and pushed tables, and says what is damaged or missing. It changes nothing.

The command ``fsck`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from airflow_samza.errors import SamzaError
from airflow_samza.records import parse_object
from airflow_samza.runs.progress.run_list import NotPlanned, Origin
from airflow_samza.runs.records.comparison import Comparison
from airflow_samza.runs.records.epoch_records import Commit, Intent, Manifest, NeedsRunner, StageStart, StageTopics
from airflow_samza.runs.records.folders import RunFolder, StageFolder, numbers, read
from airflow_samza.runs.records.names import Generation, producer_id
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.run_ends import Abort, EndRequest, RunEnd
from airflow_samza.runs.stages.stage_runners import Claim, Heartbeat, RunnerEnd, StageRequest
from airflow_samza.runs.stages.stage_state import StatusRecord
from airflow_samza.runs.state_history.arrivals import Intake, Look
from airflow_samza.runs.state_history.lease import Begun, Ended, Lease
from airflow_samza.runs.state_history.versions import Version, VersionPin
from airflow_samza.runs.tables.folder import GIVEN_UP
from airflow_samza.runs.tables.marks import Mark
from airflow_samza.runs.tables.push_request import PushIntent, PushManifest, PushRequest, PushResult
from airflow_samza.runs.tables.table_version import Compaction, TableVersion
from airflow_samza.runs.upkeep.run_removal import Removal
from airflow_samza.runs.upkeep.topic_expiry import Slimmed
from airflow_samza.storage.snapshots import MISSING, damaged_files
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.log.fsck import Finding, Published

T = TypeVar("T")

TELLS = "Nothing to do: it only tells, and the next one takes its place."
DECIDES = "Restore it, or have the run planned anew: clear its plan task; on the command line: --again."

Kinds = Mapping[str, type | None]
"""Kinds of records by patterns of their names, of which the first counts; None: any JSON object."""

_OF_RUN: Mapping[str, Kinds] = {
    "plan": {"*": RunPlan},
    "ends/*": {"*": EndRequest},
    "start/*": {"*": StageStart},
    "arrivals/*/*": {"*.json": Look},
    "arrivals/*/*/known": {"*": Intake},
    "": {
        "closed.json": RunEnd,
        "origin.json": Origin,
        "not-planned.json": NotPlanned,
        "removing.json": Removal,
        "slimmed.json": Slimmed,
        "comparison.json": Comparison,
        "push.json": PushRequest,
        "*.json": None,
    },
    "branches/*": {"*": None},
    "servers/*/*": {"claim.json": Claim, "heartbeat.json": Heartbeat, "closed.json": RunnerEnd},
    "servers/*/*/queue": {"*": StageRequest},
}
"""The records of a run by their folders in its own, where ``*`` is any name."""

_ATTEMPTS: Mapping[str, Kinds] = {"attempts/*": {"request.json": StageRequest, "status.json": StatusRecord}}
_OF_STAGE: Mapping[str, Kinds] = {
    "": {
        "result.json": StageResult,
        "abort.json": Abort,
        "topics.json": StageTopics,
        "needs-runner.json": NeedsRunner,
        "*.json": None,
    },
    **_ATTEMPTS,
    "epochs/*": {"intent.json": Intent, "commit.json": Commit},
    "manifests/*": {"*": Manifest},
}
_OF_PUSH: Mapping[str, Kinds] = {
    "": {"result.json": PushResult},
    **_ATTEMPTS,
    "epochs/*": {"intent.json": PushIntent},
    "manifests/*": {"*": PushManifest},
}
_OF_STATE: Mapping[str, Kinds] = {
    "leases/*": {"taken.json": Lease, "begun.json": Begun, "ended.json": Ended},
    "pins/*": {"*": VersionPin},
}
_OF_TABLE: Mapping[str, Kinds] = {
    "versions": {"*": TableVersion},
    "compactions": {f"*{GIVEN_UP}": Mark, "*": Compaction},
    "expired": {"*": Mark},
}
_TELLING = frozenset(
    {RunEnd, Origin, NotPlanned, Removal, Slimmed, Comparison, Claim, Heartbeat, RunnerEnd, StatusRecord}
)
"""Kinds of records whose presence counts, or that only tell."""


def checked(files: Filesystem, path: str, kind: type | None, *, remedy: str = DECIDES) -> Iterator[Finding]:
    """Yield what is wrong with one record, if it is there."""
    try:
        if kind is None:
            if files.exists(path):
                parse_object(files.read(path), files.location(path))
        else:
            read(files, path, kind)
    except SamzaError as error:
        why, tells = str(error.facts.get("why") or error.sentence), kind in _TELLING
        yield Finding(files.location(path), f"is damaged: {why}", TELLS if tells else remedy, serious=not tells)


def _checked_below(files: Filesystem, folder: str, records: Mapping[str, Kinds]) -> Iterator[Finding]:
    """Yield what is wrong with the records below a folder."""
    for places, kinds in records.items():
        for place in _folders(files, folder, places):
            for name in files.list(place):
                pattern = next((pattern for pattern in kinds if fnmatchcase(name, pattern)), None)
                if pattern is not None:
                    yield from checked(files, f"{place}/{name}", kinds[pattern])


def _folders(files: Filesystem, folder: str, places: str) -> Iterator[str]:
    """Yield the folders below one that a pattern names, in which ``*`` is any name; the folder itself for none."""
    if not places:
        yield folder
        return
    first, _, rest = places.partition("/")
    for name in files.list(folder) if first == "*" else [first]:
        yield from _folders(files, f"{folder}/{name}", rest)


def _whole(files: Filesystem, path: str, kind: type[T]) -> T | None:
    """Return a record if it is there and not damaged; what is wrong with it is said already."""
    with suppress(SamzaError):
        return read(files, path, kind)
    return None


def fsck_run(files: Filesystem, run: RunFolder) -> Iterator[Finding]:
    """All findings on the records of a run, of its stages and of what they keep."""
    yield from _checked_below(files, run.path, _OF_RUN)
    is_push, is_closed = files.exists(f"{run.path}/push.json"), files.exists(run.closed)
    for _, folder in _stages(files, run):
        yield from _checked_below(files, folder.path, _OF_PUSH if is_push else _OF_STAGE)
        if not is_push:
            yield from _fsck_epochs(files, folder, goes_on=not is_closed and not files.exists(folder.result))


def published_by(files: Filesystem, run: RunFolder) -> Iterator[tuple[str, str, Published, float]]:
    """Yield what results of a run's stages say to be in topics: system, topic, what, and when it was written.

    Times are in seconds since 1970.
    """
    for generation, folder in _stages(files, run):
        result = _whole(files, folder.result, StageResult)
        for output in result.outputs if result is not None else ():
            if output.held and not files.exists(folder.published):
                continue  # it waits for an approval, or has got none
            if result is not None and (output.messages or output.control):
                producer = producer_id(result.application, result.run_id, result.stage_id)
                said = Published(producer, str(generation), result.epochs - 1, files.location(folder.result))
                yield output.system, output.stream, said, files.modified(folder.result)


def written_by(files: Filesystem, run: RunFolder) -> Iterator[tuple[str, str]]:
    """The places that the results of a run's stages say to have written files to: system and path."""
    for _, folder in _stages(files, run):
        result = _whole(files, folder.result, StageResult)
        for output in result.outputs if result is not None else ():
            if output.facts.get("path"):
                yield output.system, str(output.facts["path"])


def _stages(files: Filesystem, run: RunFolder) -> Iterator[tuple[Generation, StageFolder]]:
    for stage in files.list(f"{run.path}/stages"):
        for name in files.list(f"{run.path}/stages/{stage}"):
            yield Generation.parse(name), StageFolder(f"{run.path}/stages/{stage}/{name}")


def _fsck_epochs(files: Filesystem, folder: StageFolder, *, goes_on: bool) -> Iterator[Finding]:
    """Yield what is missing of a stage's committed epochs."""
    newest: Commit | None = None
    for epoch in numbers(files, folder.epochs):
        if files.exists(folder.commit(epoch)) and not files.exists(folder.intent(epoch)):
            yield Finding(files.location(folder.intent(epoch)), "is missing, and its epoch is committed", DECIDES)
        newest = _whole(files, folder.commit(epoch), Commit) or newest
    for task, epoch in newest.standing.items() if newest is not None else ():
        yield from _fsck_standing(files, folder.manifest(epoch, task), goes_on=goes_on)


def _fsck_standing(files: Filesystem, path: str, *, goes_on: bool) -> Iterator[Finding]:
    """The manifest that a task goes on from, and the state that it names; both are needed while the stage goes on."""
    if not files.exists(path):
        what = "is missing, and the stage's newest commit counts on it"
        yield Finding(files.location(path), what, DECIDES, serious=goes_on)
    manifest = _whole(files, path, Manifest)
    yield from _state_findings(files, manifest.state if manifest is not None else None, serious=goes_on)


def _state_findings(
    files: Filesystem, described: Mapping[str, Any] | None, *, serious: bool = True
) -> Iterator[Finding]:
    """Files of state that are missing, or not as they were written.

    Of stages that are over (not ``serious``) retention takes the files.
    """
    for error in damaged_files(files, described):
        if serious or error.facts.get("what") != MISSING:
            path = str(error.facts.get("path"))
            what = error.sentence.partition(path)[2].strip().removesuffix(".")
            remedy = error.hint if serious else "Nothing to do: the stage is over, and nobody goes on from this."
            yield Finding(path, f"{what} (state of the operator {error.facts.get('operator')!r})", remedy, serious)


_REMEDY = "Restore it, or go back to a version that is whole: airflow-samza state reset."


def fsck_state(files: Filesystem) -> Iterator[tuple[str, list[Finding]]]:
    """The findings on each folder of state under a root."""
    for name in files.list("state"):
        folder = f"state/{name}"
        yield name, [*_checked_below(files, folder, _OF_STATE), *_fsck_versions(files, folder)]


def fsck_tables(files: Filesystem) -> Iterator[tuple[str, list[Finding]]]:
    """The findings on the records of each pushed table under a root; its rows lie in a topic."""
    for system in files.list("tables"):
        for name in files.list(f"tables/{system}"):
            yield f"{system}.{name}", list(_checked_below(files, f"tables/{system}/{name}", _OF_TABLE))


def _fsck_versions(files: Filesystem, folder: str) -> Iterator[Finding]:
    places = [place for pattern in ("versions", "runs/*") for place in _folders(files, folder, pattern)]
    for path in (f"{place}/{name}" for place in places for name in files.list(place) if name.endswith(".json")):
        yield from checked(files, path, Version, remedy=_REMEDY)
        version = _whole(files, path, Version)
        for tasks in version.stages.values() if version is not None else ():
            for left in tasks.values():
                for finding in _state_findings(files, left.get("state")):
                    yield replace(finding, remedy=_REMEDY)

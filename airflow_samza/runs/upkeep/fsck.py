"""Looks at every record of runs, states and pushed tables, and says what is damaged or missing. It changes nothing.

The command ``fsck`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from airflow_samza.errors import SamzaError, StoreError
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

TELLS = "Nothing to do: it only tells, and the next one takes its place."
DECIDES = "Restore it, or have the run planned anew: clear its plan task; on the command line: --again."

_OF_RUN: Mapping[str, type] = {
    "closed.json": RunEnd,
    "origin.json": Origin,
    "not-planned.json": NotPlanned,
    "removing.json": Removal,
    "slimmed.json": Slimmed,
    "comparison.json": Comparison,
    "push.json": PushRequest,
}
_OF_STAGE: Mapping[str, type] = {
    "result.json": StageResult,
    "abort.json": Abort,
    "topics.json": StageTopics,
    "needs-runner.json": NeedsRunner,
}
_TELLING = ("closed.json", "comparison.json", "not-planned.json", "origin.json", "removing.json", "slimmed.json")
"""Records of a run whose presence counts, or that only say where it comes from."""


def checked(
    files: Filesystem, path: str, kind: type | None, *, tells: bool = False, remedy: str = DECIDES
) -> Iterator[Finding]:
    """Yield what is wrong with one record, if it is there."""
    try:
        if kind is None:
            if files.exists(path):
                parse_object(files.read(path), files.location(path))
        else:
            read(files, path, kind)
    except SamzaError as error:
        why = str(error.facts.get("why") or error.sentence)
        yield Finding(files.location(path), f"is damaged: {why}", TELLS if tells else remedy, serious=not tells)


def fsck_run(files: Filesystem, run: RunFolder) -> Iterator[Finding]:
    """All findings on the records of a run, of its stages and of what they keep."""
    for generation in run.plan_generations(files):
        yield from checked(files, run.plan(generation), RunPlan)
        for kind in ("drain", "stop", "deadline"):
            yield from checked(files, f"{run.path}/ends/{generation}/{kind}.json", EndRequest)
        for name in files.list(f"{run.path}/start/{generation}"):
            yield from checked(files, f"{run.path}/start/{generation}/{name}", StageStart)
        for stream in files.list(run.arrivals(generation)):
            yield from _fsck_looks(files, f"{run.arrivals(generation)}/{stream}")
    for name in files.list(run.path):
        if name.endswith(".json"):
            yield from checked(files, f"{run.path}/{name}", _OF_RUN.get(name), tells=name in _TELLING)
    for place in files.list(f"{run.path}/branches"):
        for name in files.list(f"{run.path}/branches/{place}"):
            yield from checked(files, f"{run.path}/branches/{place}/{name}", None)
    for key in files.list(run.servers):
        for number in numbers(files, f"{run.servers}/{key}"):
            place = f"{run.servers}/{key}/{number}"
            for path, of in (("claim", Claim), ("heartbeat", Heartbeat), ("closed", RunnerEnd)):
                yield from checked(files, f"{place}/{path}.json", of, tells=True)
            for name in files.list(f"{place}/queue"):
                yield from checked(files, f"{place}/queue/{name}", StageRequest)
    closed = files.exists(run.closed)
    if files.exists(f"{run.path}/push.json"):
        for _, folder in _stages(files, run):
            yield from _fsck_push(files, folder)
        return
    for _, folder in _stages(files, run):
        yield from _fsck_stage(files, folder, goes_on=not closed and not files.exists(folder.result))


def _fsck_looks(files: Filesystem, folder: str) -> Iterator[Finding]:
    for number in numbers(files, folder):
        yield from checked(files, f"{folder}/{number}.json", Look)
    for name in files.list(f"{folder}/known"):
        yield from checked(files, f"{folder}/known/{name}", Intake)


def published_by(files: Filesystem, run: RunFolder) -> Iterator[tuple[str, str, Published, float]]:
    """Yield what results of a run's stages say to be in topics: system, topic, what, and when it was written.

    Times are in seconds since 1970.
    """
    for generation, folder in _stages(files, run):
        result = _result_of(files, folder)
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
        result = _result_of(files, folder)
        for output in result.outputs if result is not None else ():
            if output.facts.get("path"):
                yield output.system, str(output.facts["path"])


def _result_of(files: Filesystem, folder: StageFolder) -> StageResult | None:
    """The result of a stage, if it is there and whole; :func:`fsck_run` says what is wrong with it."""
    with suppress(SamzaError):
        return read(files, folder.result, StageResult)
    return None


def _stages(files: Filesystem, run: RunFolder) -> Iterator[tuple[Generation, StageFolder]]:
    for stage in files.list(f"{run.path}/stages"):
        for name in files.list(f"{run.path}/stages/{stage}"):
            yield Generation.parse(name), StageFolder(f"{run.path}/stages/{stage}/{name}")


def _fsck_stage(files: Filesystem, folder: StageFolder, *, goes_on: bool) -> Iterator[Finding]:
    for name in files.list(folder.path):
        if name.endswith(".json"):
            yield from checked(files, f"{folder.path}/{name}", _OF_STAGE.get(name))
    yield from _fsck_attempts(files, folder)
    newest: Commit | None = None
    for epoch in numbers(files, folder.epochs):
        yield from checked(files, folder.intent(epoch), Intent)
        if files.exists(folder.commit(epoch)) and not files.exists(folder.intent(epoch)):
            yield Finding(files.location(folder.intent(epoch)), "is missing, and its epoch is committed", DECIDES)
        findings = list(checked(files, folder.commit(epoch), Commit))
        yield from findings
        newest = (read(files, folder.commit(epoch), Commit) if not findings else None) or newest
        for name in files.list(folder.manifests(epoch)):
            yield from checked(files, f"{folder.manifests(epoch)}/{name}", Manifest)
    for task, epoch in newest.standing.items() if newest is not None else ():
        yield from _fsck_standing(files, folder, task, epoch, goes_on=goes_on)


def _fsck_attempts(files: Filesystem, folder: StageFolder) -> Iterator[Finding]:
    for number in numbers(files, folder.attempts):
        yield from checked(files, folder.attempt(number, "request"), StageRequest)
        yield from checked(files, folder.attempt(number, "status"), StatusRecord, tells=True)


def _fsck_push(files: Filesystem, folder: StageFolder) -> Iterator[Finding]:
    yield from checked(files, folder.result, PushResult)
    yield from _fsck_attempts(files, folder)
    for epoch in numbers(files, folder.epochs):
        yield from checked(files, folder.intent(epoch), PushIntent)
        for name in files.list(folder.manifests(epoch)):
            yield from checked(files, f"{folder.manifests(epoch)}/{name}", PushManifest)


def _fsck_standing(
    files: Filesystem, folder: StageFolder, task: int, epoch: int, *, goes_on: bool
) -> Iterator[Finding]:
    """The manifest that a task goes on from, and the state that it names; both are needed while the stage goes on."""
    path = folder.manifest(epoch, task)
    if not files.exists(path):
        yield Finding(
            files.location(path), "is missing, and the stage's newest commit counts on it", DECIDES, serious=goes_on
        )
        return
    try:
        manifest = read(files, path, Manifest)
        state = manifest.state if manifest is not None else None
    except SamzaError:
        return  # said already
    yield from state_findings(files, state, serious=goes_on)


def state_findings(
    files: Filesystem, described: Mapping[str, Any] | None, *, serious: bool = True
) -> Iterator[Finding]:
    """Files of state that are missing, or not as they were written.

    Of stages that are over (not ``serious``) retention takes the files.
    """
    for error in damaged_files(files, described):
        if serious or error.facts.get("what") != MISSING:
            yield _of_state(error, serious)


def _of_state(error: StoreError, serious: bool) -> Finding:
    path = str(error.facts.get("path"))
    what = error.sentence.partition(path)[2].strip().removesuffix(".")
    remedy = error.hint if serious else "Nothing to do: the stage is over, and nobody goes on from this."
    return Finding(path, f"{what} (state of the operator {error.facts.get('operator')!r})", remedy, serious)


_REMEDY = "Restore it, or go back to a version that is whole: airflow-samza state reset."


def fsck_state(files: Filesystem) -> Iterator[tuple[str, list[Finding]]]:
    """The findings on each folder of state under a root."""
    for name in files.list("state"):
        yield name, list(_findings(files, f"state/{name}"))


def fsck_tables(files: Filesystem) -> Iterator[tuple[str, list[Finding]]]:
    """The findings on the records of each pushed table under a root; its rows lie in a topic."""
    for system in files.list("tables"):
        for name in files.list(f"tables/{system}"):
            yield f"{system}.{name}", list(_table_findings(files, f"tables/{system}/{name}"))


def _table_findings(files: Filesystem, folder: str) -> Iterator[Finding]:
    for name in files.list(f"{folder}/versions"):
        yield from checked(files, f"{folder}/versions/{name}", TableVersion)
    for name in files.list(f"{folder}/compactions"):
        yield from checked(files, f"{folder}/compactions/{name}", Mark if name.endswith(GIVEN_UP) else Compaction)
    for name in files.list(f"{folder}/expired"):
        yield from checked(files, f"{folder}/expired/{name}", Mark)


def _findings(files: Filesystem, folder: str) -> Iterator[Finding]:
    for number in numbers(files, f"{folder}/leases"):
        place = f"{folder}/leases/{number:020}"
        for record, kind in (("taken", Lease), ("begun", Begun), ("ended", Ended)):
            yield from checked(files, f"{place}/{record}.json", kind)
    for number in numbers(files, f"{folder}/versions"):
        yield from _version(files, f"{folder}/versions/{number:020}.json")
    for run in files.list(f"{folder}/runs"):
        for number in numbers(files, f"{folder}/runs/{run}"):
            yield from _version(files, f"{folder}/runs/{run}/{number}.json")
    for version in files.list(f"{folder}/pins"):
        for name in files.list(f"{folder}/pins/{version}"):
            yield from checked(files, f"{folder}/pins/{version}/{name}", VersionPin)


def _version(files: Filesystem, path: str) -> Iterator[Finding]:
    try:
        version = read(files, path, Version)
    except SamzaError as error:
        yield Finding(files.location(path), f"is damaged: {error.facts.get('why') or error.sentence}", _REMEDY)
        return
    for tasks in version.stages.values() if version is not None else ():
        for left in tasks.values():
            for finding in state_findings(files, left.get("state")):
                yield Finding(finding.path, finding.what, _REMEDY)

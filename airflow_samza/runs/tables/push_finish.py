"""End of a push: the rows that its tasks have staged are checked, committed as one section, and become a version.

Any process may do it, and any may die in between: whoever comes next goes on from the records. No Spark is needed.
There are two races:

- Attempts A and B finish one push. The publication's record that is written first decides, and both follow it.
- Pushes A and B both follow version n. The record of version n + 1 that is written first, say that of A, stands. B is
  rejected, and its rows are in no version, so readers never see them.

These are the steps, each with the record that says that it is done:

- *staged*: a manifest of each task, as of any stage; ``can_finish`` says that all are there,
- *published*: ``pushes/<push>/publications/<n>.json`` with what was staged and under which generation, and then the
  topic's commit,
- *visible*: the version's record,
- *over*: the stage's result.

The stage runner does it when all tasks have ended, and the runtime for one that died.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from airflow_samza.errors import PushError, SamzaError
from airflow_samza.runs.failpoints import reach
from airflow_samza.runs.records.folders import StageFolder, adopt, must_read, numbers, read, write_once
from airflow_samza.runs.stages.run_ends import RunEnd
from airflow_samza.runs.tables import versions
from airflow_samza.runs.tables.lake_source import LakeSource
from airflow_samza.runs.tables.push_checks import check_rows, totals_of
from airflow_samza.runs.tables.push_request import PushIntent, PushManifest, PushPublication, PushRequest, PushResult
from airflow_samza.runs.tables.retention import expire_versions
from airflow_samza.runs.tables.table_version import FULL, TableVersion, instant_text, now
from airflow_samza.schema import Schema
from airflow_samza.systems.capabilities import DiscardsStaged
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import Publication, StreamSpec, System

log = logging.getLogger("airflow_samza.runner")


def finish_push(
    files: Filesystem, system: System, request: PushRequest, then: Callable[[TableVersion], None] = lambda version: None
) -> TableVersion:
    """Return the version that a push has become; make it one if nobody did. A rejection throws away what was staged.

    ``then`` is done when the version stands, before the push is over; it must not fail.
    """
    folder = request.handle.folder
    standing = versions.by_push_id(files, request.system, request.topic, request.push_id)
    standing = standing or _adopted(files, request)
    if standing is None:
        try:
            versions.reject_late(files, request.system, request.topic, request.table, request.push_id, request.after)
            publication = _published(files, request) or _decide(files, request)
            standing = _make_visible(files, system, request, publication)
        except PushError as error:
            if not error.retryable:
                discard(files, system, request)
            raise
    reach("push-after-version")
    then(standing)
    write_once(files, folder.result, PushResult(standing.number, standing.push_id))
    write_once(files, request.handle.run.closed, RunEnd(True, now()))
    # The push stands whether or not there was room to tidy up; the next one does it again.
    with contextlib.suppress(SamzaError):
        expired = expire_versions(files, system, request.system, request.topic, request.keep_versions)
        if expired:
            log.info("versions %s of table %s are expired", ", ".join(map(str, expired)), request.table)
    return standing


def same_rows(files: Filesystem, request: PushRequest) -> TableVersion | None:
    """Return the current version if a push of the same snapshot of a lake's table, with equal options, has made it.

    It stands for this push, too: but not for data older than it is current from. None: the push has to be done.
    Changes since the snapshot itself are none.
    """
    current = versions.newest(files, request.system, request.topic) if request.lake is not None else None
    if current is None or not current.source:
        return None
    source, lake = LakeSource.of(current.source), request.lake
    if lake is not None and source is not None and request.since == (lake.version or "") == (source.version or ""):
        return current
    published = _last_publication(files, replace(request, push_id=current.push_id))
    if published is None or published.digest != request.digest:
        return None
    if request.interval is not None and instant_text(request.interval[1]) < current.current_from:
        return None
    check_rows(files, request, current.schema, published, current)
    return current


def _adopted(files: Filesystem, request: PushRequest) -> TableVersion | None:
    """Return the version of another push that :func:`same_rows` has chosen for this one."""
    result = read(files, request.handle.folder.result, PushResult) if request.lake is not None else None
    if result is None or result.push == request.push_id:
        return None
    return must_read(files, request.folder.version(result.version), TableVersion)


def _decide(files: Filesystem, request: PushRequest) -> PushPublication:
    """Check what was staged, and return the record that every later attempt follows."""
    epoch, intent = newest_staging(files, request.handle.folder)
    if intent is None or intent.digest != request.digest:
        raise PushError(
            f"The push {request.push_id!r} of table {request.table!r} is not staged.",
            hint="Submit it first.",
            table=request.table,
        )
    folder = request.handle.folder
    manifests = [must_read(files, folder.manifest(epoch, task), PushManifest) for task in range(intent.tasks)]
    totals = totals_of(request, manifests)
    check_rows(files, request, intent.schema, totals, versions.newest(files, request.system, request.topic))
    decided = PushPublication(
        digest=request.digest,
        staged={task: manifest.staged for task, manifest in enumerate(manifests)},
        schema=intent.schema,
        rows=totals.rows,
        deletes=totals.deletes,
        bytes=totals.bytes,
        null_keys=totals.null_keys,
        duplicates=totals.duplicates,
        checked=totals.checked,
    )
    return _add_publication(files, request, decided)


def _published(files: Filesystem, request: PushRequest) -> PushPublication | None:
    """Return what a former attempt has decided to publish, if this push still asks for it."""
    last = _last_publication(files, request)
    return last if last is not None and last.digest == request.digest else None


def _last_publication(files: Filesystem, request: PushRequest) -> PushPublication | None:
    published = numbers(files, _publications(request))
    return read(files, f"{_publications(request)}/{published[-1]:06}.json", PushPublication) if published else None


def _publications(request: PushRequest) -> str:
    return f"{request.folder.push(request.push_id)}/publications"


def _add_publication(files: Filesystem, request: PushRequest, decided: PushPublication) -> PushPublication:
    number = max(numbers(files, _publications(request)), default=0) + 1
    return adopt(files, f"{_publications(request)}/{number:06}.json", replace(decided, generation=f"1.{number}"))


def _publish(system: System, request: PushRequest, publication: PushPublication) -> dict[str, Any]:
    stream = StreamSpec(request.topic, request.partitions)
    return system.publish(stream, Publication(request.producer, publication.generation, 0, publication.staged))


def _make_visible(
    files: Filesystem, system: System, request: PushRequest, publication: PushPublication
) -> TableVersion:
    current = versions.newest(files, request.system, request.topic)
    if request.mode != FULL and current is None:
        raise versions.needs_base(request.table, request.push_id)
    checked = check_rows(files, request, publication.schema, publication, current)
    reach("push-before-publish")
    facts = _publish(system, request, publication)
    if request.mode != FULL and current is not None and facts["commit"] < current.read_commits:
        # Another push came first after all: these changes have to stand behind its rows.
        publication = _add_publication(files, request, publication)
        facts = _publish(system, request, publication)
    reach("push-after-publish")
    own = (request.producer, publication.generation)
    spans = tuple((int(first), int(end)) for first, end in facts["offsets"])
    base = current if request.mode != FULL else None
    version = TableVersion(
        number=request.after + 1,
        push_id=request.push_id,
        kind=request.mode,
        sections=(*base.read_sections, own) if base is not None else (own,),
        offsets=_spanning(base.read_offsets, spans) if base is not None else spans,
        commits=int(facts["commit"]) + 1,
        rows=publication.rows,
        deletes=publication.deletes,
        full_rows=base.base_rows if base is not None else publication.rows,
        bytes=publication.bytes,
        schema=publication.schema,
        key=request.key,
        interval=request.interval,
        pushed_at=now(),
        base=base.number if base is not None else None,
        table=request.table,
        changes=_changes(base) + publication.rows + publication.deletes if base is not None else 0,
        on=(base.on if base.compacted is None else base.reads) if base is not None else None,
        source=request.lake.plain() if request.lake is not None else None,
        table_id=request.table_id,
        columns=request.columns if request.lake is not None else None,
        deletes_where=None if request.since is None else request.deletes or "",
        expectations=checked,
    )
    return versions.add(files, request.system, request.topic, version)


def _changes(base: TableVersion) -> int:
    """Return the rows and deletes on top of the full section that a reader of a version reads."""
    return base.changes if base.compacted is None else 0


def _spanning(one: tuple[tuple[int, int], ...], other: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Return per partition the offsets from the first message of either to the last; an empty one does not count."""
    spans = []
    for pair in zip(one, other, strict=True):
        filled = [(first, end) for first, end in pair if first != end] or [pair[1]]
        spans.append((min(first for first, _ in filled), max(end for _, end in filled)))
    return tuple(spans)


def newest_staging(files: Filesystem, folder: StageFolder) -> tuple[int, PushIntent | None]:
    """Return the number and the record of the newest try at reading the source; (-1, None) when there was none."""
    epochs = numbers(files, folder.epochs)
    return (epochs[-1], read(files, folder.intent(epochs[-1]), PushIntent)) if epochs else (-1, None)


def begin_staging(files: Filesystem, request: PushRequest, schema: Schema) -> int:
    """Begin to read the source: what an earlier try staged is not mixed with what the source holds now."""
    folder = request.handle.folder
    epoch = newest_staging(files, folder)[0] + 1
    write_once(
        files, folder.intent(epoch), PushIntent(epoch, request.partitions, digest=request.digest, schema=schema.ddl())
    )
    return epoch


def discard(files: Filesystem, system: System, request: PushRequest) -> None:
    """Throw away what was staged, and what was committed unseen, so that the next attempt reads the source again."""
    folder = request.handle.folder
    last = _last_publication(files, request)
    if last is not None:
        if last.digest:
            # Of a newer generation: what was committed before makes room.
            _publish(system, request, _add_publication(files, request, PushPublication()))
    elif isinstance(system, DiscardsStaged):
        for epoch in numbers(files, folder.epochs):
            for name in files.list(folder.manifests(epoch)):
                manifest = read(files, f"{folder.manifests(epoch)}/{name}", PushManifest)
                if manifest is not None:
                    system.discard(StreamSpec(request.topic), manifest.staged)
    files.delete_tree(f"{folder.path}/manifests")

"""One map over all Dags: the applications that write and read a stream, a table or a folder, and how fresh it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple

from cachetools import TTLCache, cached
from fastapi import APIRouter

from airflow_samza.errors import SamzaError
from airflow_samza.grouping import grouped
from airflow_samza.provider.lineage.dataset_names import names_of
from airflow_samza.provider.page.airflow_records import AirflowRecords, Planned, Records
from airflow_samza.provider.page.answer import Answer, NotFound, OfPlan, sentence_on
from airflow_samza.provider.page.opened_run import NOTHING_PLANNED, OpenedRun, of_each
from airflow_samza.provider.page.rights import ReadableDags
from airflow_samza.provider.xcoms import PlanNote
from airflow_samza.secrecy import without_passwords
from airflow_samza.system_kinds import EMBEDDED

router = APIRouter(tags=["map"])

MOST = 300
"""Applications on the map; the ones that were planned last."""

KEPT_SECONDS, KEPT = 300.0, 1024
"""For how long the places of a plan are kept, because connections may change, and of how many plans."""


class MapApplication(OfPlan):
    """An application of a Dag that the user may read, by its newest run; its node is ``application:<number>``."""

    node: str
    dag_id: str
    dag_run_id: str
    conn_id: str
    planned_at: float
    reads: list[str]
    """The nodes of what it reads."""
    writes: list[str]
    """The nodes of what it writes."""


class Fresh(Answer):
    """The newest run that has succeeded of those that write something, or an asset's event where no run is known."""

    dag_id: str
    dag_run_id: str | None
    at: float
    """The time at which it was planned, or at which the event was sent."""
    interval: list[str] | None


class MapData(Answer):
    """A stream, a table or a folder; its node is ``data:<number>``."""

    node: str
    name: str
    namespace: str
    uri: str
    """The URI of its asset."""
    kind: str | None
    """The kind of its system."""
    streams: list[str]
    """The ids under which applications know it."""
    fresh: Fresh | None
    writers: list[str]
    """Other Dags that have sent events of its asset."""
    readers: list[str]
    """Other Dags that its asset starts."""


class DataMap(Answer):
    """The map."""

    applications: list[MapApplication]
    data: list[MapData]
    note: str | None


class _Place(NamedTuple):
    """A stream of a plan, by where it lies; ``shared`` is the URI under which Dags wait for it, "" for none."""

    uri: str
    namespace: str
    name: str
    kind: str | None
    stream_id: str
    is_written: bool
    shared: str


@router.get("/api/map", operation_id="map")
def data_map(may_read: ReadableDags, records: Records) -> DataMap:
    """Return which applications of the Dags that the user may read write and read which data."""
    newest = _newest(records.newest(PlanNote), may_read)
    shown = newest[:MOST]
    notes = [f"The {MOST} applications that were planned last are shown."] if len(newest) > MOST else []
    found: list[tuple[Planned, tuple[_Place, ...]]] = []
    for conn_id, plans in grouped((planned.note.conn_id, planned) for planned in shown).items():
        try:
            found += zip(plans, of_each(OpenedRun(plans[0]).hook.files, _of_plan, plans), strict=True)
        except (SamzaError, OSError) as error:
            notes.append(f"{conn_id}: {sentence_on(error)}")
    if not newest:
        notes.append(NOTHING_PLANNED)
    return _answer(found, records, may_read, " ".join(notes) or None)


def _newest(plans: Iterable[Planned], may_read: Callable[[str], bool]) -> list[Planned]:
    """Return the newest plan of each task that plans; of a mapped task, of each index."""
    found: dict[tuple[str, str, int], Planned] = {}
    for planned in plans:
        if may_read(planned.dag_id):
            found.setdefault((planned.dag_id, planned.task_id, planned.map_index), planned)
    return list(found.values())


def _key(planned: Planned) -> tuple[object, ...]:
    note = planned.note
    return planned.dag_id, planned.run_id, note.conn_id, note.application, note.run_id, note.generation


@cached(TTLCache(KEPT, KEPT_SECONDS), _key, threading.Lock())
def _of_plan(planned: Planned) -> tuple[_Place, ...]:
    """Return the streams of a plan; none where its records are gone, or are those of another Dag."""
    try:
        return tuple(_read(OpenedRun(planned)))
    except NotFound:
        return ()


def _read(opened: OpenedRun) -> Iterable[_Place]:
    _ = opened.files  # the records have to be those of this Dag run
    run = opened.run
    try:
        names = names_of(run, opened.bindings, opened.hook.root, None)
    except SamzaError:
        names = {}
    for key, bound in run.streams.items():
        name = names.get(key)
        if name is None or bound.role == "intermediate":
            continue
        kind = run.systems.get(bound.system, {}).get("kind")
        shared = f"samza://{opened.note.conn_id}/{bound.spec.name}" if kind in (None, EMBEDDED) else ""
        yield _Place(
            without_passwords(name.uri),
            without_passwords(name.namespace),
            without_passwords(name.name),
            kind,
            bound.stream_id,
            bound.role == "output",
            shared,
        )


def _answer(
    found: list[tuple[Planned, tuple[_Place, ...]]],
    records: AirflowRecords,
    may_read: Callable[[str], bool],
    note: str | None,
) -> DataMap:
    by_uri = grouped((place.uri, place) for _, places in found for place in places)
    nodes = {uri: f"data:{number}" for number, uri in enumerate(sorted(by_uri))}
    applications = [
        MapApplication(
            node=f"application:{number}",
            dag_id=planned.dag_id,
            dag_run_id=planned.run_id,
            plan_task=planned.task_id,
            map_index=planned.map_index,
            application=planned.note.application,
            conn_id=planned.note.conn_id,
            planned_at=planned.note.planned_at,
            reads=sorted({nodes[place.uri] for place in places if not place.is_written}),
            writes=sorted({nodes[place.uri] for place in places if place.is_written}),
        )
        for number, (planned, places) in enumerate(sorted(found, key=lambda one: (one[0].dag_id, one[0].task_id)))
    ]
    succeeded = {
        (run.dag_id, run.task_id, run.map_index): run
        for run in _newest(records.newest(PlanNote, ["success"]), may_read)
    }
    uris = {uri: {uri, *(place.shared for place in places if place.shared)} for uri, places in by_uri.items()}
    assets = records.assets({asset for known in uris.values() for asset in known})
    data = []
    for uri, here in sorted(by_uri.items()):
        node = nodes[uri]
        mine = {one.dag_id for one in applications if node in one.writes}
        theirs = {one.dag_id for one in applications if node in one.reads}
        sent = [event for asset in uris[uri] for event in assets.sent.get(asset, ()) if may_read(event.dag_id)]
        runs = [
            succeeded[key]
            for one in applications
            if node in one.writes and (key := (one.dag_id, one.plan_task, one.map_index)) in succeeded
        ]
        fresh = [
            Fresh(
                dag_id=run.dag_id,
                dag_run_id=run.run_id,
                at=run.note.planned_at,
                interval=list(run.note.interval) if run.note.interval is not None else None,
            )
            for run in runs
        ] or [Fresh(dag_id=event.dag_id, dag_run_id=None, at=event.at, interval=None) for event in sent]
        data.append(
            MapData(
                node=node,
                name=here[0].name,
                namespace=here[0].namespace,
                uri=uri,
                kind=here[0].kind,
                streams=sorted({place.stream_id for place in here}),
                fresh=max(fresh, key=lambda one: one.at, default=None),
                writers=sorted({event.dag_id for event in sent} - mine),
                readers=sorted(
                    {dag for asset in uris[uri] for dag in assets.starts.get(asset, ()) if may_read(dag)} - theirs
                ),
            )
        )
    return DataMap(applications=applications, data=data, note=note)

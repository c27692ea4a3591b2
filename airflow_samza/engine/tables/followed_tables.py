"""Tables of a stage that side inputs feed, from epoch to epoch; they never hold the main input up (decision 53).

A few further messages are taken into the next epoch as they are (they cost a task some milliseconds). Many of them, or
another version of a pushed table, are first read into the hosts' folders of stores, by a small job beside the epochs;
the epochs go on with what they have until that is done (rules S1, S7). A processor's messages come in pieces that take
a bounded time, a piece in each epoch, and while the inputs are silent in epochs of their own. The tasks of the next
epoch read another version of a table of a lake whole. An epoch's intent names what its tables hold, so that every
attempt at it sees the same. The loop of a stage asks it before each epoch.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from airflow_samza.engine.stage_context import StageContext
from airflow_samza.engine.stage_engine import RunningStage
from airflow_samza.grouping import grouped
from airflow_samza.prepare.side_inputs import planned_side_inputs
from airflow_samza.prepare.task_side_inputs import TOPIC_IDENTITY, topic_identity, whole_range
from airflow_samza.runs.records.epoch_records import InputIntent, Intent, Manifest
from airflow_samza.runs.records.run_plan import CONTINUOUS
from airflow_samza.runs.tables import versions as table_versions
from airflow_samza.runs.tables.pins import CURRENT, HISTORY, numbers_in, with_history
from airflow_samza.runs.tables.table_version import holds_all
from airflow_samza.systems.capabilities import ReportsNews, TakesArrivals
from airflow_samza.task.loop.side_tables import SIDE_INPUT_SECONDS
from airflow_samza.task.loop.task_tables import tables_in_memory

log = logging.getLogger("airflow_samza.runner")

FEW_MESSAGES = 20_000
"""Of a side input that an epoch takes in as they are: some ten milliseconds of work for a task, where they are rows."""

PROCESSOR_SECONDS = 0.2
"""Of each task in an epoch, for the messages of a side input that a processor turns into rows.

So much later is a message of an input.
"""

UNMEASURED_MESSAGES = 200
"""Of a processor's side input in an epoch, until it is known how long they take."""


VERSION_SECONDS = 5.0
"""Time between two looks at a table of a lake, where its system does not say how often."""


class FollowedTables:
    """The side inputs of one stage, as the next epoch reads them.

    ``former`` is the last intent, whose tables are not taken back.
    """

    def __init__(self, context: StageContext, stage: RunningStage, former: Intent | None) -> None:
        self._context = context
        self._stage = stage
        self._setup = stage.setup
        run = context.run
        self._held = planned_side_inputs(run, context.handle.stage_id)
        """Contents of the tables in the last epoch."""
        self._first = dict(self._held)
        self._take(former)
        self._ready: dict[str, InputIntent] = {}
        """Changes that were read beforehand, and that no epoch has taken over yet."""
        self._heads: dict[str, InputIntent] = {}
        """All that there was of a stream when it was last asked, however little of it the epochs have taken."""
        self._bound = {stream_id: run.side_input(stream_id) for stream_id in self._held}
        self._looked: dict[str, float] = {}
        self._pinned = {table["stream_id"]: dict(table) for table in run.tables.values()}
        follows = run.mode == CONTINUOUS and run.compares is None
        self._follows = [stream_id for stream_id in self._held if follows and self._goes_on(stream_id)]
        tables = [self._setup.program.spec.table(table_id) for table_id in self._setup.program.stage.tables]
        self._fed = grouped((stream_id, table) for table in tables for stream_id in table.side_inputs)
        """The tables that each stream feeds."""
        self._processed = {
            stream_id
            for stream_id in self._follows
            if any(table.processor is not None for table in self._fed.get(stream_id, ()))
        }
        timed = tables_in_memory(self._setup.program)
        self._timed = {s for table_id in timed for s in self._setup.program.spec.table(table_id).side_inputs}
        self._limits = dict.fromkeys(self._processed, UNMEASURED_MESSAGES)
        self._tag = f"{context.attempt.group} tables"
        self._thread: threading.Thread | None = None
        self._prepared: dict[str, InputIntent] = {}
        self.is_behind = False
        """True when more has come to a processor than the next epoch takes.

        Worth an epoch of its own where nothing else is to be done.
        """

    def look(self, former: Intent | None) -> dict[str, InputIntent]:
        """Return what the tables of the epoch after ``former`` hold; begin to read what has to be read beforehand.

        It may be asked again and again before the epoch is decided: what is taken as it is counts from what the last
        epoch held.
        """
        self._take(former)
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._ready.update(self._prepared)
        self._ready = {
            name: read for name, read in self._ready.items() if not _covers(self._held[name].slice, read.slice)
        }
        intents, many = {**self._held, **self._ready}, {}
        self.is_behind = False
        for stream_id in self._follows:
            newer = self._newer(stream_id, intents[stream_id])
            if newer is None:
                continue
            held = intents[stream_id].slice
            if self._are_few(stream_id, held, newer.slice):
                intents[stream_id] = newer
            elif stream_id in self._processed and _is_same_topic(held, newer.slice):
                intents[stream_id] = InputIntent(newer.stream, _piece(held, newer.slice, self._limit(stream_id)))
                self.is_behind = True
            elif stream_id in self._processed and not self._is_kept(stream_id):
                intents[stream_id] = (
                    newer  # another topic, from its beginning: nobody else could take over what is prepared of it
                )
            else:
                many[stream_id] = newer
        if many and self._thread is None:
            self._prepare({**intents, **many}, many)
        return intents

    def took(self, manifests: Sequence[Manifest]) -> None:
        """Note how long processors took in an epoch, so that the next ones give them :data:`PROCESSOR_SECONDS`."""
        for stream_id in self._processed:
            seconds = sum(float(manifest.facts.get(f"{SIDE_INPUT_SECONDS}.{stream_id}", 0.0)) for manifest in manifests)
            messages = sum(int(manifest.read_aside.get(stream_id, {}).get("messages", 0)) for manifest in manifests)
            if messages:
                fit = PROCESSOR_SECONDS * messages / max(seconds, 1e-9)
                self._limits[stream_id] = int(min(fit, FEW_MESSAGES))

    def have_moved(self, intents: Mapping[str, InputIntent], former: Intent | None) -> bool:
        """Return whether a pushed table would have another version than in the former epoch (None: the plan)."""
        return _versions(intents) != _versions(self._first if former is None else former.side_inputs)

    def close(self) -> None:
        """End what is being prepared."""
        if self._thread is not None and self._thread.is_alive():
            self._stage.cancel(self._tag)
            self._thread.join(timeout=10)

    def _take(self, former: Intent | None) -> None:
        if former is not None:
            self._held.update({name: read for name, read in former.side_inputs.items() if name in self._held})

    def _goes_on(self, stream_id: str) -> bool:
        if _is_whole(self._held[stream_id].slice):
            return not self._setup.program.spec.side_inputs[stream_id].bounded
        pinned = self._pinned.get(stream_id)
        return pinned is None or pinned["asked"] == CURRENT

    def _is_kept(self, stream_id: str) -> bool:
        """Return whether hosts keep all tables that a stream feeds."""
        return all(
            table.processor is None or table.table_id in self._setup.task.digests
            for table in self._fed.get(stream_id, ())
        )

    def _newer(self, stream_id: str, held: InputIntent) -> InputIntent | None:
        """Return all that there is of a side input, if that is more than what is known."""
        bound = self._bound[stream_id]
        system = self._context.systems[bound.system]
        if "sections" in held.slice or stream_id in self._pinned:
            version = table_versions.newest(self._context.files, bound.system, bound.spec.name)
            more: Mapping[str, Any] = {}
            if version is not None and HISTORY in held.slice:  # some versions may have come late
                more = with_history(self._context.files, bound.system, bound.spec.name, version)
                is_held = numbers_in(more) == numbers_in(held.slice)
            else:
                is_held = version is None or holds_all(held.slice, version.slice)
            if version is None or is_held:
                return None
            identity = topic_identity(system, bound)
            slice_ = {**version.slice, **more, "schema": version.schema, TOPIC_IDENTITY: identity}
            return InputIntent(bound.spec.name, slice_)
        if _is_whole(held.slice):
            return self._version(stream_id, held)
        head = self._head(stream_id)
        if head is None or not _is_same_topic(held.slice, head.slice):
            return head
        # What has expired since does not make anybody begin anew.
        offsets = [
            [int(was[0]), int(now[1])] for was, now in zip(held.slice["offsets"], head.slice["offsets"], strict=True)
        ]
        has_more = any(now[1] > int(was[1]) for was, now in zip(held.slice["offsets"], offsets, strict=True))
        return InputIntent(head.stream, {**held.slice, **head.slice, "offsets": offsets}) if has_more else None

    def _version(self, stream_id: str, held: InputIntent) -> InputIntent | None:
        """Return the version that a table of a lake has now, if it is another than the one that is held.

        It is read whole, in place of the former one.
        """
        bound, now = self._bound[stream_id], time.monotonic()
        system = self._context.systems[bound.system]
        pause = system.look_seconds(bound.spec) if isinstance(system, TakesArrivals) else VERSION_SECONDS
        if now - self._looked.get(stream_id, -pause) >= pause:
            self._looked[stream_id] = now
            self._heads[stream_id] = InputIntent(bound.spec.name, whole_range(system, bound))
        newest = self._heads.get(stream_id, held)
        return newest if _version_in(newest.slice) != _version_in(held.slice) else None

    def _head(self, stream_id: str) -> InputIntent | None:
        """Return all that a side input has, asked again only when there is news; None: its topic is deleted."""
        bound, head = self._bound[stream_id], self._heads.get(stream_id)
        system = self._context.systems[bound.system]
        since = topic_identity(system, bound)
        if isinstance(system, ReportsNews):
            if head is not None and since == head.slice[TOPIC_IDENTITY] and not system.has_news(bound.spec, head.slice):
                return head
            if since is None:
                return None  # its reader reports that
        self._heads[stream_id] = InputIntent(bound.spec.name, {**system.slice(bound.spec), TOPIC_IDENTITY: since})
        return self._heads[stream_id]

    def _are_few(self, stream_id: str, held: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
        if _is_whole(newer) or HISTORY in newer or stream_id in self._timed:  # of which tasks read what they lack
            return True
        if "sections" in newer or "sections" in held or not _is_same_topic(held, newer):
            return False
        most = self._limit(stream_id)
        return all(
            int(now[1]) - int(was[1]) <= most for was, now in zip(held["offsets"], newer["offsets"], strict=True)
        )

    def _limit(self, stream_id: str) -> int:
        """Return how many messages of each partition an epoch takes as they are."""
        if stream_id not in self._processed:
            return FEW_MESSAGES
        planned = self._setup.program.plan.stream(stream_id)
        return max(min(self._limits[stream_id], FEW_MESSAGES) // (planned.partitions if planned.broadcast else 1), 1)

    def _prepare(self, all_: dict[str, InputIntent], intents: dict[str, InputIntent]) -> None:
        self._thread = threading.Thread(target=self._round, args=(all_, intents), name=self._tag, daemon=True)
        self._thread.start()

    def _round(self, all_: dict[str, InputIntent], intents: dict[str, InputIntent]) -> None:
        try:
            self._stage.fill_tables(all_, self._tag)
        except Exception as error:  # the tasks then read for themselves, and say what is wrong
            log.warning(
                "%s: the tables were not read beforehand: %s",
                self._tag,
                str(error).splitlines()[0] if str(error) else error,
            )
        self._prepared = intents


def _versions(side_inputs: Mapping[str, InputIntent]) -> dict[str, object]:
    return {
        stream_id: [read.slice["sections"], numbers_in(read.slice)]
        for stream_id, read in side_inputs.items()
        if "sections" in read.slice
    }


def _is_whole(slice_: Mapping[str, Any]) -> bool:
    """Return whether a slice counts no offsets: it is read whole or not at all."""
    return slice_.get("offsets") is None


def _version_in(slice_: Mapping[str, Any]) -> tuple[object, object]:
    """Return the snapshot or version of a table of a lake."""
    return slice_.get("snapshot"), slice_.get("version")


def _is_same_topic(held: Mapping[str, Any], newer: Mapping[str, Any]) -> bool:
    return bool(held.get(TOPIC_IDENTITY) == newer.get(TOPIC_IDENTITY))


def _covers(held: Mapping[str, Any], read: Mapping[str, Any]) -> bool:
    """Return whether an epoch that held this had taken over what was read beforehand."""
    if held == read:
        return True
    if "sections" in held or "sections" in read or not _is_same_topic(held, read):
        return False
    return all(int(has[1]) >= int(end[1]) for has, end in zip(held["offsets"], read["offsets"], strict=True))


def _piece(held: Mapping[str, Any], newer: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return a part of what is new: so many messages of each partition."""
    ends = [min(int(now[1]), int(was[1]) + most) for was, now in zip(held["offsets"], newer["offsets"], strict=True)]
    return {**newer, "offsets": [[int(now[0]), end] for now, end in zip(newer["offsets"], ends, strict=True)]}

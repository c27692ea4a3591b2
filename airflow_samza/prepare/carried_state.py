"""The state of a run, as its ``plan`` step fixes it: version, lease, and the input ranges that continue it.

An application carries state from run to run when it reads an input that is not bounded (as one with
``slice="checkpoint"`` is not) (decision 20).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.application.application import ApplicationSpec
from airflow_samza.application.descriptors import StreamDescriptor
from airflow_samza.config import Config
from airflow_samza.errors import ConfigError, StateError, TopicError
from airflow_samza.prepare.compared_run import with_versions_of
from airflow_samza.prepare.run_request import FRESH, PREVIOUS, RunRequest
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.runs.records.run_plan import CARRIED, OWN, RunPlan, RunState
from airflow_samza.runs.state_history.folder import StateHistory
from airflow_samza.runs.state_history.lease import Lease
from airflow_samza.runs.state_history.state_at_start import Patience, give_back, source_version, take_lease
from airflow_samza.runs.state_history.versions import Version, find_version, newest_number, version_of_run
from airflow_samza.systems.capabilities import TakesArrivals
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.system import ColumnBound, StreamSpec


@dataclass(frozen=True)
class TakenState:
    """The state that a run starts from: ``version`` None is no state; a ``lease`` to continue the lineage."""

    state: RunState
    version: Version | None = None
    lease: Lease | None = None

    def give_back(self, files: Filesystem, spec: ApplicationSpec) -> None:
        """Free the lease, when the run cannot be planned."""
        if self.lease is not None:
            give_back(files, StateHistory(spec.name, spec.app_id), self.lease)


def is_carried_on(stream: StreamDescriptor) -> bool:
    """Return whether an input is unbounded: a run reads a range of it, and the next run continues behind that."""
    return not stream.bounded


def carries_state(spec: ApplicationSpec) -> bool:
    """Return whether a run of an application continues from the state of the run before."""
    return any(is_carried_on(stream) for stream in spec.inputs.values())


def take_state(
    files: Filesystem,
    spec: ApplicationSpec,
    request: RunRequest,
    on_wait: Callable[[str], None] | None = None,
    base: RunPlan | None = None,
) -> TakenState:
    """Return what a run starts from, and take the lease if it continues the lineage.

    ``on_wait`` gets a sentence that names the run it waits for. A run that is compared with a ``base`` starts from the
    state from which that started.
    """
    lineage, source = StateHistory(spec.name, spec.app_id), request.state_from
    keep = Config(spec.config).state_versions_keep
    if base is not None:
        begun = with_versions_of(files, spec, request.run_id, base)
        left_by = base.state.source if base.state is not None else None
        return TakenState(RunState(OWN, begun.number if begun is not None else 0, left_by, keep=keep), begun)
    if source == FRESH:
        return TakenState(RunState(OWN, keep=keep))
    if source != PREVIOUS:
        version = source_version(files, lineage, request.run_id, source)
        return TakenState(RunState(OWN, version.number, source, keep=keep), version)
    patience = patience_of(spec, request.wait_seconds, on_wait)
    lease = take_lease(files, lineage, request.run_id, request.generation, patience)
    try:
        version_ = find_version(files, lineage, lease.start)
        _reject_going_back(spec, request.run_id, request.interval, version_)
    except BaseException:
        give_back(files, lineage, lease)
        raise
    return TakenState(RunState(CARRIED, lease.start, None, lease.fence, keep=keep), version_, lease)


def previewed_state(files: Filesystem, spec: ApplicationSpec, source: str) -> Version | None:
    """Return the version that a run planned now would start from, as far as that is known without the lease."""
    lineage = StateHistory(spec.name, spec.app_id)
    if not carries_state(spec) or source == FRESH:
        return None
    return (
        find_version(files, lineage, newest_number(files, lineage))
        if source == PREVIOUS
        else version_of_run(files, lineage, source)
    )


def patience_of(
    spec: ApplicationSpec, wait_seconds: float | None = None, on_wait: Callable[[str], None] | None = None
) -> Patience:
    """Return how long a run of an application waits for the one before; ``wait_seconds`` None: as configured."""
    config = Config(spec.config)
    wait = config.state_lease_wait_ms / 1000 if wait_seconds is None else wait_seconds
    return Patience(wait, config.state_lease_grace_ms / 1000, on_wait)


def carried_slice(
    stream: StreamDescriptor, whole: Mapping[str, Any], version: Version | None, config: Mapping[str, str]
) -> dict[str, Any]:
    """Return the input range of an unbounded input: from where the version ends to the latest offset.

    It ends no stream (rule C9).

    ``whole`` is the range that the system gave: all that exists. A system without offsets gives just what its path or
    the data interval selects. ``first`` are the offsets at which the state began to read the input, however many runs
    ago.
    """
    ranges = whole.get("offsets")
    if "times" in whole:  # it begins with its interval, whatever was read before
        return {**whole, "final": False}
    if ranges is None:
        if stream.slice_by == "checkpoint":
            raise ConfigError(
                f'The input {stream.stream_id!r} has slice="checkpoint", and its system counts no offsets, so nobody '
                "knows what is new.",
                hint='Take the data interval: a path= over it, or slice="timestamp"; '
                "or write it to a log, and read that.",
                key="slice",
                value="checkpoint",
                stream=stream.stream_id,
            )
        return {**whole, "final": False}
    offsets_read = version.offsets.get(stream.stream_id) if version is not None else None
    if version is None or offsets_read is None:
        newest = Config(config).first_offset(stream.stream_id) == "upcoming"
        offsets = [[end if newest else start, end] for start, end in ranges]
        return {**whole, "offsets": offsets, "first": [start for start, _ in offsets], "final": False}
    if len(offsets_read) > len(ranges):
        raise _recreated(stream, version, f"has {len(ranges)} partitions, and {len(offsets_read)} were read")
    unread = []
    for partition, (oldest, head) in enumerate(ranges):
        start = offsets_read[partition] if partition < len(offsets_read) else oldest
        if start > head:
            raise _recreated(
                stream, version, f"ends at offset {head} of partition {partition}, and was read up to {start}"
            )
        unread.append([start, head])
    read = version.read.get(stream.stream_id, {})
    if read.get("topic") and whole.get("topic") and read["topic"] != whole["topic"]:
        raise _recreated(stream, version, "is another topic than the one that was read")
    return {**whole, "offsets": unread, "first": list(read.get("first", offsets_read)), "final": False}


def arrived_slice(
    stream: StreamDescriptor,
    spec: StreamSpec,
    system: TakesArrivals,
    version: Version | None,
    config: Mapping[str, str],
    bounds: Sequence[ColumnBound],
) -> dict[str, Any]:
    """Return the input range of files that keep coming: those that are new since the version; it ends no stream."""
    record = version.arrived.get(stream.stream_id) if version is not None else None
    skips = record is None and Config(config).first_offset(stream.stream_id) == "upcoming"
    return {**system.arrived(spec, record, unread=skips, bounds=bounds), "final": False}


def _recreated(stream: StreamDescriptor, version: Version, what: str) -> TopicError:
    reset = StateHistory(version.plan.application, version.plan.app_id).reset_command()
    return TopicError(
        f"The input {stream.stream_id!r} {what} by the run before: it was created again.",
        hint=f"Bring the former one back; or give it a new id and set dropped=[{stream.stream_id!r}], and it is read "
        f"from its oldest offset; or forget all state: {reset}",
        stream=stream.stream_id,
    )


def _reject_going_back(
    spec: ApplicationSpec, run_id: str, interval: DataInterval | None, version: Version | None
) -> None:
    """Reject a data interval before what the state has seen: it would be late in every window."""
    by_time = [
        stream.stream_id for stream in spec.inputs.values() if is_carried_on(stream) and stream.slice_by == "timestamp"
    ]
    if not by_time or interval is None or version is None or version.interval is None:
        return
    end = DataInterval.from_iso(*version.interval).end
    if interval.start < end:
        raise StateError(
            f"The data interval {interval} of the run {run_id!r} is before {end.isoformat()}, up to which the run "
            f"{version.run!r} has advanced the state of {spec.name!r}.",
            hint='Run it with a state of its own: state_from="fresh", or the id of the run before it.',
            application=spec.name,
            run=run_id,
        )

"""Versions of tables up to which runs have read, kept from expiry for the runs that go on from there.

The plan step and the finish of a stage hold them.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from airflow_samza.runs.records.run_plan import BoundStream, RunPlan
from airflow_samza.systems.capabilities import HoldsVersions
from airflow_samza.systems.filesystems.filesystem import Filesystem, root_identity
from airflow_samza.systems.system import System

log = logging.getLogger(__name__)


def hold_read(
    files: Filesystem, systems: Mapping[str, System], run: RunPlan, slices: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, str]:
    """Hold the versions up to which slices of unbounded inputs reach; return by stream why one cannot be held."""
    reasons: dict[str, str] = {}
    if run.compares is not None:  # what the application's own runs hold stays as it is
        return reasons
    for stream_id, slice_ in slices.items():
        if slice_ is None or "chunks" not in slice_ or not slice_.get("snapshot") or run.is_own(stream_id):
            continue
        bound: BoundStream = run.stream(stream_id)
        system = systems[bound.system]
        if isinstance(system, HoldsVersions):
            reader = "/".join((root_identity(files), run.application, run.app_id, stream_id))
            reason = system.hold(bound.spec, reader, str(slice_["snapshot"]))
            if reason is not None:
                log.warning("The snapshot up to which %s was read is not kept from expiry: %s", stream_id, reason)
                reasons[stream_id] = reason
    return reasons

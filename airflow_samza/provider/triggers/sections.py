"""The trigger of a plan that waits until the runs whose sections it follows are planned."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import SectionOpen
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.prepare.shared_sections import find_writer
from airflow_samza.provider.deferral import OVER, SECTIONS
from airflow_samza.provider.triggers.runs import RunTrigger
from airflow_samza.runs.records.data_interval import DataInterval
from airflow_samza.systems.filesystems.filesystem import Filesystem


@dataclass(kw_only=True, eq=False, repr=False)
class SamzaSectionsTrigger(RunTrigger):
    """Waits until the runs are planned that write the sections of shared streams which a run is to follow.

    :param sections: Topic, and the run as the request names it, by stream.
    :param interval: The data interval of the run that waits, as two texts.
    :param partition_key: Its partition key.
    :param until: When the wait is over, in seconds since 1970.
    """

    sections: Mapping[str, Sequence[str]]
    interval: Sequence[str] | None
    partition_key: str | None
    until: float

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when all runs are planned, or the time is over."""
        if all(self._is_planned(files, name) for name in self.sections):
            return {SECTIONS: "planned"}
        return {SECTIONS: OVER} if time.time() >= self.until else None

    def _is_planned(self, files: Filesystem, stream_id: str) -> bool:
        topic, named = self.sections[stream_id]
        interval = DataInterval.from_iso(*self.interval) if self.interval is not None else None
        request = RunRequest("", "", interval=interval, partition_key=self.partition_key)
        try:
            return find_writer(files, stream_id, topic, named, request) is not None
        except SectionOpen:
            return False

"""The trigger on a stream that a run writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.errors import UnknownName
from airflow_samza.provider.deferral import UNKNOWN
from airflow_samza.provider.triggers.runs import RunTrigger
from airflow_samza.runs.progress.stream_ends import AskedEnd, stream_end
from airflow_samza.systems.filesystems.filesystem import Filesystem


class SamzaEndOfStreamTrigger(RunTrigger):
    """Waits until a stream of a run has end-of-stream in all partitions, or turns out to be none of its streams.

    :param stream: What is waited for, as ``AskedEnd`` has it.
    """

    def __init__(self, *, stream: Mapping[str, Any], **given: Any) -> None:
        super().__init__(**given)
        self.stream = dict(stream)
        self._told = ""

    def given(self) -> dict[str, Any]:
        """Return the further arguments of the class."""
        return {"stream": self.stream}

    def look(self, files: Filesystem) -> dict[str, Any] | None:
        """Return an event when it is time for the task to look; log what is new."""
        try:
            found = stream_end(files, AskedEnd(**self.stream))
        except UnknownName as error:  # the run has begun meanwhile, and writes no such stream
            return {UNKNOWN: error.sentence}
        if str(found) != self._told:
            self._told = str(found)
            self.log.info("%s", found)
        return found.to_dict() if found.is_reached else None

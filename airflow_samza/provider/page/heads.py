"""Heads of inputs that are still read: where a system's servers are away they are not known, and a sentence says so."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_samza.errors import SamzaError
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.runs.progress.asked_systems import AskedSystems, lag_not_known
from airflow_samza.systems.system import StreamMetadata, StreamSpec


class Heads(AskedSystems):
    """The systems of a run as a report on progress needs them; ``why`` is a sentence on those that did not answer."""

    def __init__(self, opened: OpenedRun) -> None:
        self._opened = opened
        self._systems, self.why = opened.bound
        super().__init__(self._systems.keys())

    def ask(self, name: str, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the metadata of streams of a system; none of them where they cannot be had."""
        try:
            with self._opened.asking(name):
                return self._systems[name].admin.metadata(streams)
        except SamzaError as error:
            self.why = lag_not_known(name, error.sentence)
            return {}

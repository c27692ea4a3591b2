"""Heads of inputs that are still read: where a system's servers are away they are not known, and a sentence says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from airflow_samza.errors import SamzaError
from airflow_samza.provider.page.opened_run import OpenedRun
from airflow_samza.systems.system import StreamMetadata, StreamSpec, System


class Heads(Mapping[str, System]):
    """The systems of a run as a report on progress needs them; ``why`` is a sentence on those that did not answer."""

    def __init__(self, opened: OpenedRun) -> None:
        self._opened = opened
        self._systems, self.why = opened.bound

    def ask(self, name: str, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the metadata of streams of a system; none of them where they cannot be had."""
        try:
            with self._opened.asking(name):
                return self._systems[name].admin.metadata(streams)
        except SamzaError as error:
            self.why = f"The lag behind streams of the system {name!r} is not known at present: {error.sentence}"
            return {}

    def __getitem__(self, name: str) -> System:
        if name not in self._systems:
            raise KeyError(name)
        return cast(System, _Admin(self, name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._systems)

    def __len__(self) -> int:
        return len(self._systems)


class _Admin:
    """The part of a system that is asked for heads: its own admin."""

    def __init__(self, heads: Heads, name: str) -> None:
        self._heads, self._name = heads, name
        self.admin = self

    def metadata(self, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the metadata of those streams of which it can be had now."""
        return self._heads.ask(self._name, streams)

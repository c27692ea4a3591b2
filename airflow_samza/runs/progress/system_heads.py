"""Systems as reports on progress need them: asked for heads, which are not always known."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import cast

from airflow_samza.systems.system import StreamMetadata, StreamSpec, System


class SystemHeads(Mapping[str, System], ABC):
    """Systems by name, of which each metadata question goes to :meth:`ask`; ``names`` are those that there are."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    @abstractmethod
    def ask(self, name: str, streams: Sequence[StreamSpec]) -> dict[str, StreamMetadata]:
        """Return the metadata of streams of a system; none of them where they cannot be had."""

    def __getitem__(self, name: str) -> System:
        if name not in self._names:
            raise KeyError(name)
        return cast(System, SimpleNamespace(metadata=partial(self.ask, name)))  # all that reports need of a system

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def unknown_lag(name: str, why: object) -> str:
    """Return the sentence on a system that gave no heads."""
    return f"The lag behind streams of the system {name!r} is not known at present: {why}"

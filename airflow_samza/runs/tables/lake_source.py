"""Sources of pushes that are tables of a lake: this package reads them itself, at one snapshot or version.

The submission of a push fixes it, Spark's tasks read it, and lineage names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_samza.errors import PushError, SamzaError, SourceUnavailable
from airflow_samza.systems.system import StreamSpec

LAKES: Mapping[str, str] = {"iceberg": "snapshot", "delta": "version"}
"""The word of each kind of table for its states, by the key of the source, which is the kind of the system, too."""

_STREAM = "source"


@dataclass(frozen=True)
class LakeSource:
    """A table of a lake as the source of a push; ``version`` is the id of its snapshot, or the number of its version.

    None: it has none yet. ``since`` is the one of the version that a push changes, "" one without rows;
    None: the push is of all rows.
    """

    kind: str
    table: str
    system: str
    version: str | None = None
    since: str | None = None

    @classmethod
    def of(cls, source: Mapping[str, Any]) -> LakeSource | None:
        """Return the table in the source of a request; None: it is another kind of source."""
        kind = next((kind for kind in LAKES if kind in source), None)
        if kind is None:
            return None
        version = source.get(LAKES[kind])
        chosen = None if version in (None, "") else str(version)
        return cls(kind, str(source[kind]), str(source.get("system") or ""), chosen, source.get("since"))

    @property
    def word(self) -> str:
        """``snapshot`` or ``version``."""
        return LAKES[self.kind]

    def plain(self) -> dict[str, str]:
        """Return the source as requests and versions have it."""
        versions = {self.word: self.version, "since": self.since}
        said = {name: version for name, version in versions.items() if version is not None}
        return {self.kind: self.table, "system": self.system, **said}

    def stream(self, partitions: int) -> StreamSpec:
        """Return the table as a stream that is read in so many partitions."""
        version = ((self.word, self.version),) if self.version is not None else ()
        return StreamSpec(_STREAM, partitions, options=(("table", self.table), *version))

    def check_read(self, chosen: Mapping[str, Any], pushed: str) -> None:
        """Reject what is read of a table that had no rows when the push of the table ``pushed`` fixed what it reads."""
        if self.version is None and chosen[self.word] is not None:
            raise SourceUnavailable(
                f"The source of the push of table {pushed!r} ({self}) had no {self.word} when the push was "
                f"submitted, and has {self.word} {chosen[self.word]} now.",
                hint="Another attempt reads it.",
                table=pushed,
            )

    def __str__(self) -> str:
        at = f"{self.word} {self.version} of " if self.version is not None else ""
        since = "" if self.since is None else f"changes since {self.word} {self.since or 'without rows'}, up to "
        return f"{since}{at}{self.kind} table {self.table} of system {self.system!r}"

    @contextmanager
    def failures(self, pushed: str) -> Iterator[None]:
        """Report an error of the system as one of the push of the table ``pushed``."""
        try:
            yield
        except PushError:
            raise
        except SamzaError as error:
            now, kind = (" now", SourceUnavailable) if error.retryable else ("", PushError)
            hint = error.hint.replace("Clear the plan task, so that a new plan reads", "Push again, and read")
            raise kind(
                f"The source of the push of table {pushed!r} ({self}) cannot be read{now}: {error.sentence}",
                hint=hint,
                table=pushed,
            ) from error

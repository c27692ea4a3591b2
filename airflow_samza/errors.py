"""One tree of errors. Every error is one sentence that names the thing, the value and the remedy.

An error is built from facts: they make up the sentence and stay readable by code (``error.facts``). The tree crosses
process boundaries (Spark worker to driver, stage runner to Airflow task), so each error pickles and has a JSON form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from airflow_samza.quoting import printable


class SamzaError(Exception):
    """Any error that this package raises on purpose.

    ``sentence`` says what is wrong, ``hint`` what to do about it, ``facts`` hold the values for code that reads them.
    """

    rule: ClassVar[str] = "error"
    """A short stable keyword for programs."""

    retryable: ClassVar[bool] = False
    """Whether trying the same thing again can help; the Airflow face maps False to *no retry*."""

    def __init__(self, sentence: str, *, hint: str = "", **facts: object) -> None:
        self.sentence = printable(sentence)
        self.hint = printable(hint)
        self.facts = facts
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence}\n  Hint: {self.hint}" if self.hint else self.sentence

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.sentence, self.hint, self.facts))

    def to_dict(self) -> dict[str, object]:
        """The JSON form: ``type``, ``rule``, ``sentence``, ``hint``, ``retryable`` and the facts as text."""
        return {
            "type": type(self).__name__,
            "rule": self.rule,
            "sentence": self.sentence,
            "hint": self.hint,
            "retryable": self.retryable,
            "facts": {name: _plain(value) for name, value in self.facts.items()},
        }

    @classmethod
    def from_dict(cls, data: dict[str, object]) -> SamzaError:
        """The error that :meth:`to_dict` described; an unknown type comes back as a plain :class:`SamzaError`."""
        known = {kind.__name__: kind for kind in _tree(SamzaError)}
        kind = known.get(str(data.get("type")), SamzaError)
        parts = data.get("errors")
        if issubclass(kind, PlanErrors) and isinstance(parts, list):
            return kind([part for part in map(SamzaError.from_dict, parts) if isinstance(part, PlanError)])
        facts = data.get("facts")
        return _rebuild(
            kind, str(data.get("sentence", "")), str(data.get("hint", "")), facts if isinstance(facts, dict) else {}
        )


def _rebuild(kind: type[SamzaError], sentence: str, hint: str, facts: dict[str, object]) -> SamzaError:
    error = kind.__new__(kind)
    SamzaError.__init__(error, sentence, hint=hint, **facts)
    return error


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | float | bool | type(None)) else str(value)


def _tree(kind: type[SamzaError]) -> list[type[SamzaError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in _tree(child))]


class ConfigError(SamzaError):
    """A configuration key has a value that cannot be used (facts: ``key``, ``value``)."""

    rule = "invalid-config"


class SchemaError(SamzaError):
    """A message schema cannot be read, or data does not have the schema it was declared with."""

    rule = "schema"


class PlanError(SamzaError):
    """The application cannot be planned as it is written."""

    rule = "plan"


class PlanErrors(PlanError):
    """All conflicts of one application, reported at once (``errors`` in the order of the plan)."""

    rule = "plan"

    def __init__(self, errors: list[PlanError]) -> None:
        self.errors = tuple(errors)
        body = "\n".join(f"  {number}. {error}" for number, error in enumerate(errors, 1))
        super().__init__(f"The application has {len(errors)} conflicts:\n{body}")

    def __reduce__(self) -> tuple[object, ...]:
        return (PlanErrors, (list(self.errors),))

    def to_dict(self) -> dict[str, object]:
        """The JSON form, with that of each conflict under ``errors``."""
        return {**super().to_dict(), "errors": [error.to_dict() for error in self.errors]}


def raise_all(errors: Sequence[SamzaError]) -> None:
    """Raises one error as it is, several as :class:`PlanErrors`, and nothing when there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise PlanErrors(
            [e if isinstance(e, PlanError) else PlanError(e.sentence, hint=e.hint, **e.facts) for e in errors]
        )


class InvalidApplication(PlanError):
    """The API was used wrongly; raised at the call and names file and line of the user's code."""

    rule = "invalid-application"


class DuplicateId(InvalidApplication):
    """Two operators, streams, tables or systems of one application have the same id."""

    rule = "duplicate-id"


class BadId(InvalidApplication):
    """An id has a character other than letters, digits, ``-`` and ``_``."""

    rule = "bad-id"


class UnknownName(InvalidApplication):
    """A stream, table, column, system or stage that is named but not known."""

    rule = "unknown-name"


class ProcessorMissing(InvalidApplication):
    """Messages of side inputs are no rows of their table, and nobody says what becomes of them (facts: ``store``)."""

    rule = "processor-missing"


class SideInputsWithChangelog(InvalidApplication):
    """A store has side inputs, which bring it back after a loss, and a changelog (facts: ``table``)."""

    rule = "side-inputs-with-changelog"


class PartitionMismatch(PlanError):
    """Streams that meet in one join have different partition counts."""

    rule = "partition-mismatch"


class PartitioningMismatch(PlanError):
    """Streams that meet in one join, or the rows of one key, are not partitioned alike (rule P11)."""

    rule = "partitioning-mismatch"


class UnresolvedPartitions(PlanError):
    """The partition count of a stream is needed and nobody knows it."""

    rule = "unresolved-partitions"


class UnsupportedShape(PlanError):
    """The operator graph has a shape that cannot be planned."""

    rule = "unsupported-shape"


class Unreachable(PlanError):
    """Nothing can ever reach a part of the application: it has no input."""

    rule = "unreachable"


class PlanChanged(PlanError):
    """The plan differs from an earlier one in a way that would break state or a run in progress (rule P10)."""

    rule = "plan-changed"


class NotYet(PlanError):
    """The planner plans it, but this version of the runtime cannot run it yet."""

    rule = "not-yet"


class ControlError(SamzaError):
    """A control message that cannot be understood or contradicts an earlier one (facts: stream, partition, offset)."""

    rule = "control"


class TopicError(SamzaError):
    """A stream cannot be read or written: it is missing, damaged, or its storage refuses."""

    rule = "topic"


class RecordUnreadable(TopicError):
    """A durable record is damaged.

    Not JSON, without a key, or with a value of the wrong type (facts: ``path``, ``why``).
    """

    rule = "record"


class SectionOpen(TopicError):
    """A run of another application has not written its section of a shared stream to the end (facts: ``stream``, ``run``)."""

    rule = "section-open"
    retryable = True


class StorageFull(TopicError):
    """The storage has no room left; nothing that was committed is lost."""

    rule = "storage-full"
    retryable = True


class StorageUnavailable(TopicError):
    """The storage did not answer, or failed for a reason that may pass (network, time-out, a device error)."""

    rule = "storage-unavailable"
    retryable = True


class StageError(SamzaError):
    """A stage did not succeed (facts: ``stage``, ``run``)."""

    rule = "stage"


class StageFailed(StageError):
    """A stage ran and failed."""

    rule = "stage-failed"
    retryable = True


class StageCancelled(StageError):
    """A stage was cancelled before it committed."""

    rule = "stage-cancelled"
    retryable = True


class StageLost(StageError):
    """The stage runner died: no heartbeat and no process. Trying again continues where the commits left off."""

    rule = "stage-lost"
    retryable = True


class UpstreamCleared(StageError):
    """A producer of a running stage got a newer generation.

    A newer generation of this stage reads that one (facts: ``upstream``).
    """

    rule = "upstream-cleared"
    retryable = True


class MessageError(StageError):
    """A user's callable failed on a message (facts: operator, file, line, message)."""

    rule = "message"
    retryable = True


class StateError(SamzaError):
    """The state that an application carries from run to run cannot be used as asked (facts: ``application``, ``run``)."""

    rule = "state"


class StateBusy(StateError):
    """Another run holds the application's state, or has left it half written (facts: ``holder``)."""

    rule = "state-busy"
    retryable = True


class StateFenced(StateError):
    """A run no longer holds the state that it was planned with: another has taken over (facts: ``fence``)."""

    rule = "state-fenced"


class StoreError(SamzaError):
    """A task's local store cannot be opened, read or written."""

    rule = "store"


class RemoteTableError(StageError):
    """A function of a remote table failed for good, or returned what is no row (facts: ``table``, ``key``, ``attempts``)."""

    rule = "remote-table"
    retryable = True


class PushError(SamzaError):
    """A table push was refused or failed."""

    rule = "push"


class SourceUnavailable(PushError):
    """The source of a push did not answer, or failed for a reason that may pass (facts: ``table``)."""

    rule = "source-unavailable"
    retryable = True


class ConcurrentPush(PushError):
    """Another push took the version that this one was to be (facts: ``table``, ``number``, ``winner``).

    Trying again comes after it.
    """

    rule = "concurrent-push"
    retryable = True


class NoSuchVersion(PushError):
    """A version of a pushed table that is asked for is not there, or no longer (facts: ``table``, ``wanted``)."""

    rule = "no-such-version"


class RuntimeMissing(SamzaError):
    """Something the runtime needs is not installed, or too old (Java, an optional package)."""

    rule = "runtime-missing"

"""One tree of errors. Every error is one sentence that names the thing, the value and the remedy.

An error is built from facts: they make up the sentence and stay readable by code (``error.facts``). The tree crosses
process boundaries (Spark worker to driver, stage runner to Airflow task), so each error pickles and has a JSON form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from airflow_samza.quoting import printable


class SamzaError(Exception):
    """Base class of all errors that this package raises on purpose.

    ``sentence`` describes the problem, ``hint`` the remedy, ``facts`` hold the values for code that reads them.
    """

    rule: ClassVar[str] = "error"
    """A short stable keyword for programs."""

    retryable: ClassVar[bool] = False
    """True where a retry can help; Airflow tasks map False to *no retry*."""

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
    """Error for a configuration key whose value cannot be used (facts: ``key``, ``value``)."""

    rule = "invalid-config"


class SchemaError(SamzaError):
    """Error for a schema that cannot be read, or data that does not have its declared schema."""

    rule = "schema"


class PlanError(SamzaError):
    """Error for an application that cannot be planned as it is written."""

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
    """Raise one error as it is, several as :class:`PlanErrors`, and nothing when there is none."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise PlanErrors(
            [e if isinstance(e, PlanError) else PlanError(e.sentence, hint=e.hint, **e.facts) for e in errors]
        )


class InvalidApplication(PlanError):
    """Error for a wrong use of the API, raised at the call; it names file and line of the user's code."""

    rule = "invalid-application"


class DuplicateId(InvalidApplication):
    """Error for two operators, streams, tables or systems of one application with the same id."""

    rule = "duplicate-id"


class BadId(InvalidApplication):
    """Error for an id with characters other than letters, digits, ``-`` and ``_``."""

    rule = "bad-id"


class UnknownName(InvalidApplication):
    """Error for the name of a stream, table, column, system or stage that is not known."""

    rule = "unknown-name"


class ProcessorMissing(InvalidApplication):
    """Error for side inputs whose messages are no rows of their table, without a processor (facts: ``store``)."""

    rule = "processor-missing"


class SideInputsWithChangelog(InvalidApplication):
    """Error for a store with both side inputs, which restore it, and a changelog (facts: ``table``)."""

    rule = "side-inputs-with-changelog"


class PartitionMismatch(PlanError):
    """Error for streams of one join with different partition counts."""

    rule = "partition-mismatch"


class PartitioningMismatch(PlanError):
    """Error for streams of one join, or rows of one key, that are not partitioned alike (rule P11)."""

    rule = "partitioning-mismatch"


class UnresolvedPartitions(PlanError):
    """Error for a stream whose partition count is needed and not known."""

    rule = "unresolved-partitions"


class UnsupportedShape(PlanError):
    """Error for an operator graph with a shape that cannot be planned."""

    rule = "unsupported-shape"


class Unreachable(PlanError):
    """Error for a part of the application that has no input."""

    rule = "unreachable"


class PlanChanged(PlanError):
    """Error for a plan that differs from an earlier one so that state or a run would break (rule P10)."""

    rule = "plan-changed"


class NotYet(PlanError):
    """Error for an application that the planner accepts and this version of the runtime cannot run yet."""

    rule = "not-yet"


class ControlError(SamzaError):
    """Error for an invalid control message, or one that contradicts another (facts: stream, partition, offset)."""

    rule = "control"


class TopicError(SamzaError):
    """Error for a stream that cannot be read or written: missing, damaged, or rejected by its storage."""

    rule = "topic"


class RecordUnreadable(TopicError):
    """Error for a damaged durable record.

    Not JSON, without a key, or with a value of the wrong type (facts: ``path``, ``why``).
    """

    rule = "record"


class SectionOpen(TopicError):
    """Error for a section of a shared stream that its run has not ended (facts: ``stream``, ``run``)."""

    rule = "section-open"
    retryable = True


class StorageFull(TopicError):
    """Error for a full disk; nothing that was committed is lost."""

    rule = "storage-full"
    retryable = True


class StorageUnavailable(TopicError):
    """Error for storage that did not answer, or failed for a reason that may pass (network, time-out, device)."""

    rule = "storage-unavailable"
    retryable = True


class StageError(SamzaError):
    """Base class of errors of a stage (facts: ``stage``, ``run``)."""

    rule = "stage"


class StageFailed(StageError):
    """Error for a stage that ran and failed."""

    rule = "stage-failed"
    retryable = True


class StageCancelled(StageError):
    """Error for a stage that was cancelled before it committed."""

    rule = "stage-cancelled"
    retryable = True


class StageLost(StageError):
    """Error for a stage runner that has stopped: no heartbeat, no process. A retry goes on after the last commit."""

    rule = "stage-lost"
    retryable = True


class UpstreamCleared(StageError):
    """Error for a running stage whose producer got a newer generation.

    A newer generation of this stage reads that one (facts: ``upstream``).
    """

    rule = "upstream-cleared"
    retryable = True


class MessageError(StageError):
    """Error for a user's callable that failed on a message (facts: operator, file, line, message)."""

    rule = "message"
    retryable = True


class StateError(SamzaError):
    """Error for an application's state that cannot be used as requested (facts: ``application``, ``run``)."""

    rule = "state"


class StateBusy(StateError):
    """Error for state that another run holds, or has left half written (facts: ``holder``)."""

    rule = "state-busy"
    retryable = True


class StateFenced(StateError):
    """Error for a run that lost the state it was planned with to another run (facts: ``fence``)."""

    rule = "state-fenced"


class StoreError(SamzaError):
    """Error for a task's local store that cannot be opened, read or written."""

    rule = "store"


class RemoteTableError(StageError):
    """Error for a remote table's function that failed, or returned no row (facts: ``table``, ``key``, ``attempts``)."""

    rule = "remote-table"
    retryable = True


class PushError(SamzaError):
    """Error for a table push that was rejected or failed."""

    rule = "push"


class SourceUnavailable(PushError):
    """Error for a push whose source did not answer, or failed for a reason that may pass (facts: ``table``)."""

    rule = "source-unavailable"
    retryable = True


class ConcurrentPush(PushError):
    """Error for a push whose version number another push took (facts: ``table``, ``number``, ``winner``).

    A retry comes after it.
    """

    rule = "concurrent-push"
    retryable = True


class NoSuchVersion(PushError):
    """Error for a version of a pushed table that does not exist, or no longer does (facts: ``table``, ``wanted``)."""

    rule = "no-such-version"


class RuntimeMissing(SamzaError):
    """Error for Java or a package that is missing or too old."""

    rule = "runtime-missing"

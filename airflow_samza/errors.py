"""One tree of errors. Every error is one sentence that names the thing, the value and the remedy.

An error is built from facts: they make up the sentence and stay readable by code (``error.facts``). The tree crosses
process boundaries (Spark worker to driver, stage runner to Airflow task), so each error pickles and has a JSON form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from airflow_samza.quoting import printable

ERRORS_PAGE = "docs/reference/errors.md"
"""The page of all errors, in the repository. Addresses of entries are made of it here, and nowhere else."""


def entry_of(rule: str) -> str:
    """Return the address of the entry of a rule in the documentation."""
    return f"{ERRORS_PAGE}#{rule}"


class SamzaError(Exception):
    """Base class of all errors that this package raises on purpose.

    ``str(error)`` is the sentence and the hint. An error can be pickled, and has a JSON form, so that it reaches the
    Airflow task from a Spark worker.

    :param sentence: The problem: one sentence with the thing and the value.
    :param hint: What to do.
    :param facts: The values of the sentence, for code that reads them: ``error.facts``.
    """

    rule: ClassVar[str] = "error"
    """A short keyword of the kind of error, which stays the same from release to release."""

    retryable: ClassVar[bool] = False
    """True if trying again may help. If it is false, a task in Airflow fails at once, whatever its retries."""

    def __init__(self, sentence: str, *, hint: str = "", **facts: object) -> None:
        self.sentence = printable(sentence)
        self.hint = printable(hint)
        self.facts = facts
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence}\n  Hint: {self.hint}" if self.hint else self.sentence

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.sentence, self.hint, self.facts))

    @property
    def entry(self) -> str:
        """The address of the entry of the error's rule in the documentation."""
        return entry_of(self.rule)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form: ``type``, ``rule``, ``sentence``, ``hint``, ``retryable``, and the facts as texts."""
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
        """Return the error that :meth:`to_dict` describes; an unknown type becomes a plain :class:`SamzaError`.

        :param data: The JSON form.
        """
        kinds = {kind.__name__: kind for kind in _tree(SamzaError)}
        kind = kinds.get(str(data.get("type")), SamzaError)
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
    return [kind, *(descendant for child in kind.__subclasses__() for descendant in _tree(child))]


def install(extra: str) -> str:
    """Return the command that brings the packages of an extra of this package, for a hint."""
    return f"pip install 'airflow-samza[{extra}]' on the machine that plans and on every worker."


class ConfigError(SamzaError):
    """Error for a setting with an invalid value: a configuration key, an option, a parameter.

    Facts: ``key``, ``value``.
    """

    rule = "invalid-config"


class SchemaError(SamzaError):
    """Error for a schema that cannot be read, or data that does not fit its schema."""

    rule = "schema"


class PlanError(SamzaError):
    """Error for an application that cannot be planned as it is written."""

    rule = "plan"


class PlanErrors(PlanError):
    """Error for several conflicts of one application, which are in ``errors`` in the order of the plan."""

    rule = "plan"

    def __init__(self, errors: list[PlanError]) -> None:
        self.errors = tuple(errors)
        body = "\n".join(f"  {number}. {error}" for number, error in enumerate(errors, 1))
        super().__init__(f"The application has {len(errors)} conflicts:\n{body}")

    def __reduce__(self) -> tuple[object, ...]:
        return (PlanErrors, (list(self.errors),))

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form, with that of each conflict under ``errors``."""
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
    """Error for a wrong call while an application is described; the sentence ends with file and line of your code."""

    rule = "invalid-application"


class DuplicateId(InvalidApplication):
    """Error for two operators, streams, tables, stores or systems with the same id.

    Facts: ``name``.
    """

    rule = "duplicate-id"


class BadId(InvalidApplication):
    """Error for an id with characters other than letters, digits, ``-`` and ``_``.

    Facts: ``value``.
    """

    rule = "bad-id"


class UnknownName(InvalidApplication):
    """Error for a name that does not exist: a module, stream, table, column, system, stage or run.

    Facts: ``name``.
    """

    rule = "unknown-name"


class ProcessorMissing(InvalidApplication):
    """Error for side inputs whose messages are no rows of their table, and that have no processor.

    Facts: ``store``.
    """

    rule = "processor-missing"


class SideInputsWithChangelog(InvalidApplication):
    """Error for a table with side inputs, which bring it back after a loss, and a changelog.

    Facts: ``table``.
    """

    rule = "side-inputs-with-changelog"


class PartitionMismatch(PlanError):
    """Error for a join of streams with different partition counts."""

    rule = "partition-mismatch"


class PartitioningMismatch(PlanError):
    """Error for a join of streams, or rows of one key, that are partitioned in different ways (rule P11)."""

    rule = "partitioning-mismatch"


class UnresolvedPartitions(PlanError):
    """Error for a stream whose partition count is needed and not known."""

    rule = "unresolved-partitions"


class UnsupportedShape(PlanError):
    """Error for a graph of operators that cannot be cut into stages."""

    rule = "unsupported-shape"


class Unreachable(PlanError):
    """Error for a part of an application that no input reaches."""

    rule = "unreachable"


class PlanChanged(PlanError):
    """Error for a plan that differs from an earlier one in a way that would break state or a run (rule P10)."""

    rule = "plan-changed"


class ControlError(SamzaError):
    """Error for an invalid control message.

    Facts: ``stream``, ``partition``, ``offset``.
    """

    rule = "control"


class TopicError(SamzaError):
    """Error for a stream that cannot be read or written: missing, damaged, or rejected by its storage.

    Facts: ``stream``.
    """

    rule = "topic"


class RecordUnreadable(TopicError):
    """Error for a damaged record of a run under the root.

    Facts: ``path``, ``why``.
    """

    rule = "record"


class SectionOpen(TopicError):
    """Error for a part of a shared stream whose run has not ended.

    Facts: ``stream``, ``run``.
    """

    rule = "section-open"
    retryable = True


class StorageFull(TopicError):
    """Error for a full disk; nothing that was committed is lost."""

    rule = "storage-full"
    retryable = True


class StorageUnavailable(TopicError):
    """Error for storage that does not answer, or fails for a reason that may pass: network, time-out, device."""

    rule = "storage-unavailable"
    retryable = True


class StageError(SamzaError):
    """Error for a stage of a run; its subclasses say more.

    Facts: ``stage``, ``run``.
    """

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
    """Error for a stage runner that has died, or shows no sign of life. A retry continues after the last commit."""

    rule = "stage-lost"
    retryable = True


class ExpectationFailed(StageError):
    """Error for a stage whose output does not meet an expectation; nothing of it is published.

    Facts: ``stage``, ``run``, ``output``, ``expectation``, ``failed``.
    """

    rule = "expectation-failed"


class UpstreamCleared(StageError):
    """Error for a running stage whose producer was cleared: only a clear reads the new output (decision 11).

    Facts: ``upstream``.
    """

    rule = "upstream-cleared"


class MessageError(StageError):
    """Error for a callable of yours that failed on a message.

    Facts: ``operator``, ``file``, ``line``, ``message``.
    """

    rule = "message"
    retryable = True


class StateError(SamzaError):
    """Error for state of an application that cannot be used as requested.

    Facts: ``application``, ``run``.
    """

    rule = "state"


class StateBusy(StateError):
    """Error for state that another run holds, or has left half written.

    Facts: ``holder``.
    """

    rule = "state-busy"
    retryable = True


class StateFenced(StateError):
    """Error for a run that has lost its state to another run.

    Facts: ``fence``.
    """

    rule = "state-fenced"


class StoreError(SamzaError):
    """Error for a store or a table of a task that cannot be opened, read or written."""

    rule = "store"


class RemoteTableError(StageError):
    """Error for a function of a remote table that failed, or returned no row.

    Facts: ``table``, ``key``, ``attempts``.
    """

    rule = "remote-table"
    retryable = True


class PushError(SamzaError):
    """Error for a push of a table that was rejected, or failed.

    Facts: ``table``.
    """

    rule = "push"


class SourceUnavailable(PushError):
    """Error for a source of a push that does not answer, or fails for a reason that may pass.

    Facts: ``table``.
    """

    rule = "source-unavailable"
    retryable = True


class ConcurrentPush(PushError):
    """Error for a push whose version number another push took.

    Facts: ``table``, ``number``, ``winner``.
    """

    rule = "concurrent-push"
    retryable = True


class NoSuchVersion(PushError):
    """Error for a version of a pushed table that does not exist, or has expired.

    Facts: ``table``, ``wanted``.
    """

    rule = "no-such-version"


class RuntimeMissing(SamzaError):
    """Error for Java, Spark or a package that is missing, too old, or does not fit."""

    rule = "runtime-missing"

"""What an operator of a task is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from airflow_samza.application.operator_specs import OperatorSpec
from airflow_samza.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

Spec = TypeVar("Spec", bound=OperatorSpec)


class Operator(Generic[Spec]):
    """One operator of one task. ``input`` is the schema of the batches it gets, ``output`` of those it gives (None: it gives none).

    It keeps no reference to other operators: the task instance takes what :meth:`process` gives and hands it on.
    """

    takes_dictionaries: ClassVar[bool] = False
    """Whether its input may have dictionary-encoded columns; else they are decoded before."""

    def __init__(self, spec: Spec, inputs: Schema, output: Schema | None) -> None:
        self.spec = spec
        self.input = inputs
        self.output = output
        self.messages_in = 0
        self.messages_out = 0

    def start(self) -> None:
        """Called once before the first batch."""

    def process(self, batch: pa.RecordBatch) -> Iterable[pa.RecordBatch]:
        """What comes of one batch; never empty batches needed."""
        raise NotImplementedError

    def flush(self) -> Iterable[pa.RecordBatch]:
        """What comes at the end of all inputs, when the end is final (SEMANTICS C9)."""
        return ()

    def finish(self) -> None:
        """Called once at the end of all inputs, after :meth:`flush`, whether the end is final or not."""

    def close(self) -> None:
        """Called once, also after a failure."""

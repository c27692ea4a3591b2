"""What a task did, as JSON for its manifest: messages and bytes in and out, control messages, offsets, ends, seconds."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from airflow_samza.control.messages import EndOfStreamMessage, from_json, to_json


@dataclass
class InputReport:
    """One input stream: user messages, their bytes in memory, control messages, and the next offset of each partition."""

    messages: int = 0
    bytes: int = 0
    control_messages: int = 0
    next_offsets: dict[int, int] = field(default_factory=dict)


@dataclass
class OutputReport:
    """One output stream: messages, bytes in memory, and the end-of-stream message to commit (None: this task does not end it)."""

    messages: int = 0
    bytes: int = 0
    end_of_stream: EndOfStreamMessage | None = None


@dataclass
class OperatorReport:
    """One operator: messages in and out, so that ``dropped`` is what a filter, an inner join or an aggregation took away."""

    messages_in: int = 0
    messages_out: int = 0

    @property
    def dropped(self) -> int:
        """Messages that went in and did not come out."""
        return max(self.messages_in - self.messages_out, 0)


@dataclass
class TableReport:
    """One table: rows at the end, their bytes in memory, and rows that were ignored because their key is null."""

    rows: int = 0
    bytes: int = 0
    ignored: int = 0


@dataclass
class TaskReport:
    """One task of a stage. ``bookkeeping`` is the checkpoint of the end-of-stream bookkeeping (SEMANTICS C6)."""

    stage: str
    task: str
    inputs: dict[str, InputReport] = field(default_factory=dict)
    side_inputs: dict[str, InputReport] = field(default_factory=dict)
    outputs: dict[str, OutputReport] = field(default_factory=dict)
    operators: dict[str, OperatorReport] = field(default_factory=dict)
    tables: dict[str, TableReport] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    bookkeeping: list[dict[str, Any]] = field(default_factory=list)
    final: bool = True
    shut_down: bool = False
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        body = dataclasses.asdict(self)
        for name, output in self.outputs.items():
            body["outputs"][name]["end_of_stream"] = to_json(output.end_of_stream) if output.end_of_stream is not None else None
        for place in ("inputs", "side_inputs"):
            for found in body[place].values():
                found["next_offsets"] = {str(partition): offset for partition, offset in found["next_offsets"].items()}
        return body

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> TaskReport:
        """What :meth:`to_dict` wrote."""
        data = dict(body)
        for place in ("inputs", "side_inputs"):
            data[place] = {
                name: InputReport(**{**found, "next_offsets": {int(p): offset for p, offset in found["next_offsets"].items()}})
                for name, found in data[place].items()
            }
        outputs = {}
        for name, found in data["outputs"].items():
            end = found["end_of_stream"]
            message = None if end is None else from_json(2, end, stream=name, partition=0, offset="manifest")
            assert message is None or isinstance(message, EndOfStreamMessage)
            outputs[name] = OutputReport(found["messages"], found["bytes"], message)
        data["outputs"] = outputs
        data["operators"] = {name: OperatorReport(**found) for name, found in data["operators"].items()}
        data["tables"] = {name: TableReport(**found) for name, found in data["tables"].items()}
        return cls(**data)

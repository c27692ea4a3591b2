"""The records of a topic as values: a segment, a commit, and how a commit is read from its JSON.

Stores of segments in the log, in memory and on Kafka write them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, TypeVar

import msgspec

from airflow_samza.control.messages import ControlMessage, ProducerEnds, from_json, message_type, to_json
from airflow_samza.grouping import grouped
from airflow_samza.records import plain
from airflow_samza.systems.log.topic import VERSION, Topic
from airflow_samza.systems.output_slots import OutputSlot
from airflow_samza.typed_values import converted

Form = TypeVar("Form", bound=msgspec.Struct)

_Whole = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


def _typed(data: Mapping[str, Any], form: type[Form]) -> Form:
    """Return JSON as a value whose fields have the types that the form declares.

    A KeyError names what is missing, a ValueError what is wrong.
    """
    _check_keys(data, form)
    try:
        return converted(data, form)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _check_keys(data: Mapping[str, Any], form: type[msgspec.Struct]) -> None:
    for name in form.__struct_encode_fields__:
        if name not in (_SLOT, _ROOT):
            data[name]


_SLOT, _ROOT = "slot", "root"
"""The keys of a commit's JSON that only those of a slot have, and those of a run whose root is known."""


class Segment(msgspec.Struct, frozen=True, rename={"name": "segment"}):
    """Segment file as a commit names it.

    Per record batch its partition, rows, where it ends in the file, and its CRC-32. ``ends`` and ``checksums`` have one
    entry more than there are batches: the file's footer. The name is part of a path, so it leads nowhere else.
    """

    name: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_~%+=@,-][A-Za-z0-9._~%+=@,-]*$")]
    bytes: _Whole
    partitions: tuple[_Whole, ...]
    rows: tuple[_Whole, ...]
    ends: tuple[_Whole, ...]
    checksums: tuple[_Whole, ...]

    def __post_init__(self) -> None:
        """Reject lists that do not belong together."""
        if not len(self.partitions) == len(self.rows) == len(self.ends) - 1 == len(self.checksums) - 1:
            raise ValueError(f"names segment {self.name} with lists of different lengths")

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, in manifests and commit records alike."""
        return dict(msgspec.to_builtins(self))

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segment:
        """Return it from what :meth:`to_json` wrote."""
        return _typed(data, cls)


class Commit(msgspec.Struct, frozen=True, dict=True):
    """Commit: what a producer's epoch added to the topic.

    ``next`` is the offset after it, per partition; the control entries are the last offsets of every partition.
    ``once`` marks a producer that never comes back (an append), so that nobody has to remember it. ``slot`` is what it
    replaces of another run; None: it adds to what is there. ``root`` is the identity of the run's root ("": not noted).
    """

    number: _Whole
    producer: str
    generation: str
    epoch: int
    at: int
    segments: tuple[Segment, ...]
    control: tuple[tuple[int, Any], ...]
    next: tuple[_Whole, ...]
    once: bool = False
    schema: str | None = None
    slot: OutputSlot | None = None
    root: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        record = {"version": VERSION, **msgspec.to_builtins(self)}
        if self.slot is None:
            del record[_SLOT]
        else:
            record[_SLOT] = plain(self.slot)
        if not self.root:
            del record[_ROOT]
        return record

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Commit:
        """Return it from what :meth:`to_json` wrote."""
        for segment in data["segments"]:
            _check_keys(segment, Segment)
        commit = _typed(data, cls)
        if commit.slot is not None:
            commit.slot.code  # noqa: B018 - its interval is two moments
        return commit

    @property
    def rows(self) -> int:
        """User messages in all partitions."""
        return sum(sum(segment.rows) for segment in self.segments)

    @property
    def bytes(self) -> int:
        """Bytes of the segment files."""
        return sum(segment.bytes for segment in self.segments)

    @cached_property
    def rows_by_partition(self) -> tuple[int, ...]:
        """User messages per partition."""
        counts = [0] * len(self.next)
        for segment in self.segments:
            for partition, rows in zip(segment.partitions, segment.rows, strict=True):
                counts[partition] += rows
        return tuple(counts)

    @cached_property
    def places(self) -> Mapping[int, Sequence[tuple[Segment, int]]]:
        """The places of each partition's rows, computed once: segment and record batch, in task order."""
        return grouped(
            (partition, (segment, batch))
            for segment in self.segments
            for batch, partition in enumerate(segment.partitions)
        )

    @cached_property
    def _messages(self) -> dict[int, ControlMessage]:
        return {}

    def control_message(self, number: int, topic: Topic, partition: int, offset: int) -> ControlMessage:
        """Return a control entry as a message, the same one for every partition; an error names the place."""
        message = self._messages.get(number)
        if message is None:
            kind, body = self.control[number]
            message = from_json(kind, body, stream=topic.name, partition=partition, offset=offset)
            self._messages[number] = message
        return message

    @cached_property
    def _ends(self) -> list[ProducerEnds | None]:
        return []

    def ends(self, topic: Topic, partition: int, offset: int) -> ProducerEnds | None:
        """Return the control entries, the first at an offset, where all are ends of different tasks; else None."""
        if not self._ends:
            each = [
                self.control_message(number, topic, partition, offset + number) for number in range(len(self.control))
            ]
            self._ends.append(ProducerEnds.of(each))
        return self._ends[0]


def control_entry(message: ControlMessage) -> tuple[int, Mapping[str, Any]]:
    """Return a control message as a commit keeps it."""
    return int(message_type(message)), to_json(message)


def parse_commit(topic: Topic, path: str, record: Mapping[str, Any], number: int) -> Commit:
    """Return a commit from its JSON, checked.

    A record that contradicts itself or its place is a TopicError naming the file.
    """
    try:
        commit = Commit.from_json(record)
    except KeyError as error:
        raise topic.damaged(path, f"has no {error.args[0]!r}") from None
    except (ValueError, TypeError) as error:
        raise topic.damaged(path, f"cannot be understood ({error})") from None
    if commit.number != number:
        raise topic.damaged(path, f"says that it is commit {commit.number}")
    if len(commit.next) != topic.partitions:
        raise topic.of_other_count(path, len(commit.next))
    if any(partition not in range(topic.partitions) for segment in commit.segments for partition in segment.partitions):
        raise topic.damaged(path, "names a partition that the topic does not have")
    return commit


def reject_gap(topic: Topic, path: str, commit: Commit, before: Sequence[int]) -> None:
    """Reject a commit whose offsets do not follow from those before it."""
    expected = tuple(
        base + rows + len(commit.control) for base, rows in zip(before, commit.rows_by_partition, strict=True)
    )
    if expected != commit.next:
        raise topic.damaged(path, "has offsets that do not follow from the commit before it")

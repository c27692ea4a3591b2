"""Records of commits long ago in a short form: one property of the table, of which a publisher opens what concerns it.

A table may be written by ten thousand runs, each of a slot of its own, and each commit writes all properties anew. So
the oldest records lie packed, in blocks. A block has a heading: the time that the data intervals of its records cover,
and marks of four hex digits for what else records are asked for by. Blocks whose heading has nothing of what is sought
stay closed. A record says the same packed and open; one that a commit changes is opened for good. Publishers of both
lake formats open them.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

FOLDED = "samza.folded"
"""The property of the packed records."""

BLOCK = 50
"""Records of a block, at most."""

_MARK = 4


@dataclass(frozen=True)
class Heading:
    """Facts by which a record is asked for: its data interval (µs since 1970), and texts that stand for it."""

    interval: tuple[int, int] | None = None
    texts: tuple[str, ...] = ()

    @cached_property
    def marks(self) -> frozenset[str]:
        """The texts in short."""
        return frozenset(hashlib.sha256(text.encode()).hexdigest()[:_MARK] for text in self.texts)

    def meets(self, other: Heading) -> bool:
        """Return whether two have a text in common, or their intervals overlap or touch."""
        return not set(self.texts).isdisjoint(other.texts) or _touch(self.interval, other.interval)


@dataclass(frozen=True)
class Block:
    """Records that are packed together: ``interval`` from the earliest begin to the latest end.

    ``marks`` stay a text, with commas: most blocks are only asked for one of them.
    """

    interval: tuple[int, int] | None
    marks: str
    body: str

    @classmethod
    def of(cls, records: Sequence[tuple[Heading, str]]) -> Block:
        """Return a block of records, each a line of text."""
        bounds = [heading.interval for heading, _ in records if heading.interval is not None]
        interval = (min(begin for begin, _ in bounds), max(end for _, end in bounds)) if bounds else None
        packed = zlib.compress("\n".join(text for _, text in records).encode(), 9)
        marks = {mark for heading, _ in records for mark in heading.marks}
        return cls(interval, ",".join(sorted(marks)), base64.b85encode(packed).decode())

    @classmethod
    def parse(cls, text: str) -> Block:
        """Return a block from the property; a ValueError where it is none."""
        begin, end, marks, body = text.split("/")
        return cls((int(begin), int(end)) if begin else None, marks, body)

    @property
    def text(self) -> str:
        """The block as a word of the property."""
        begin, end = ("", "") if self.interval is None else self.interval
        return f"{begin}/{end}/{self.marks}/{self.body}"

    def may_have(self, sought: Heading | None) -> bool:
        """Return whether a record may be here that has the interval in common with what is sought, or a text."""
        if sought is None or _touch(self.interval, sought.interval):
            return True
        return any(mark in self.marks for mark in sought.marks)

    @cached_property
    def records(self) -> list[str]:
        """The records; a ValueError where they are damaged."""
        try:
            return zlib.decompress(base64.b85decode(self.body)).decode().split("\n")
        except zlib.error as error:
            raise ValueError(str(error)) from error


@dataclass(frozen=True)
class FoldedRecords:
    """All packed records of a table."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def parse(cls, text: str) -> FoldedRecords:
        """Return the records of the property's value; a ValueError where it is damaged."""
        return cls(tuple(Block.parse(word) for word in text.split()))

    @property
    def text(self) -> str:
        """The property's value."""
        return " ".join(block.text for block in self.blocks)

    def opened(self, sought: Heading | None) -> Iterator[tuple[int, str]]:
        """Yield the records of the blocks that may have what is sought (None: all), each with its block's number."""
        for number, block in enumerate(self.blocks):
            if block.may_have(sought):
                yield from ((number, record) for record in block.records)

    def with_blocks(
        self, records: Sequence[tuple[Heading, str]], instead: Mapping[int, Sequence[tuple[Heading, str]]]
    ) -> FoldedRecords:
        """Return the records with further ones, and with blocks whose records are those that ``instead`` says."""
        changed = (instead.get(number, block) for number, block in enumerate(self.blocks))
        blocks = [one if isinstance(one, Block) else Block.of(one) for one in changed if one]
        new = (Block.of(records[place : place + BLOCK]) for place in range(0, len(records), BLOCK))
        return FoldedRecords((*blocks, *new))


def _touch(one: tuple[int, int] | None, other: tuple[int, int] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]

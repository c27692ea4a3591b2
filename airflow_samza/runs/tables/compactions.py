"""Compactions of versions of a pushed table: the same rows as one section, and who reads which (decision 50).

A version stays what it is: number, push id, kind, and the sections of its record. Beside it,
``compactions/<number>.json`` says that one more section holds just its rows. Who has nothing reads that one; who has a
part of the chain of changes reads on in the chain, as long as retention has not given it up. Tasks that fill a table
choose by them, and retention and checks of a root follow them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_samza.records import durable
from airflow_samza.runs.records.folders import must_read, numbers
from airflow_samza.runs.tables.folder import TableFolder
from airflow_samza.systems.filesystems.filesystem import Filesystem

Section = tuple[str, str]
"""Producer and generation of the commit that a push, or a compaction, has made."""

Offsets = tuple[tuple[int, int], ...]

COMPACTED = "compacted@"
"""In the producer of a compacted section: no push has such an id, as a safe text has no ``@``."""

CHAINS = "chains"
"""Beside the sections of a slice: other sections that make the same rows, for who has some of them already."""


@durable("compaction of a table", beside=("mark", "is_given_up"))
@dataclass(frozen=True)
class Compaction:
    """The rows of version ``number`` as one ``section`` at ``offsets``, within the topic's first ``commits`` commits.

    ``chain`` are the sections that it was made of, at ``chain_offsets``; the first one is the compaction of the version
    ``below``, or of a full push (None). ``mark``: the file that stands once ``chain`` may no longer be read
    (``is_given_up``).
    """

    number: int
    section: Section
    offsets: Offsets
    commits: int
    rows: int
    bytes: int
    chain: tuple[Section, ...]
    chain_offsets: Offsets
    at: str
    below: int | None = None
    mark: str = ""
    is_given_up: bool = False


class Compactions:
    """The compactions of a table, each read when it is first asked for."""

    def __init__(self, files: Filesystem, folder: TableFolder) -> None:
        self._files = files
        self._folder = folder
        self._numbers: set[int] | None = None
        self._by_number: dict[int, Compaction] = {}

    @property
    def numbers(self) -> set[int]:
        """The versions that are compacted."""
        if self._numbers is None:
            self._numbers = set(numbers(self._files, self._folder.compactions))
        return self._numbers

    def of(self, number: int) -> Compaction | None:
        """The compaction of a version, if it has one."""
        if number not in self.numbers:
            return None
        if number not in self._by_number:
            mark = self._folder.given_up(number)
            compaction = must_read(self._files, self._folder.compaction(number), Compaction)
            self._by_number[number] = replace(compaction, mark=mark, is_given_up=self._files.exists(mark))
        return self._by_number[number]

    def from_above(self, number: int | None) -> tuple[Compaction, ...]:
        """Return the compaction of a version, that below it, and so on, down to the first chain that is given up."""
        above: list[Compaction] = []
        while number is not None and (not above or not above[-1].is_given_up):
            compaction = self.of(number)
            if compaction is None:
                break
            above.append(compaction)
            number = compaction.below
        return tuple(above)


def described_sections(sections: Sequence[Section]) -> list[dict[str, str]]:
    """Sections as a slice names them."""
    return [{"run": producer, "producer": producer, "generation": generation} for producer, generation in sections]


def chains(sections: Sequence[Section], offsets: Offsets, compactions: Sequence[Compaction]) -> list[dict[str, Any]]:
    """Return other sections that make the same rows, with each compaction in turn written out into its parts.

    ``needs`` are [n, mark]: who has less than the first n of them may read on only while there is no such mark.
    """
    written_out: list[dict[str, Any]] = []
    rest = tuple(sections[1:])
    needs: list[list[Any]] = []
    for compaction in compactions:
        needs = [
            [len(compaction.chain), compaction.mark],
            *([n + len(compaction.chain) - 1, mark] for n, mark in needs),
        ]
        offsets = tuple(
            (min(first, other_first), max(end, other_end))
            for (first, end), (other_first, other_end) in zip(compaction.chain_offsets, offsets, strict=True)
        )
        described = described_sections((*compaction.chain, *rest))
        written_out.append({"sections": described, "offsets": [list(span) for span in offsets], "needs": needs})
        rest = (*compaction.chain[1:], *rest)
    return written_out


def sections_since(
    former: Sequence[Any], slice_: Mapping[str, Any], is_marked: Callable[[str], bool]
) -> tuple[list[Any], list[list[int]]] | None:
    """Return the sections of a slice that who has those of a former one lacks, and offsets that span them; None: all.

    ``is_marked`` tells whether a mark stands.
    """
    held, now = len(former), slice_["sections"]
    if now[:held] == former:
        return now[held:], slice_["offsets"]
    for chain in slice_.get(CHAINS, ()):
        sections = chain["sections"]
        if sections[:held] == former and not any(held < n and is_marked(mark) for n, mark in chain["needs"]):
            return sections[held:], chain["offsets"]
    return None


def is_of_one_push(slice_: Mapping[str, Any]) -> bool:
    """Return whether a slice is what one full push has written, each partition in the order of its keys."""
    sections = slice_.get("sections", ())
    return len(sections) == 1 and COMPACTED not in sections[0]["producer"]


def holds_all(former: Mapping[str, Any], slice_: Mapping[str, Any]) -> bool:
    """Return whether a former slice has the rows of this one, as the same sections or as those it was compacted of."""
    if "sections" not in former:
        return False
    lacking = sections_since(former["sections"], slice_, lambda mark: True)
    return lacking is not None and not lacking[0]

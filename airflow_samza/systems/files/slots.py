"""The records of slots beside written files: which runs began to publish what, in which order (rule O1, decision 103).

A record ``<output>/_samza/slots/slot.<slot>.<turn>.<run>.<producer>.<generation>.json`` is written before the first
file of a generation is published. All that decides stands in its name; it holds the same for people. The manifests say
which of them have published. Records of what was replaced stay: so a run that goes on afterwards notices that it was.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import pyarrow.fs as pafs

from airflow_samza.errors import TopicError
from airflow_samza.records import plain
from airflow_samza.systems.files.location import Location
from airflow_samza.systems.files.manifests import FOLDER
from airflow_samza.systems.output_slots import OutputSlot, SlotCode, SlotWriter, Turn
from airflow_samza.typed_values import converted

SLOTS = f"{FOLDER}/slots"

_RECORD = re.compile(
    r"slot\.(?P<application>[0-9a-f]{12})(?:\.i(?P<begin>-?\d+)_(?P<end>-?\d+))?(?:\.k(?P<key>[0-9a-f]{12}))?"
    r"(?:\.c(?P<config>[0-9a-f]{12}))?\.(?P<number>\d+)\.(?P<run>[0-9a-f]{12})\.(?P<producer>[0-9a-f]{12})"
    r"\.(?P<generation>\d+(?:\.\d+)*)\.json"
)


@dataclass(frozen=True)
class SlotTurn:
    """Turn at a slot of an output, by the name of its record; run and producer are digests."""

    code: SlotCode
    turn: Turn

    @property
    def name(self) -> str:
        """The record's name."""
        application, interval, key, config = self.code
        parts = ["slot", application]
        parts += [] if interval is None else [f"i{interval[0]}_{interval[1]}"]
        parts += [f"k{key}"] if key else []
        parts += [f"c{config}"] if config else []
        return ".".join([*parts, str(self.turn.number), *self.turn[1:], "json"])

    @property
    def owner(self) -> tuple[str, str]:
        """The producer's digest, and the generation."""
        return self.turn.producer, self.turn.generation

    def place(self, output: Location) -> Location:
        """Return the path of the record."""
        return output / f"{SLOTS}/{self.name}"


def list_turns(output: Location) -> list[SlotTurn]:
    """Return all turns of an output."""
    selector = pafs.FileSelector((output / SLOTS).path, allow_not_found=True)
    turns = []
    for info in output.filesystem.get_file_info(selector):
        match = _RECORD.fullmatch(str(info.path).rpartition("/")[2])
        if match is None or not info.is_file:
            continue
        interval = None if match["begin"] is None else (int(match["begin"]), int(match["end"]))
        code = SlotCode(match["application"], interval, match["key"] or "", match["config"] or "")
        turn = Turn(int(match["number"]), match["run"], match["producer"], match["generation"])
        turns.append(SlotTurn(code, turn))
    return sorted(turns, key=lambda slot_turn: (slot_turn.turn.order, slot_turn.name))


def encode_writer(writer: SlotWriter) -> bytes:
    """Return the content of a record."""
    facts = {"producer": writer.producer, "generation": writer.generation, "root": writer.root}
    return json.dumps({**plain(writer.slot), **facts}).encode()


def read_writer(output: Location, turn: SlotTurn) -> SlotWriter:
    """Return who has written a slot; a damaged record is a :class:`TopicError`."""
    place = turn.place(output)
    try:
        with place.filesystem.open_input_stream(place.path, compression=None) as source:
            record = json.loads(source.read())
        slot = converted(record, OutputSlot)
        if slot.code != turn.code:
            raise ValueError("it is of another slot than its name says")
        return SlotWriter(slot, str(record["producer"]), str(record["generation"]), str(record.get("root", "")))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise TopicError(
            f"The record {place} is damaged: {error}.",
            hint=f"Restore it; or remove it together with {output}/part-*-{turn.turn.producer}-*, and run that "
            "interval again.",
            path=str(place),
        ) from error


def winner_at(output: Location, turn: SlotTurn) -> str:
    """Return the producer that has a turn; of a record that cannot be read, one with the digest of its run."""
    try:
        return read_writer(output, turn).producer
    except (TopicError, OSError):
        return f"?/{turn.turn.run}/?"

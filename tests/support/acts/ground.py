"""The ground of a cell: messages that lie there, pushes of the table, and what runs have written."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition
from tests.support.acts.model import Rows, data_of, text_of, tiers
from tests.support.acts.sketches import DAY_BEFORE, LAKE, LOG, Sketch
from tests.support.pushes import Pushes

_TYPES = pa.schema(
    [
        ("k", pa.string()),
        ("id", pa.int64()),
        ("i", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("z", pa.int64()),
    ]
)


class Ground:
    """A lake of files and a root with its log, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.root = folder / "lake", folder / "root"

    @property
    def log(self) -> LogSystem:
        """The log under the root."""
        return LogSystem("log", SystemBinding("log", {"root": str(self.root)}))

    def lay(self, sketch: Sketch) -> None:
        """Lay the messages of all inputs down, in place of all that was there, and push the first table."""
        for folder in (self.lake, self.root):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        days = [sketch.interval, *([DAY_BEFORE] if sketch.has_day_before else [])]
        for node in sketch.of_kind("input"):
            id = node.args.get("data", node.args["id"])
            for day in days:
                rows = data_of(sketch, id, day)
                if node.args["system"] == LAKE:
                    self._files(id, rows, day)
                else:
                    self.log.append(id, pa.Table.from_pylist(rows, schema=_TYPES), key=["k"], partitions=2)
        for number in range(sketch.pushes):
            self.push(number + 1)

    def _files(self, id: str, rows: Rows, day: tuple[str, str] | None) -> None:
        folder = self.lake / "in" / id / (day[0][:10] if day else "")
        folder.mkdir(parents=True)
        for number in range(2):
            text = "".join(json.dumps({**row, "at": row["at"].isoformat()}) + "\n" for row in rows[number::2])
            (folder / f"{number}.jsonl").write_text(text)

    def push(self, version: int) -> None:
        """Push a version of the table."""
        Pushes(self.root).push(f"push-{version}", dict(tiers(version)))

    def outputs(self, places: set[str]) -> dict[str, Counter[str]]:
        """Return the rows that lie in places."""
        return {place: self._output(*place.split(":")) for place in places}

    def _output(self, system: str, name: str) -> Counter[str]:
        if system == LOG:
            return Counter(text_of(row) for row in self._topic(name))
        return Counter(text_of(row) for path in sorted((self.lake / name).rglob("*")) for row in _rows_of(path))

    def _topic(self, name: str) -> list[dict[str, Any]]:
        metadata = self.log.metadata([StreamSpec(name)]).get(name)
        if metadata is None:
            return []
        rows: list[dict[str, Any]] = []
        with contextlib.closing(self.log.consumer(StreamSpec(name))) as consumer:
            for partition in range(metadata.partitions):
                offsets = OffsetRange(metadata.oldest[partition], metadata.head[partition])
                for envelope in consumer.read(SystemStreamPartition("log", name, partition), offsets):
                    if isinstance(envelope, MessageRun):
                        rows += envelope.batch.to_pylist()
        return rows


def _rows_of(path: Path) -> list[dict[str, Any]]:
    if path.is_dir() or any(part.startswith(("_", ".")) for part in path.parts):
        return []
    if path.suffix == ".parquet":
        found: list[dict[str, Any]] = pq.ParquetFile(path).read().to_pylist()
        return found
    return [json.loads(line) for line in path.read_text().splitlines()]


def keep(folder: Path, kept: Path) -> None:
    """Keep the lake and the root of a folder in another one, in place of what was kept there."""
    for name in ("lake", "root"):
        shutil.rmtree(kept / name, ignore_errors=True)
        _link(folder / name, kept / name)


def _link(folder: Path, target: Path) -> None:
    """Copy a folder, its files as links: those under a root are never changed, only replaced."""
    target.mkdir(parents=True)
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            _link(Path(entry.path), target / entry.name)
        else:
            os.link(entry.path, target / entry.name)

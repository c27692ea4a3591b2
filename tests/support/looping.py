"""An application of two stages over lines in a topic, and what it gives: for tests of runs of several epochs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.log.system import LogSystem
from airflow_samza.systems.system import MessageRun, OffsetRange, StreamSpec, SystemBinding, SystemStreamPartition

APPLICATION = """
from airflow_samza import count, stream_application, sum_, tumbling

LINE = "word string, n bigint, at timestamp"

def describe(app, bounded):
    time = {"timestamp": "at"} if bounded else {"timestamp": "at", "max_delay": "1 hour"}
    lines = app.input_stream("lines", system="log", schema=LINE, partitions=2, bounded=bounded, **time)
    lines.send_to(app.output_stream("copy", system="log", schema=LINE, partitions=2, key="word"))
    words = lines.where("n >= 0").partition_by("word", id="by-word")
    counted = words.aggregate("word", lines=count(), total=sum_("n"), id="per-word")
    counted.send_to(app.output_stream("counts", system="log", partitions=2, key="word"))
    windows = words.window(tumbling("1 minute"), key="word", lines=count(), id="per-minute")
    windows.send_to(app.output_stream("minutes", system="log", partitions=2, key="word"))

@stream_application("circling")
def circle(app):
    lines = app.input_stream("lines", system="log", schema=LINE, partitions=2, key="word").where("n >= 0")
    latest = app.local_table("latest", key="word", schema=LINE)
    lines.where("n < 95").partition_by("word", id="again").send_to(latest)
    joined = lines.join(latest, lambda line, row: {"word": line.word, "n": row.n}, id="joined", schema="word string, n bigint")
    joined.send_to(app.output_stream("joined", system="log", schema="word string, n bigint", partitions=2, key="word"))

@stream_application("looping")
def bounded(app):
    describe(app, True)

@stream_application("flowing")
def unbounded(app):
    describe(app, False)
"""

FEW = {"job.epoch.max.messages": "7"}
"""So few messages per task and epoch that a hundred take many."""


START = 1_767_225_600  # a new year


def second_of(number: int) -> int:
    """Return the time of a line: about every seven seconds, not quite in order."""
    return START + 7 * number + (number % 5) * 11


class Place:
    """A root with lines in a topic; it lies in a folder of this machine, or where a URL says."""

    def __init__(self, folder: Path, root: str = "") -> None:
        self.folder = folder
        root = root or str(folder / "root")
        self.runtime = SparkRuntime(root)
        self.log = LogSystem("log", SystemBinding("log", {"root": root}))
        self.sent: list[tuple[str, int]] = []

    def send(self, first: int, count: int) -> None:
        """Appends lines."""
        rows = [(("a", "b", "c")[number % 3], number) for number in range(first, first + count)]
        self.sent += rows
        numbers = [n for _, n in rows]
        at = pa.array([second_of(n) * 1_000_000 for n in numbers], pa.timestamp("us", "UTC"))
        table = pa.table({"word": [word for word, _ in rows], "n": pa.array(numbers, pa.int64()), "at": at})
        self.log.append("lines", table, key=["word"], partitions=2)

    def prepare(self, name: str, mode: str, run_id: str = "run", **config: str) -> RunPlan:
        return self.runtime.prepare(RunRequest(f"looping_app:{name}", run_id, mode=mode, config={**FEW, **config}))

    def rows(self, topic: str) -> list[dict[str, Any]]:
        """The user messages of a topic."""
        found = self.log.metadata([StreamSpec(topic)])[topic]
        consumer = self.log.consumer(StreamSpec(topic))
        rows: list[dict[str, Any]] = []
        for partition in range(found.partitions):
            place = SystemStreamPartition("log", topic, partition)
            for envelope in consumer.read(place, OffsetRange(found.oldest[partition], found.head[partition])):
                if isinstance(envelope, MessageRun):
                    rows += envelope.batch.to_pylist()
        consumer.close()
        return sorted(rows, key=repr)

    def copied(self) -> list[tuple[str, int]]:
        return sorted((row["word"], row["n"]) for row in self.rows("copy"))

    def counted(self) -> list[tuple[str, int, int]]:
        return sorted((row["word"], row["lines"], row["total"]) for row in self.rows("counts"))

    def expected(self) -> list[tuple[str, int, int]]:
        """Return the application's counts of all lines."""
        lines, totals = Counter(word for word, _ in self.sent), Counter[str]()
        for word, n in self.sent:
            totals[word] += n
        return sorted((word, lines[word], totals[word]) for word in lines)

    def minutes(self) -> list[tuple[str, int, int]]:
        found = self.rows("minutes")
        return sorted((row["word"], int(row["window_start"].timestamp()) // 60, row["lines"]) for row in found)

    def expected_minutes(self) -> list[tuple[str, int, int]]:
        """The lines of each word and minute."""
        lines = Counter((word, second_of(n) // 60) for word, n in self.sent)
        return sorted((word, minute, count) for (word, minute), count in lines.items())

    def folder_of(self, run: RunPlan, stage_id: str, generation: int = 1) -> StageHandle:
        return StageHandle(run.application, run.run_id, stage_id, Generation(run.generation, generation))

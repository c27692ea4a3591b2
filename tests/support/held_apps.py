"""An application whose outputs wait for an approval, and its runs, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from airflow_samza import stream_application
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import StreamSpec, SystemBinding
from tests.support.expecting_apps import hidden
from tests.support.runs_here import Here

APPLICATION = "tests.support.held_apps:scores"

HELD: dict[str, Any] = {}
"""Options of the outputs: ``files`` and ``log``, of the ``input``, and ``by_key`` for a second stage."""

AFTER_APPROVAL = {"publish": "after approval"}


@stream_application("held")
def scores(app: Any) -> None:
    """Send scores to files and to a log, which wait, and to a log that does not."""
    read = app.input_stream(
        "scores",
        system="lake",
        schema="id bigint, score bigint",
        path="in/**",
        format="json",
        **{"partitions": 2, **HELD.get("input", {})},
    )
    if HELD.get("by_key"):
        read = read.partition_by("id", id="by-id")
    read.send_to(
        app.output_stream(
            "good", system="lake", path="out", format="parquet", **{**AFTER_APPROVAL, **HELD.get("files", {})}
        )
    )
    read.send_to(app.output_stream("topic", system="log", partitions=1, **{**AFTER_APPROVAL, **HELD.get("log", {})}))
    read.send_to(app.output_stream("seen", system="log", partitions=1))


class Scores(Here):
    """A root with a lake of scores, and runs of the application."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        super().__init__(folder / "root", bindings={"lake": SystemBinding("files", {"root": str(self.lake)})})

    def write(self, ids: Sequence[int], name: str = "scores", parts: int = 2) -> None:
        """Write scores as files, in the place of those of this name."""
        folder = self.lake / "in"
        folder.mkdir(parents=True, exist_ok=True)
        for part in range(parts):
            lines = [json.dumps({"id": number, "score": number * 10}) for number in ids[part::parts]]
            (folder / f"{name}-{part}.json").write_text("".join(f"{line}\n" for line in lines))

    def runtime_handle(self, plan: RunPlan, stage_id: str) -> StageHandle:
        """Return the handle of the first generation of a stage."""
        return StageHandle(plan.application, plan.run_id, stage_id, Generation(plan.generation, 1), 1)

    def in_files(self) -> list[int]:
        """Return the ids that readers see in files."""
        files = [path for path in (self.lake / "out").rglob("*.parquet") if not hidden(path.relative_to(self.lake))]
        return sorted(row["id"] for path in files for row in pq.read_table(path).to_pylist())

    def in_topic(self, topic: str = "topic") -> list[int]:
        """Return the ids that readers see in a topic of the log."""
        if topic not in self.log.metadata([StreamSpec(topic)]):
            return []
        return sorted(row["id"] for row in self.rows(topic))

    def seen(self) -> tuple[list[int], list[int]]:
        """Return what readers see of the outputs that wait."""
        return self.in_files(), self.in_topic()

    def staged(self) -> list[Path]:
        """Return the files that are staged, of both outputs."""
        return [
            path
            for path in (*self.lake.rglob("*"), *self.root.glob("topics/topic/**/*"))
            if path.is_file() and ("staging" in path.parts or "segments" in path.parts)
        ]

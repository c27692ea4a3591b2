"""An application that expects something of what it reads and writes, and its runs, for tests.

A test puts what is expected into ``EXPECT``: a list, or a function that gets the policy of dead letters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from airflow_samza import dead_letter, stream_application
from airflow_samza.runs.records.names import Generation
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.records.stage_result import StageResult
from airflow_samza.runs.stages.stage_state import StageHandle
from airflow_samza.systems.system import SystemBinding
from tests.support.runs_here import Here

ORDER = "id bigint, member string, amount bigint, at timestamp"

EXPECT: dict[str, Any] = {}
"""``output`` and ``input``: what is expected of them; ``options`` of the input, ``limit`` of an epoch."""

APPLICATION = "tests.support.expecting_apps:orders"


@stream_application("expecting")
def orders(app: Any) -> None:
    """Copy orders to files and to a log."""
    bad: Any = None

    def made(expect: Any) -> Any:
        nonlocal bad
        if not callable(expect):
            return expect
        bad = bad or dead_letter(app.output_stream("bad", system="log", partitions=1))
        return expect(bad)

    of_input = {"expect": made(EXPECT["input"])} if "input" in EXPECT else {}
    read = app.input_stream(
        "orders",
        system="lake",
        schema=ORDER,
        path="in/**",
        format="json",
        partitions=EXPECT.get("partitions", 2),
        **{**EXPECT.get("options", {}), **of_input},
    )
    path = app.output_stream("copies", system="lake", path="out", format="parquet", expect=made(EXPECT.get("output")))
    read.send_to(path)
    read.send_to(app.output_stream("others", system="log", partitions=1))


class Orders(Here):
    """A root with a lake of orders, and runs of the application."""

    def __init__(self, folder: Path) -> None:
        self.lake = folder / "lake"
        super().__init__(folder / "root", bindings={"lake": SystemBinding("files", {"root": str(self.lake)})})

    def write(self, rows: Sequence[Mapping[str, Any]], name: str = "orders", parts: int = 2) -> None:
        """Write orders as files, in the place of those of this name."""
        folder = self.lake / "in"
        folder.mkdir(parents=True, exist_ok=True)
        for part in range(parts):
            lines = [json.dumps(dict(row), default=str) for row in rows[part::parts]]
            (folder / f"{name}-{part}.json").write_text("".join(f"{line}\n" for line in lines))

    def result(self, plan: RunPlan) -> StageResult:
        """Return the result of the run's only stage."""
        return self.runtime.finish(self.handle(plan))

    def handle(self, plan: RunPlan, generation: int = 1) -> StageHandle:
        """Return the handle of the run's only stage."""
        (stage,) = plan.plan.stages
        return StageHandle(plan.application, plan.run_id, stage.stage_id, Generation(plan.generation, generation), 1)

    def published(self) -> list[dict[str, Any]]:
        """Return the rows of the files."""
        files = [path for path in (self.lake / "out").rglob("*.parquet") if not hidden(path.relative_to(self.lake))]
        return [row for path in files for row in pq.read_table(path).to_pylist()]


def hidden(path: Path) -> bool:
    """Return whether readers leave a file out: it is staged, or of the records beside them."""
    return any(part.startswith(("_", ".")) for part in path.parts)

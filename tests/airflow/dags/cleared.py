"""An application of which one branch fails while a signal says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow_samza import stream_application

PLANE = "tailnum string, manufacturer string"


def unless_broken(plane: Any) -> Any:
    """Fails while the file ``cleared.broken`` is among the signals."""
    if (Path(os.environ["SAMZA_TEST_SIGNALS"]) / "cleared.broken").exists():
        raise ValueError("broken")
    return plane


@stream_application("cleared")
def cleared(app: Any) -> None:
    """Read two branches, of which one may fail, and a stage that reads both."""
    good = app.input_stream("good", system="data", schema=PLANE, path="planes", partitions=1)
    bad = app.input_stream("bad", system="data", schema=PLANE, path="planes", partitions=1)
    kept, broken = good.partition_by("tailnum", id="kept"), bad.map(unless_broken, id="break")
    alone = good.partition_by("manufacturer", id="alone")
    alone.send_to(app.output_stream("alone-out", system="warehouse", path="cleared/alone/{run_id}"))
    both = kept.merge(broken.partition_by("tailnum", id="broken"), id="both")
    both.partition_by("manufacturer", id="last").send_to(
        app.output_stream("out", system="warehouse", path="cleared/both/{run_id}")
    )

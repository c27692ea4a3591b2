"""Cost of a lost host with and without standby copies, measured on a cluster of two workers.

Bytes restored, and seconds.

``FAILOVER_ROWS`` says how many rows of about 120 bytes the table has; ``-s`` shows the figures, which stand in
docs/operate/affinity.md.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.spark.clusters.failover import FACT, PARTITIONS, flow_on
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(1800)]

ROWS = int(os.environ.get("FAILOVER_ROWS", "1000000"))


def facts() -> pa.Table:
    texts = np.char.add(np.char.zfill(np.arange(ROWS).astype(str), 100), " fact")
    return pa.table({"id": np.arange(ROWS), "payload": texts}, FACT.to_arrow())


def measured(folder: Path, copies: int) -> dict[str, float]:
    with flow_on(folder, {"job.standbytasks.replication.factor": str(copies)}) as flow:
        flow.start()
        until(lambda: len(flow.cluster.executors()) == 2)
        flow.send_facts(facts())
        flow.wait()
        for _ in range(10):
            began = time.monotonic()
            flow.visit(100, ROWS)
            epoch = time.monotonic() - began
        until(lambda: min(flow.held(1), flow.held(2)) == copies * PARTITIONS // 2)
        before = flow.restored()
        flow.lose(1)
        began = time.monotonic()
        flow.visit(100, ROWS)
        seconds = time.monotonic() - began
        after = flow.restored()
        found = {place: (after[place] - before[place]) / 1e6 for place in after}
        flow.drain()
        assert len(flow.rows()) == 1100
        return {
            "copies": copies,
            "epoch before (s)": round(epoch, 2),
            "first epoch after (s)": round(seconds, 2),
            **found,
        }


def test_with_a_copy_next_to_nothing_is_read_from_the_root(tmp_path: Path) -> None:
    without, with_ = measured(tmp_path / "without", 1), measured(tmp_path / "with", 2)
    print(f"\n{ROWS} rows\n{without}\n{with_}")
    assert without["root"] > ROWS * 100 / 1e6 / 4  # at least one of the four tasks was there
    assert with_["root"] < without["root"] / 20

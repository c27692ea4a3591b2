"""What a worker finds when it is forked."""

from __future__ import annotations

import gc

from airflow_samza.spark.worker_daemon import COLLECT_AFTER, quiet_collector
from airflow_samza.task.messages.messages import CHUNK


def test_the_collector_does_not_start_while_the_messages_of_a_chunk_are_made() -> None:
    before = gc.get_threshold()
    try:
        quiet_collector()
        assert gc.get_threshold() == (COLLECT_AFTER, *before[1:])
        assert COLLECT_AFTER > 6 * CHUNK  # a message, what it holds, and what comes of it; twice
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()

"""The stage runner, but that it gives up a Spark that is frozen after seconds."""

from __future__ import annotations

import sys

from airflow_samza.engine import heartbeat
from airflow_samza.engine.stage_runner import end_process
from airflow_samza.spark import runner as server

if __name__ == "__main__":
    heartbeat.SILENT_AFTER_SECONDS, heartbeat.ASK_SECONDS = 5.0, 0.5
    end_process(server.main(sys.argv[1:]))

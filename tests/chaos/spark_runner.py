"""The real stage runner, on a real Spark, whose clock and disk obey dials (:mod:`tests.support.runner_without_spark`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from airflow_samza.engine.stage_runner import end_process
from airflow_samza.spark import runner as server
from tests.support.runner_without_spark import VARIABLE, Dials, grow_impatient, quicken

if __name__ == "__main__":
    quicken(Dials(Path(os.environ[VARIABLE])))
    grow_impatient()
    end_process(server.main(sys.argv[1:]))

"""The command line, killed in the midst of a publication: ``python -m tests.support.half_published STEP TIMES WORD…``.

Transactions have ten messages; ``airflow-samza WORD…`` dies at the step (of ``publication_steps``) at the nth time.
"""

from __future__ import annotations

import signal
import sys

from airflow_samza.cli.app import app
from airflow_samza.systems.kafka import publication
from tests.support.publication_steps import signalled, watch

if __name__ == "__main__":
    step, times, *words = sys.argv[1:]
    publication.CHUNK_ROWS = 10
    watch(signalled(step, int(times), signal.SIGKILL))
    app(words)

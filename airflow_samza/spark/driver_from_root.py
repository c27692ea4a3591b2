"""The program of a driver on a host that has nothing of ours: it lies in one zip with this package, which Python runs.

``PROGRAM ROOT APPLICATION RUN KEY HANDOVER LOG``, the last two by their paths from the root.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from airflow_samza.errors import SamzaError
from airflow_samza.launch.drivers.driver_files import take_sealed
from airflow_samza.spark.runner import main as serve, print_to
from airflow_samza.systems.filesystems.local_copies import scratch_path
from airflow_samza.systems.filesystems.opening import open_filesystem

NO_SETTINGS = 4
"""The exit code of a driver that could not take what the submitter has left for it."""


def main(arguments: list[str]) -> int:
    """Run the stage runner; what keeps it from doing so is one sentence in the log under the root, or on our own."""
    root, application, run_id, key, handover, log = arguments
    host = os.uname().nodename
    try:
        files, settings = take_sealed(root, handover)
        output = scratch_path(files, log)
    except (SamzaError, OSError) as error:
        line = f"airflow_samza: the driver on {host}: {error}"
        print(line, file=sys.stderr)
        with suppress(SamzaError, OSError):  # the root itself may be what is out of reach
            open_filesystem(root).put(log, f"{line}\n".encode())
        return NO_SETTINGS
    # The cluster keeps what a driver prints somewhere; brought under the root, everybody finds it.
    print_to(output)
    return serve([root, application, run_id, key], {**settings, "output": output})


if __name__ == "__main__":
    code = main(sys.argv[1:])
    from airflow_samza.engine.stage_runner import end_process

    end_process(code)

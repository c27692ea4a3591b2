"""The program of a driver that spark-submit or a service starts: it lies in one zip with this package.

Python runs the zip: ``PROGRAM ROOT APPLICATION RUN KEY HANDOVER LOG``, the last two by their paths from the root. The
driver needs nothing of ours on its host.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from airflow_samza.errors import SamzaError
from airflow_samza.launch.drivers.driver_files import is_folder, take_sealed
from airflow_samza.spark.runner import main as serve, print_to
from airflow_samza.systems.filesystems.local_copies import scratch_path
from airflow_samza.systems.filesystems.opening import open_filesystem

NO_SETTINGS = 4
"""The exit code of a driver that could not take what the submitter has left for it."""


def main(arguments: list[str]) -> int:
    """Run the stage runner; what keeps it from doing so is one sentence in the log under the root, or on our own."""
    root, application, run_id, key, handover, log = arguments
    host = os.uname().nodename
    if is_folder(root) and not os.path.isdir(root):
        print(
            f"airflow_samza: this host ({host}) does not see {root}, which has to be the same folder, under the same "
            "path, on the submitting host, on the driver's and on every executor's.",
            file=sys.stderr,
        )
        return NO_SETTINGS
    try:
        files, settings = take_sealed(root, handover)
        output = scratch_path(files, log)
    except (SamzaError, OSError) as error:
        line = f"airflow_samza: the driver on {host}: {error}"
        print(line, file=sys.stderr)
        with suppress(SamzaError, OSError):  # the root itself may be what is out of reach
            files = open_filesystem(root)
            if not files.exists(log):  # else what we print is there already
                files.put(log, f"{line}\n".encode())
        return NO_SETTINGS
    if settings["in_cluster"]:  # which keeps what a driver prints somewhere; brought under the root, everybody finds it
        print_to(output)
    return serve([root, application, run_id, key], {**settings, "output": output})


if __name__ == "__main__":
    code = main(sys.argv[1:])
    from airflow_samza.engine.stage_runner import end_process

    end_process(code)

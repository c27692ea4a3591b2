"""The program that spark-submit is given: it finds our package under the root, and becomes the stage runner.

``DRIVER_PROGRAM PACKAGE HANDOVER ROOT APPLICATION RUN KEY``. It is shipped by itself, as a file, to a host that may not
have this package. So until the package is found it uses the standard library only, and nothing here may be imported
relative to it.
"""

from __future__ import annotations

import os
import sys

NOTHING_HANDED_OVER = 4
"""The exit code of a driver that does not see what the submitter left for it under the root."""


def main(arguments: list[str]) -> int:
    """Run the stage runner; report what is missing under the root on standard error, in one sentence."""
    package, handover, root, *runner = arguments
    if not os.path.isfile(package):
        print(
            f"airflow_samza: this host ({os.uname().nodename}) does not see {package}: the root {root} has to be the "
            "same folder, under the same path, on the submitting host, on the driver's and on every executor's.",
            file=sys.stderr,
        )
        return NOTHING_HANDED_OVER
    sys.path.insert(0, package)

    from airflow_samza.errors import SamzaError
    from airflow_samza.launch.drivers.handover import take_settings
    from airflow_samza.spark.runner import main as serve, print_to

    try:
        settings = take_settings(handover)
    except SamzaError as error:
        print(f"airflow_samza: {error}", file=sys.stderr)
        return NOTHING_HANDED_OVER
    if settings["in_cluster"]:  # which keeps what a driver prints somewhere; under the root everybody finds it
        print_to(settings["output"])
    return serve([root, *runner], settings)


if __name__ == "__main__":
    code = main(sys.argv[1:])
    if code != NOTHING_HANDED_OVER:
        from airflow_samza.engine.stage_runner import end_process

        end_process(code)
    sys.exit(code)

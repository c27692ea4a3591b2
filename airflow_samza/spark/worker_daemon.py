"""Spark's Python worker daemon with our imports done once, before it forks: each worker then starts warm.

Spark starts it by name (``spark.python.daemon.module``).
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any

from airflow_samza.launch.own_scratch import LONGEST_SOCKET_FOLDER

SOCKET_FOLDER = "PYTHON_WORKER_FACTORY_SOCK_DIR"

# Loaded before the fork. Each costs every worker 0.1–1 s when it has to load it by itself. Nobody here uses pandas, but
# pyarrow loads it at the first conversion of a Python list.
PRELOADED = (
    "pandas",
    "pyarrow",
    "pyarrow.acero",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.ipc",
    "pyarrow.parquet",
    "sqlglot.dialects.spark",
    "pyspark.worker",
    "airflow_samza.spark.epoch_task",
    "airflow_samza.systems.files.formats.json_lines",
    "airflow_samza.systems.files.formats.parquet",
    "airflow_samza.systems.files.system",
    "airflow_samza.systems.log.system",
)


def without_zips(path: Sequence[str]) -> list[str]:
    """Return the module path without Spark's zip of pyspark and its jars, where they belong to an installed pyspark.

    The zip holds the files of the folder; of a zip each process compiles what it imports, of a folder it reads what was
    compiled. A jar holds no Python, and its thousands of entries are read anew by each worker (:func:`forget_zips`).
    """
    installed = {
        os.path.realpath(folder) for folder in path if os.path.isfile(os.path.join(folder, "pyspark/daemon.py"))
    }

    def is_spare(entry: str) -> bool:
        folder, name = os.path.split(os.path.realpath(entry))
        spark = os.path.dirname(os.path.dirname(folder) if name == "pyspark.zip" else folder)  # python/lib/, or jars/
        return (name == "pyspark.zip" or name.endswith(".jar")) and os.path.dirname(spark) in installed

    return [entry for entry in path if not is_spare(entry)]


def forget_zips(path: Sequence[str]) -> None:
    """Forget the content of zips that are on the module path no longer.

    A worker that gets further code has Python read again every zip that it knows.
    """
    zips = tuple(f"{entry}/" for entry in path if os.path.isfile(entry))
    for spare in [at for at in sys.path_importer_cache if not os.path.isdir(at) and not f"{at}/".startswith(zips)]:
        del sys.path_importer_cache[spare]


def preload(names: Iterable[str] = PRELOADED) -> None:
    """Import what later forks need; one that fails to load here fails again, with its own words, in the fork."""
    for name in names:
        with suppress(ImportError):
            importlib.import_module(name)


COLLECT_AFTER = 20_000
"""Objects made and not yet gone that start the cycle collector.

Python's 700 would start it several times for each batch of messages, all of which are alive then: a fifth of the time
of a callable per message.
"""


def quiet_collector() -> None:
    """Let the collector look at fewer things, less often.

    What is loaded stays, and messages come and go by the thousand.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, *gc.get_threshold()[1:])


def listen_alone(daemon: ModuleType) -> None:
    """Have the daemon make its socket so that only its user can connect, wherever it lies; workers keep their mask.

    On hosts of a cluster Spark names a folder for all users, whose path may be too long for a socket.
    """
    if len(os.environ.get(SOCKET_FOLDER, "")) > LONGEST_SOCKET_FOLDER:
        os.environ[SOCKET_FOLDER] = tempfile.gettempdir()
    before, work = os.umask(0o077), daemon.worker

    def worker(*arguments: Any) -> Any:
        os.umask(before)
        return work(*arguments)

    daemon.worker = worker  # type: ignore[attr-defined]  # a module takes any attribute


if __name__ == "__main__":
    # Arrow's own threads would compete with Spark's: a task runs on one core. Read before pyarrow makes its pool.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path[:] = without_zips(sys.path)
    preload()
    forget_zips(sys.path)
    quiet_collector()
    from pyspark import daemon

    listen_alone(daemon)
    daemon.manager()

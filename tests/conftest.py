"""What holds for all tests."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from airflow_samza.errors import SamzaError
from airflow_samza.launch.class_archive import class_archive, java_options
from tests.spark.clusters.standalone import SHORT_LIVED

if TYPE_CHECKING:
    from demo.hdfs import Hdfs

# The first test that starts a Java decides for all of them which Python its workers run.
os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

# The archive of Spark's classes that `make test` has made, if it has: with it a Java starts on two thirds of the work.
CLASS_ARCHIVES = str(Path(sys.prefix) / "class-archives")


def _java_options() -> str:
    try:
        found = class_archive(CLASS_ARCHIVES).find()
    except SamzaError:  # there is no Java: tests that need one say so
        found = None
    return SHORT_LIVED if found is None else f"{java_options(found)} {SHORT_LIVED}"


os.environ.setdefault("SPARK_SUBMIT_OPTS", _java_options())

# A shell without job control has what it starts in the background ignore Ctrl-C, and so would the processes that tests
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Applications of tests lie in a folder of their own, as a Dag bundle does: workers get them shipped.
sys.path.insert(0, str(Path(__file__).parent / "spark" / "apps"))

# py4j tells of every connection that closes, also when the interpreter ends and pytest's streams are gone.
logging.getLogger("py4j").setLevel(logging.WARNING)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first."""
    items.sort(key=lambda item: _FIRST.index(_folder(item.nodeid)) if _folder(item.nodeid) in _FIRST else len(_FIRST))


class _OneServerEach(LoadScopeScheduling):  # type: ignore[misc]
    """Where several processes share the tests, those of a file stay together, and a server is started by one process only."""

    def _split_scope(self, nodeid: str) -> str:
        if _folder(nodeid) == "tests/hdfs" or nodeid.endswith("[hdfs]"):
            return "hdfs"
        return _folder(nodeid) if _folder(nodeid) == "tests/airflow" else nodeid.partition("::")[0]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Who runs what; the marks for groups of pytest-xdist 3.8 do nothing under pytest 9.2."""
    return _OneServerEach(config, log)


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """A real HDFS for all tests; each takes a folder of its own in it."""
    from demo.hdfs import Hdfs

    found = Hdfs(tmp_path_factory.mktemp("hdfs"))
    try:
        found.start()
        yield found
    finally:
        found.stop()


_FIRST = ["tests/airflow", "tests/spark", "tests/hdfs", "tests/property", "tests/e2e"]


def _folder(nodeid: str) -> str:
    return "/".join(nodeid.split("/")[:2])

"""Fixtures and hooks of all tests."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from airflow_samza.errors import SamzaError
from airflow_samza.launch import code_shipping
from airflow_samza.launch.class_archive import class_archive, java_options
from airflow_samza.launch.warm.settings import VARIABLE
from demo.spark_cluster import SHORT_LIVED
from demo.store_servers import AzureServer, GcsServer, S3Server, Server
from tests.support import folder_servers, one_kafka
from tests.support.budgets import EXTENDED, NIGHTLY
from tests.support.durations import Durations

if TYPE_CHECKING:
    from demo.hdfs import Hdfs
    from demo.kafka import Kafka

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

# Only tests of warm runners have them: what others start ends with them, and each finds a Java that nobody has used.
os.environ[VARIABLE] = "off"

# A shell without job control has what it starts in the background ignore Ctrl-C, and so would the processes that tests
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until the tests are collected: what they are made of stays, and a third of that time went into looking at it

# A machine that is busy with others is no failure of a test of random examples.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Applications of tests lie in a folder of their own, as a Dag bundle does: workers get them shipped.
sys.path.insert(0, str(Path(__file__).parent / "spark" / "apps"))

# py4j tells of every connection that closes, also when the interpreter ends and pytest's streams are gone.
logging.getLogger("py4j").setLevel(logging.WARNING)


class _FailuresAtOnce:
    """Prints a failure when it happens: a run that is ended from outside never comes to its summary."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            reason = getattr(getattr(report.longrepr, "reprcrash", None), "message", str(report.longrepr))
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{report.when} of {report.nodeid}, {report.duration:.0f} s: {reason[:2000]}")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Prints failures at once, where there is a terminal reporter that is not a worker's."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_FailuresAtOnce(terminal))


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that stay in one process and take long come first; those with ``few`` cases in ``make test`` have the others in ``make test-all``.

    Where random suites have more of their budgets, they are extended or nightly tests: in ``make test-all`` those beside
    Spark, at night all.
    """
    for item in items if EXTENDED or NIGHTLY else ():
        if EXTENDED and item.get_closest_marker("spark") is None:
            continue
        if item.get_closest_marker("random") or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.nightly if NIGHTLY else pytest.mark.extended)
    cases = Counter[str]()
    for item in items:
        if (few := item.get_closest_marker("few")) is not None:
            cases[test := item.nodeid.partition("[")[0]] += 1
            if cases[test] > few.args[-1] > few.args[0]:
                item.add_marker(pytest.mark.nightly)
            elif cases[test] > few.args[0]:
                item.add_marker(pytest.mark.extended)
    seconds = Durations().by_test([item.nodeid for item in items])
    together: defaultdict[str, float] = defaultdict(float)
    for nodeid, of_test in seconds.items():
        together[_scope(nodeid)] += of_test
    items.sort(key=lambda item: -together[_scope(item.nodeid)])


def pytest_collection_finish(session: pytest.Session) -> None:
    """The one Kafka starts in the background, where a test needs it; the collector of cycles passes over what is collected.

    Ten thousand tests and what they import stay to the end. With them, and in Python's usual steps, the collector took
    more than a third of the time of tests that make many objects.
    """
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    gc.enable()
    one_kafka.start_early(session)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """The one Kafka ends with the whole run; the collector takes cycles again, or DuckDB prints what is left at the end of the process."""
    gc.unfreeze()
    one_kafka.end(session.config)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """A server that only the tests of a folder use ends behind the last of them: an idle Airflow takes a tenth of a core."""
    if nextitem is not None and _folder(nextitem.nodeid) != _folder(item.nodeid):
        folder_servers.end(item.config, _folder(item.nodeid))


class _OneServerEach(LoadScopeScheduling):  # type: ignore[misc]
    """Among several processes the tests of a file stay together, and a server is started by one process only."""

    def _split_scope(self, nodeid: str) -> str:
        return _scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """The processes and their tests; the marks for groups of pytest-xdist 3.8 do nothing under pytest 9.2."""
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


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    """A real Kafka for all tests of all processes, with all listeners; each takes topics with names of its own.

    Nobody stops it but the process that runs the whole: a test of a loss starts one for itself.
    """
    return one_kafka.running(request.config, tmp_path_factory)


@pytest.fixture(scope="session", autouse=True)
def _files_of_the_repository() -> Iterator[None]:
    """Have plans look at the repository's own files once a process: applications of tests lie in a package of a thousand.

    Each plan looked at all of them, for a fifth of the time of tests that run applications. Files elsewhere are looked
    at each time.
    """
    looked, repository = code_shipping._files_of, Path(__file__).resolve().parents[1]
    kept = cache(partial(looked, repository))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            code_shipping,
            "_files_of",
            lambda origin, top: list(kept(top)) if origin == repository else looked(origin, top),
        )
        yield


AnyServer = TypeVar("AnyServer", bound=Server)


@pytest.fixture(autouse=True)
def _modules_of_the_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """Forget what a test has imported from its folder, and example Dags: the next one may have modules of the same names."""
    before = set(sys.modules)
    yield
    folders = [Path(__file__).parents[1] / "dags"]
    if (folder := getattr(request.node, "funcargs", {}).get("tmp_path")) is not None:
        folders.append(folder)
    for name in sys.modules.keys() - before:
        module = sys.modules[name]
        places = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        if any(Path(place).is_relative_to(folder) for place in places if place for folder in folders):
            del sys.modules[name]


def _running(server: type[AnyServer], tmp_path_factory: pytest.TempPathFactory) -> Iterator[AnyServer]:
    found = server(tmp_path_factory.mktemp(server.scheme))
    try:
        found.start()
        yield found
    finally:
        found.stop()


def _known(server: AnyServer, monkeypatch: pytest.MonkeyPatch) -> AnyServer:
    """The server, with its address and keys in the environment of this process and those that it starts."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 for all tests of this process; each takes a prefix of its own in its bucket."""
    yield from _running(S3Server, tmp_path_factory)


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The S3, known to this test."""
    return _known(s3_server, monkeypatch)


@pytest.fixture(scope="session")
def azure_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    """An Azure Blob Storage for all tests of this process."""
    yield from _running(AzureServer, tmp_path_factory)


@pytest.fixture
def azure(azure_server: AzureServer, monkeypatch: pytest.MonkeyPatch) -> AzureServer:
    """The Azure Blob Storage, known to this test."""
    return _known(azure_server, monkeypatch)


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    """A Google Cloud Storage for all tests of this process."""
    yield from _running(GcsServer, tmp_path_factory)


@pytest.fixture
def gcs(gcs_server: GcsServer, monkeypatch: pytest.MonkeyPatch) -> GcsServer:
    """The Google Cloud Storage, known to this test."""
    return _known(gcs_server, monkeypatch)


def _scope(nodeid: str) -> str:
    """Return the name of the tests that stay in one process with a test: its file, or the users of one server."""
    if _folder(nodeid) == "tests/hdfs" or nodeid.endswith("[hdfs]"):
        return "hdfs"
    return _folder(nodeid) if _folder(nodeid) in ("tests/airflow", "tests/page") else nodeid.partition("::")[0]


def _folder(nodeid: str) -> str:
    return "/".join(nodeid.split("/")[:2])

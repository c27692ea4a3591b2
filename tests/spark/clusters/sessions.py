"""The kinds of sessions that hold the contract, and what a test sees of one.

A further kind is a function that yields the :class:`Place` of its Spark, entered in ``KINDS``.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runtime import SparkRuntime
from airflow_samza.prepare.run_request import RunRequest
from airflow_samza.runs.records.folders import read
from airflow_samza.runs.records.run_plan import RunPlan
from airflow_samza.runs.stages.stage_runners import Claim
from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess, give_access
from airflow_samza.systems.system import SystemBinding
from demo.spark_cluster import java_options, spark_home, standalone_cluster
from demo.store_servers import BUCKET, S3Server
from tests.spark.clusters.yarn import yarn_cluster
from tests.spark.connect.connect_server import FOUR_TRIES, connect_server
from tests.support.files_with import files_with

APPLICATION = "samza_spark_apps.contract:contract"
SECRET = "a secret that no file, page or command line shows"


@dataclass(frozen=True)
class Place:
    """The place of a session's Spark, and its abilities.

    ``executors`` lists the processes that are executors and nothing else; ``speculates``: a second try beside a slow
    one. ``hosts`` has the folder of each host, as its environment names it. ``root`` is a root that is no folder.
    """

    master: str
    submit: SubmitOptions = field(default_factory=SubmitOptions)
    conf: Mapping[str, str] = field(default_factory=dict)
    executors: Callable[[], list[psutil.Process]] = list
    speculates: bool = False
    ships_package: bool = False
    hosts: str = ""
    root: str = ""
    access: RootAccess = NO_ACCESS


@contextmanager
def local(folder: Path) -> Iterator[Place]:
    yield Place("local[2,4]", conf=told(folder))  # two cores, and a task may fail three times


SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
}
SMALL = {
    "spark.executor.memory": "600m",
    "spark.driver.memory": "600m",
    "spark.executor.extraJavaOptions": java_options(),
    "spark.driver.extraJavaOptions": java_options(),
}


def told(folder: Path) -> dict[str, str]:
    """Has Spark tell all events into a file that a test can read."""
    (folder / "events").mkdir()
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file:{folder / 'events'}",
    }


@contextmanager
def standalone_client(folder: Path) -> Iterator[Place]:
    with standalone_cluster(folder, workers=2) as cluster:
        conf = {**SPECULATION, **SMALL, **told(folder)}
        yield Place(
            cluster.master,
            conf=conf,
            executors=cluster.executors,
            speculates=True,
            ships_package=True,
            hosts="$HOST_FOLDER",
        )


@contextmanager
def standalone_in_cluster(folder: Path) -> Iterator[Place]:
    with standalone_cluster(folder, workers=3) as cluster:  # the driver takes the place of one
        yield Place(
            cluster.master,
            submit=SubmitOptions("cluster"),
            conf={**SPECULATION, **SMALL, **told(folder)},
            executors=cluster.executors,
            speculates=True,
            ships_package=True,
            hosts="$HOST_FOLDER",
        )


@contextmanager
def connect(folder: Path) -> Iterator[Place]:
    with connect_server(folder, told(folder), master=FOUR_TRIES) as server:
        yield Place(server.url, ships_package=True)


def on_yarn(deploy_mode: str) -> Callable[[Path], AbstractContextManager[Place]]:
    @contextmanager
    def place(folder: Path) -> Iterator[Place]:
        jars = {
            "spark.yarn.jars": f"local:{spark_home()}/jars/*",
            "spark.executor.instances": "2",
        }  # else 400 MB are copied to each
        with yarn_cluster(folder) as cluster:
            conf = {**SMALL, **jars, **told(folder)}
            yield Place(
                "yarn", submit=SubmitOptions(deploy_mode), conf=conf, executors=cluster.executors, ships_package=True
            )

    return place


def on_s3(kind: Callable[[Path], AbstractContextManager[Place]]) -> Callable[[Path], AbstractContextManager[Place]]:
    """The same Spark with its root in a bucket, and nothing that opens it in the environment."""

    @contextmanager
    def place(folder: Path) -> Iterator[Place]:
        (folder / "store").mkdir()
        server = S3Server(folder / "store")
        root = f"s3://{BUCKET}/root"
        keys = {"access_key_id": "tests", "secret_access_key": SECRET}
        try:
            server.start()
            with kind(folder) as found:
                access = RootAccess({"endpoint": server.endpoint, "region": "us-east-1", **keys})
                yield replace(found, root=root, access=access)
        finally:
            server.stop()
            give_access(root, NO_ACCESS)

    return place


KINDS: dict[str, Callable[[Path], AbstractContextManager[Place]]] = {
    "local": local,
    "standalone-client": standalone_client,
    "connect": connect,
    "standalone-cluster": standalone_in_cluster,
    "yarn-client": on_yarn("client"),
    "yarn-cluster": on_yarn("cluster"),
    "local-on-s3": on_s3(local),
    "standalone-client-on-s3": on_s3(standalone_client),
}
MOST_RULES = "standalone-client"
"""The kind that ``make test-all`` holds to most of the contract: a cluster with executors, which can be killed one by one."""

ON_LOCAL = ("runner_that_is_killed", "java_that_is_killed", "closing_the_run")
"""Rules that ``local`` keeps in a way of its own. The rest of the contract, on all kinds, runs in ``make nightly``."""


def in_test_all(kind: str, test: str) -> bool:
    """Return whether ``make test-all`` runs a test of the contract on this kind of Spark."""
    return kind == ("local" if any(words in test for words in ON_LOCAL) else MOST_RULES)


@dataclass
class Session:
    """A run of the contract's application on one kind of Spark, which all tests of the kind share."""

    kind: str
    folder: Path
    place: Place
    runtime: SparkRuntime
    run: RunPlan

    @property
    def marks(self) -> Path:
        """The folder in which the stages leave and look for their files."""
        return self.folder / "files"

    @property
    def go(self) -> Path:
        """The file that lets the held stage go."""
        return self.marks / "go"

    @property
    def root(self) -> str:
        """The root's path or URL."""
        return self.place.root or str(self.folder / "root")

    def holders(self) -> list[int]:
        """The Python workers that are held, or were."""
        return [int(file.name.rpartition("-")[2]) for file in self.marks.glob("held-by-*")]

    def forget(self) -> None:
        """Removes what the stages left."""
        for file in self.marks.iterdir():
            file.unlink()

    def tries(self, name: str, number: int = 1) -> int:
        """The number of times that a task came to the place of this name with the mark of this number."""
        return len(list(self.marks.glob(f"{name}-{number}.*")))

    def places_with(self, words: str) -> list[str]:
        """The files of the session, and the objects of a root in a bucket, with these words (none: all)."""
        found = [str(path) for path in files_with(self.folder, words)]
        files = open_filesystem(self.root)
        if isinstance(files, ObjectStoreFilesystem):
            for each in files.client.below(""):
                with suppress(FileNotFoundError):  # deleted meanwhile
                    found += [each.key] if words.encode() in files.client.read(each.key) else []
        return found

    def rows(self, output: str) -> list[dict[str, Any]]:
        """The rows that lie in an output."""
        import pyarrow.parquet as pq

        found: list[dict[str, Any]] = pq.read_table(self.folder / "data" / "out" / output).to_pylist()
        return sorted(found, key=repr)

    def runners(self) -> list[psutil.Process]:
        """The processes of the run's live runners."""
        files = open_filesystem(self.root)
        claims = [read(files, runner.claim, Claim) for runner in self.runtime.live_runners(self.run)]
        return [psutil.Process(claim.pid) for claim in claims if claim is not None]

    def java(self) -> psutil.Process | None:
        """The Java that is the runner's Spark, started by it or above it; None when there is none."""
        (runner,) = self.runners()
        return next(
            (
                process
                for process in [*runner.children(), runner.parent()]
                if process is not None and process.name() == "java"
            ),
            None,
        )


@contextmanager
def session_of(kind: str, folder: Path) -> Iterator[Session]:
    """A session with its data, for a ``with``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name in ("data/marks", "data/many", "files", "cluster", "more", "lookup"):
        (folder / name).mkdir(parents=True)
    for number in range(2):
        rows = [{"number": number, "folder": str(folder / "files")}]
        pq.write_table(pa.Table.from_pylist(rows), folder / "data" / "marks" / f"{number}.parquet")
    for number in range(16):
        rows = [{"number": number, "folder": str(folder / "files")}]
        pq.write_table(pa.Table.from_pylist(rows), folder / "data" / "many" / f"{number:02}.parquet")
    (folder / "more" / "contract_rules.py").write_text(f'RULE = "shipped"\nFOLDER = "{folder / "files"}"\n')
    (folder / "lookup" / "word.txt").write_text("unpacked\n")
    with tarfile.open(folder / "words.tar.gz", "w:gz") as archive:
        archive.add(folder / "lookup" / "word.txt", "word.txt")
    lake = SystemBinding("files", {"root": str(folder / "data")})
    vault = SystemBinding("files", {"root": f"local://{folder / 'data'}", "password": SECRET}, frozenset({"password"}))
    with KINDS[kind](folder / "cluster") as place:
        runtime = SparkRuntime(
            place.root or str(folder / "root"),
            {"lake": lake, "vault": vault},
            access=place.access,
            master=place.master,
            submit=place.submit,
            spark_conf=place.conf,
            py_modules=[str(folder / "more" / "contract_rules.py")],
            archives=[f"{folder / 'words.tar.gz'}#lookup"],
            idle_seconds=600,
        )
        session = Session(kind, folder, place, runtime, runtime.prepare(RunRequest(APPLICATION, "run 1")))
        try:
            yield session
        finally:
            runtime.close(session.run, wait_seconds=60)
            for process in session.runners():
                process.kill()

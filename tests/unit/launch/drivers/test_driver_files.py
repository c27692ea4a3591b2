"""Files left for a driver that shares only the root with its submitter, for each kind of cluster."""

from __future__ import annotations

import base64
import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.code_shipping import ship_package
from airflow_samza.launch.drivers.driver_files import HANDOVER_SECRET, driver_left, take_sealed
from airflow_samza.launch.drivers.driver_services import Driver
from airflow_samza.launch.masters import SubmitOptions
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.local import LocalFilesystem
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess, give_access
from airflow_samza.systems.system import SystemBinding

RUN = RunFolder("views", "run-1")
SECRET = "a secret that is handed over"
LINK = "https://store.example.com/samza/driver.py?signature=1"


class Far(LocalFilesystem):
    """A root that is no folder to the submitter, and gives links."""

    links: str = ""

    def local_path(self, path: str) -> str | None:
        return None

    def link(self, path: str, seconds: float) -> str:
        return self.links or f"hdfs://nn:8020/{path}"


HANDED = ExitStack()


def left_for(files: Far, master: str, root: str = "") -> Driver:
    """A driver whose settings lie there until the test is over."""
    settings = RunnerSettings(
        root=root or files.root,
        bindings={"lake": SystemBinding("log", {"password": SECRET}, frozenset({"password"}))},
        package=ship_package(files, RUN),
        master=master,
        submit=SubmitOptions("cluster"),
    )
    return HANDED.enter_context(driver_left(files, RUN, settings))[0]


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Far]:
    made = Far(str(tmp_path / "root"))
    with HANDED:
        yield made
    give_access(made.root, NO_ACCESS)


def secret_of(driver: Driver) -> str:
    found = [value for key, value in {**driver.conf, **driver.environment}.items() if key.endswith(HANDOVER_SECRET)]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("master", "setting"),
    [
        ("spark://here:7077", ""),
        ("yarn", "spark.yarn.appMasterEnv."),
        ("k8s://https://here", "spark.kubernetes.driverEnv."),
    ],
)
def test_the_key_goes_by_a_variable_and_the_settings_lie_sealed_until_they_are_taken(
    files: Far, master: str, setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = left_for(files, master)
    assert list(driver.conf) == ([f"{setting}{HANDOVER_SECRET}"] if setting else [])
    assert list(driver.environment) == ([] if setting else [HANDOVER_SECRET])
    handover = driver.arguments[-2]
    shown = [files.read(handover).decode("latin1"), *driver.arguments, driver.program, secret_of(driver)]
    assert not [text for text in shown if SECRET in text]
    assert SECRET not in repr(driver)
    monkeypatch.setenv(HANDOVER_SECRET, secret_of(driver))
    root, settings = take_sealed(files.root, handover)
    assert root.root == files.root
    assert settings["bindings"]["lake"]["options"] == {"password": SECRET}
    assert HANDOVER_SECRET not in os.environ  # nothing that the driver starts gets it
    assert not files.exists(handover)
    monkeypatch.setenv(HANDOVER_SECRET, secret_of(driver))
    with pytest.raises(StageFailed, match="There is no hand-over"):
        take_sealed(files.root, handover)


def test_a_hand_over_that_no_driver_took_is_withdrawn(files: Far) -> None:
    driver = left_for(files, "yarn")
    assert files.exists(driver.arguments[-2])
    HANDED.close()
    assert not files.exists(driver.arguments[-2])


@pytest.mark.parametrize(
    ("master", "links", "program", "end"),
    [
        ("spark://here:7077", "", "hdfs://nn:8020/runs/views/run-1/code/driver-", ".jar"),
        ("spark://here:7077", LINK, LINK, ""),
        ("k8s://https://here", "", "hdfs://nn:8020/runs/views/run-1/code/driver-", ".py"),
        ("k8s://https://here", LINK, f"{LINK}#.py", ".py"),
    ],
)
def test_a_cluster_fetches_the_program_by_a_url_that_spark_takes_for_one(
    files: Far, master: str, links: str, program: str, end: str
) -> None:
    """A standalone cluster wants a name that ends with .jar, other clusters one that ends with .py."""
    files.links = links
    driver = left_for(files, master)
    assert driver.program.startswith(program)
    assert driver.program.endswith(end)


@pytest.mark.parametrize(("deploy_mode", "end"), [("client", ".py"), ("cluster", ".jar")])
def test_a_driver_that_has_the_root_as_a_folder_takes_its_program_and_settings_there(
    tmp_path: Path, deploy_mode: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFilesystem(str(tmp_path))
    settings = RunnerSettings(files.root, {}, master="spark://here:7077", submit=SubmitOptions(deploy_mode))
    with driver_left(files, RUN, settings) as (driver, _):
        assert Path(driver.program).parent == tmp_path / RUN.code
        assert Path(driver.program).suffix == end
        monkeypatch.setenv(HANDOVER_SECRET, secret_of(driver))
        assert take_sealed(files.root, driver.arguments[-2])[1]["in_cluster"] == (deploy_mode == "cluster")
    monkeypatch.setenv(HANDOVER_SECRET, secret_of(driver))
    with pytest.raises(StageFailed, match=r"There is no hand-over .*, or this host's root is another folder"):
        take_sealed(files.root, driver.arguments[-2])


def test_yarn_uploads_the_program_from_this_machine(files: Far) -> None:
    program = Path(left_for(files, "yarn").program)
    assert program.is_file()
    assert program.suffix == ".py"


@pytest.mark.parametrize(("links", "told"), [(LINK, {"link": LINK}), ("", {"access": {"token": "hidden"}})])
def test_a_driver_that_cannot_open_the_root_gets_a_link_to_its_hand_over_else_the_access(
    files: Far, links: str, told: dict[str, object]
) -> None:
    files.links = links
    give_access(files.root, RootAccess({"token": "hidden"}))
    found = json.loads(base64.b64decode(secret_of(left_for(files, "yarn"))))
    assert {name: value for name, value in found.items() if name != "key"} == told


def test_a_driver_is_handed_the_address_of_a_root_on_hdfs_that_its_host_may_not_know(
    files: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [("dfs.namenode.rpc-address", "nn:8020"), ("dfs.namenode.http-address", "nn:50070")]
    settings = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in lines]
    (tmp_path / "hdfs-site.xml").write_text(f"<configuration>{''.join(settings)}</configuration>")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    found = json.loads(base64.b64decode(secret_of(left_for(files, "yarn", root="hdfs://nn:8020/samza"))))
    assert found["access"] == {"namenodes": "http://nn:50070"}


def test_a_driver_whose_host_does_not_reach_the_link_says_so(files: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and nobody listens
        files.links = f"http://127.0.0.1:{taken.getsockname()[1]}/handover"
        give_access(files.root, RootAccess({"token": "hidden"}))
        driver = left_for(files, "yarn")
        monkeypatch.setenv(HANDOVER_SECRET, secret_of(driver))
        with pytest.raises(OSError, match="Connection refused"):
            take_sealed(files.root, driver.arguments[-2])

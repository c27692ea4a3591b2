"""From the settings of a stage runner to its session: of its own process, or of a Spark Connect server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.engine.driver_session import DriverSession
from airflow_samza.launch.masters import parse_master
from airflow_samza.systems.filesystems.filesystem import Filesystem
from airflow_samza.systems.filesystems.local_copies import local_copy


def open_driver_session(name: str, settings: Mapping[str, Any], files: Filesystem) -> DriverSession:
    """The session that a runner's settings ask for, with their code and archives shipped."""
    master = parse_master(settings["master"])
    driver: DriverSession
    if master.is_connect:
        from airflow_samza.spark.connect_session import ConnectSession

        driver = ConnectSession(master, local_copy(files, settings["package"]))
    else:
        from airflow_samza.spark.classic_session import ClassicSession

        driver = ClassicSession(name, master.url, settings["conf"], settings.get("class_archives"))
    driver.ship([local_copy(files, path) for path in settings["code"]], settings["archives"])
    return driver

"""The way of a driver's program and settings to the host on which spark-submit has it started.

On this host, and where all hosts have the root as one folder, both are files with a path. A driver elsewhere, with a
root that is no folder, gets

- its program, which holds this package, by Spark's own means: YARN uploads it, other clusters fetch it from the root;
- its settings by the root, sealed, for the moment until it has read them;
- the key to them in an environment variable. No command line, page or log shows it, and it opens nothing any more once
  the settings have been read. Where the submitter opens the root with options of a connection, the variable also holds
  a link to the sealed file, or, where the storage gives none, those options.

The launcher brings them, and the driver's first program takes them.
"""

from __future__ import annotations

import base64
import http
import json
import os
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_samza.errors import SamzaError, StageFailed
from airflow_samza.launch.bindings import take_root_access, with_namenodes
from airflow_samza.launch.code_shipping import ship_driver
from airflow_samza.launch.drivers.handover import leave_settings, seal, unseal, withdraw_settings
from airflow_samza.launch.drivers.spark_submit import DRIVERS_VARIABLES, FETCHED_JAR
from airflow_samza.launch.masters import IN_PODS, STANDALONE, YARN, parse_master
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.filesystem import Filesystem, link_to
from airflow_samza.systems.filesystems.local_copies import local_copy, scratch_path
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import RootAccess, access_of, give_access

HANDOVER_SECRET = "SPARK_SAMZA_HANDOVER_SECRET"
"""The environment variable with the key. Spark hides settings with this word in their names on its page, and a
standalone master passes variables that begin so on by either of its ways to submit."""

_FETCH_SECONDS = 600.0
"""Seconds for which links hold longer than a driver may wait for its place."""

_LINK_SECONDS = 60.0

_EMPTY_ZIP = b"PK\x05\x06" + bytes(18)


@dataclass(frozen=True)
class DriverFiles:
    """All that spark-submit is given for a driver; ``withdraw`` deletes what is of no use once the driver is there."""

    program: str
    jar: str
    arguments: tuple[str, ...]
    driver_log: str
    withdraw: Callable[[], None] = field(repr=False)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


def leave_driver(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> DriverFiles:
    """Leave program and settings where the driver will find them."""
    once = uuid.uuid4().hex
    if settings.submit.in_cluster and files.local_path("") is None:
        return _by_root(files, run, settings, once)
    return _by_folder(files, run, settings, once)


def _by_folder(files: Filesystem, run: RunFolder, settings: RunnerSettings, once: str) -> DriverFiles:
    place = f"{run.servers}/{settings.key}"
    driver_log = f"{place}/starting-{once}.log"
    driver, jar = f"{run.code}/driver.py", f"{run.code}/nothing.jar"
    files.put(driver, (Path(__file__).parents[2] / "spark/driver_program.py").read_bytes())
    files.put(jar, _EMPTY_ZIP)
    handed = {**settings.to_json(), "starting_log": driver_log, "output": scratch_path(files, driver_log)}
    handover = scratch_path(files, f"{place}/handover-{once}.json")
    leave_settings(handover, json.dumps(handed).encode())
    arguments = (local_copy(files, settings.package), handover, *_runner(settings, run))
    return DriverFiles(
        local_copy(files, driver), local_copy(files, jar), arguments, driver_log, lambda: withdraw_settings(handover)
    )


def _by_root(files: Filesystem, run: RunFolder, settings: RunnerSettings, once: str) -> DriverFiles:
    place, cluster = f"{run.servers}/{settings.key}", parse_master(settings.master).cluster
    driver_log, handover = f"{place}/starting-{once}.log", f"{place}/handover-{once}.sealed"
    program = ship_driver(files, run, ".jar" if cluster == STANDALONE else ".py")
    if cluster == YARN:
        fetched = local_copy(files, program)
    else:
        fetched = link_to(files, program, settings.submit.start_seconds + _FETCH_SECONDS)
        if not fetched.endswith((".py", ".jar")) and cluster in IN_PODS:
            fetched += "#.py"  # spark-submit tells a Python program by the end of its name
    handed = {**settings.to_json(), "starting_log": driver_log, "program": program.rpartition("/")[2]}
    sealed, key = seal(json.dumps(handed).encode())
    files.put(handover, sealed)
    envelope = {"key": key.hex(), **_way_to(files, handover, settings)}
    secret = base64.b64encode(json.dumps(envelope).encode()).decode()
    setting = DRIVERS_VARIABLES.get(cluster)
    return DriverFiles(
        FETCHED_JAR if cluster == STANDALONE else fetched,
        fetched,
        (*_runner(settings, run), handover, driver_log),
        driver_log,
        lambda: files.delete(handover),
        {f"{setting}{HANDOVER_SECRET}": secret} if setting else {},
        {} if setting else {HANDOVER_SECRET: secret},
    )


def _runner(settings: RunnerSettings, run: RunFolder) -> tuple[str, ...]:
    return (settings.root, run.application, run.run_id, settings.key)


def _way_to(files: Filesystem, handover: str, settings: RunnerSettings) -> dict[str, Any]:
    """Return the way by which a driver that cannot open the root by itself gets at its hand-over.

    A link to this one file, where the storage gives any: no access that lasts leaves this process but sealed.
    """
    access = with_namenodes(settings.root, access_of(settings.root))
    if not access:
        return {}
    try:
        link = link_to(files, handover, settings.submit.start_seconds + _FETCH_SECONDS)
    except SamzaError:
        link = ""
    return {"link": link} if link.startswith("http") else {"access": dict(access.options)}


def take_sealed(root: str, handover: str) -> tuple[Filesystem, dict[str, Any]]:
    """Return the root, and the settings that the submitter has left under it, which are deleted there.

    :class:`~airflow_samza.errors.StageFailed` when there are none, or no key to them.
    """
    secret = os.environ.pop(HANDOVER_SECRET, "")
    if not secret:
        raise StageFailed(
            f"The driver was started without {HANDOVER_SECRET}, the key to what it is handed.",
            hint="spark-submit gives it that variable: does something between them (a wrapper named spark-binary, a "
            "policy of the cluster) keep variables or settings back?",
        )
    envelope = json.loads(base64.b64decode(secret))
    give_access(root, RootAccess(envelope.get("access") or {}))
    try:
        sealed = _fetched(envelope["link"]) if "link" in envelope else open_filesystem(root).read(handover)
    except FileNotFoundError:
        where = f"{root.rstrip('/')}/{handover}"
        raise StageFailed(
            f"There is no hand-over {where}: the submitter gave up waiting, or another driver was quicker.",
            hint="Try again; a longer [samza] driver_start_timeout lets the submitter wait longer.",
            path=where,
        ) from None
    settings: dict[str, Any] = json.loads(unseal(sealed, bytes.fromhex(envelope["key"])))
    take_root_access(root, settings["bindings"])
    files = open_filesystem(root)
    files.delete(handover)
    return files, settings


def _fetched(link: str) -> bytes:
    try:
        with urllib.request.urlopen(link, timeout=_LINK_SECONDS) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(link) from error
        raise

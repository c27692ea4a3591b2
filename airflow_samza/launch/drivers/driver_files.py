"""The way of a driver's program and settings to the host on which spark-submit, or a service, has it started.

- Its program is a zip of this package. Where the driver starts on this host, and where all hosts have the root as one
  folder, it is a file with a path. Else it comes by Spark's own means: YARN uploads it, other clusters fetch it.
- Its settings lie under the root, sealed, for the moment until it has read them.
- The key to them is in an environment variable. No command line, page or log shows it, and it opens nothing any more
  once the settings have been read. Where the submitter opens the root with options of a connection, the variable also
  holds a link to the sealed file, or, where the storage gives none, those options.

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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from airflow_samza.errors import SamzaError, StageFailed
from airflow_samza.launch.bindings import take_root_access, with_namenodes
from airflow_samza.launch.code_shipping import ship_package
from airflow_samza.launch.drivers.driver_services import Driver
from airflow_samza.launch.drivers.handover import seal, unseal
from airflow_samza.launch.drivers.spark_submit import DRIVERS_VARIABLES
from airflow_samza.launch.masters import IN_PODS, STANDALONE, YARN, parse_master
from airflow_samza.launch.runner_settings import RunnerSettings, engine_name
from airflow_samza.runs.records.folders import RunFolder
from airflow_samza.systems.filesystems.filesystem import Filesystem, link_to
from airflow_samza.systems.filesystems.local_copies import local_copy
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import RootAccess, access_of, give_access

HANDOVER_SECRET = "SPARK_SAMZA_HANDOVER_SECRET"
"""The environment variable with the key. Spark hides settings with this word in their names on its page, and a
standalone master passes variables that begin so on by either of its ways to submit."""

_FETCH_SECONDS = 600.0
"""Seconds for which links hold longer than a driver may wait for its place."""

_LINK_SECONDS = 60.0


@contextmanager
def driver_left(files: Filesystem, run: RunFolder, settings: RunnerSettings) -> Iterator[tuple[Driver, str]]:
    """Leave program and settings where a driver will find them, and yield the driver and its log, from the root.

    At last the settings are deleted: they are of no use once the driver is there.
    """
    place, once = f"{run.servers}/{settings.key}", uuid.uuid4().hex
    log, handover = f"{place}/starting-{once}.log", f"{place}/handover-{once}.sealed"
    cluster = parse_master(settings.master).cluster if settings.submit.in_cluster else ""
    program = ship_package(files, run, "driver", ".jar" if cluster == STANDALONE else ".py")
    handed = {**settings.to_json(), "starting_log": log}
    if cluster:
        handed["program"] = program.rpartition("/")[2]
    sealed, key = seal(json.dumps(handed).encode())
    files.put(handover, sealed)
    envelope = {"key": key.hex(), **_way_to(files, handover, settings)}
    secret = base64.b64encode(json.dumps(envelope).encode()).decode()
    setting = DRIVERS_VARIABLES.get(cluster)
    driver = Driver(
        name=f"{engine_name(run.application)} {run.run_id}",
        once=once,
        program=_fetched_from(files, program, cluster, settings),
        arguments=(settings.root, run.application, run.run_id, settings.key, handover, log),
        conf={**settings.conf, **({f"{setting}{HANDOVER_SECRET}": secret} if setting else {})},
        environment={} if setting else {HANDOVER_SECRET: secret},
    )
    try:
        yield driver, log
    finally:
        files.delete(handover)


def _fetched_from(files: Filesystem, program: str, cluster: str, settings: RunnerSettings) -> str:
    """Return the path or the URL by which a driver's host gets the program; ``cluster`` "": that is this host."""
    if cluster in ("", YARN) or files.local_path("") is not None:
        return local_copy(files, program)
    link = link_to(files, program, settings.submit.start_seconds + _FETCH_SECONDS)
    if not link.endswith((".py", ".jar")) and cluster in IN_PODS:
        return f"{link}#.py"  # spark-submit tells a Python program by the end of its name
    return link


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
        other = "another driver was quicker"
        hint = "Try again; a longer [samza] driver_start_timeout lets the submitter wait longer."
        if is_folder(root):
            other = "this host's root is another folder than its own"
            hint = "The root has to be one shared folder, mounted under the same path on all hosts."
        raise StageFailed(
            f"There is no hand-over {where}: the submitter gave up waiting, or {other}.", hint=hint, path=where
        ) from None
    settings: dict[str, Any] = json.loads(unseal(sealed, bytes.fromhex(envelope["key"])))
    take_root_access(root, settings["bindings"])
    files = open_filesystem(root)
    files.delete(handover)
    return files, settings


def is_folder(root: str) -> bool:
    """Return whether a root is a folder, which all hosts of a cluster then have to have."""
    return os.path.isabs(root)


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

"""The spark-submit of a stage runner (the driver process): program, settings, command line.

The launcher starts drivers with it; a runner and a local Spark find Spark's home by it.
"""

from __future__ import annotations

import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from airflow_samza.errors import ConfigError, RuntimeMissing, StageFailed
from airflow_samza.launch.drivers.driver_services import SPARK_APPLICATION
from airflow_samza.launch.masters import CONNECT, IN_PODS, KUBERNETES, STANDALONE, YARN, Master, SubmitOptions
from airflow_samza.launch.spark_versions import pyspark_home

# A master that runs answers in milliseconds. Spark itself would try for a minute, silently.
REACH_SECONDS = 10.0

WORKERS_PYTHON = "spark.pyspark.python"
"""Spark's own setting for the Python of its workers; without one they run the driver's."""

DRIVERS_PYTHON = "spark.pyspark.driver.python"
WORKERS_PATH = "spark.executorEnv.PYTHONPATH"

# While spark-submit waits for the driver it reports a driver that fails; once the driver has reported, it is let go.
_WAITS = {
    STANDALONE: "spark.standalone.submit.waitAppCompletion",
    YARN: "spark.yarn.submit.waitAppCompletion",
    KUBERNETES: "spark.kubernetes.submission.waitAppCompletion",
}


HDFS_USER = "HADOOP_USER_NAME"

DRIVERS_VARIABLES = {
    YARN: "spark.yarn.appMasterEnv.",
    KUBERNETES: "spark.kubernetes.driverEnv.",
    SPARK_APPLICATION: "spark.kubernetes.driverEnv.",
}
"""Before the name of a variable: the setting that gives it to a driver in the cluster."""

_PAGE = "spark.ui.port"

_PORTS_OF_POD = (_PAGE, "spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port")
"""Settings of ports that the container of a driver's pod names."""

_DRIVERS_HOST = "spark.driver.host"

IN_POD = "KUBERNETES_SERVICE_HOST"  # every pod has this variable: the address of the API server

_FETCHED_JAR = "{{USER_JAR}}"
"""The argument of a driver that a standalone cluster replaces by the path of the jar that it has fetched."""

# Where each listens when its URL names no port; YARN's place is in files.
_PORTS = {STANDALONE: 7077, KUBERNETES: 443, CONNECT: 15002}


def find_spark_submit(binary: str, pyspark: str = "") -> str:
    """Return the path of spark-submit: the one named, else that of the installed pyspark.

    ``pyspark`` is the folder of another environment's pyspark. :class:`RuntimeMissing` when it is not there.
    """
    if not binary:
        home = pyspark or pyspark_home()
        path = shutil.which(str(Path(home) / "bin" / "spark-submit")) if home else None
        where = "in the installed pyspark"
        hint = (
            "Install pyspark 4.2 (not pyspark-client alone), "
            "or name a spark-submit in the Spark connection (spark-binary)."
        )
    else:
        path = shutil.which(binary)
        where = f"at {binary}" if os.sep in binary else f"named {binary!r} on PATH"
        hint = (
            "Put it there, or leave spark-binary out of the Spark connection: then that of the installed pyspark "
            "is taken."
        )
    if path is None:
        raise RuntimeMissing(f"There is no spark-submit {where}.", hint=hint, binary=binary)
    return path


def reach_master(master: Master) -> None:
    """Check that something listens at the master's address; :class:`StageFailed` in seconds when nothing does."""
    failures = []
    for host, port in _addresses(master):
        try:
            socket.create_connection((host, port), timeout=REACH_SECONDS).close()
            return
        except OSError as error:
            failures.append(f"{host}:{port} ({error.strerror or error})")
    if failures:
        raise StageFailed(
            f"The Spark master {master.shown} cannot be reached: {', '.join(failures)}.",
            hint="Is it running, and is this the address that it prints when it starts?",
            master=master.shown,
        )


def check_hadoop_conf() -> None:
    """Check that a client of YARN knows where YARN is; Spark reads it from a folder that the environment names."""
    named = {name: os.environ[name] for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR") if os.environ.get(name)}
    hint = (
        "Set HADOOP_CONF_DIR, where Airflow's workers run, "
        "to the folder with the cluster's yarn-site.xml and core-site.xml."
    )
    if not named:
        raise ConfigError(
            "The master is yarn, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set.",
            hint=hint,
            key="HADOOP_CONF_DIR",
        )
    if not any((Path(folder) / "yarn-site.xml").is_file() for folder in named.values()):
        shown = " and ".join(f"{name} ({folder})" for name, folder in named.items())
        raise ConfigError(f"The master is yarn, and {shown} holds no yarn-site.xml.", hint=hint, key=next(iter(named)))


def cluster_conf(
    master: Master, submit: SubmitOptions, conf: Mapping[str, str], package: str, python: str = ""
) -> dict[str, str]:
    """Return the Spark settings of a runner in a cluster: the user's, and those that this package needs there.

    ``package`` is the zip of our own code, which executors need on their path from the start, because their Python
    daemon is ours. It is a whole path on a root that they have as a folder; else its name, under which Spark puts what
    the driver brings along into the folder where an executor runs. ``python`` is the Python of the driver, and of
    workers for which no other is set (empty: this process's own).
    """
    workers_path = os.pathsep.join([package, *([conf[WORKERS_PATH]] if conf.get(WORKERS_PATH) else [])])
    is_pod = submit.in_cluster and master.cluster in IN_PODS
    if is_pod:
        _reject_any_port(conf)
    settings: dict[str, str] = {
        "spark.ui.enabled": "true",
        # Any free port: runs on one host would fight for Spark's sixteen. A driver's pod has ports of its own, and the
        # API server takes no 0 for one.
        **({} if is_pod or master.is_service else {_PAGE: "0"}),
        # A driver that died is started again by the next attempt at its stage; one that YARN started would find no
        # settings.
        "spark.yarn.maxAppAttempts": "1",
        **conf,
        WORKERS_PATH: workers_path,
        **({} if master.is_service else {_WAITS[master.cluster]: "true"}),
    }
    if master.cluster == YARN:  # a container's folder for temporary files has a path that is too long for a socket
        settings.setdefault("spark.python.unix.domain.socket.enabled", "false")
    settings.setdefault(
        WORKERS_PYTHON, python or (sys.executable if master.cluster in (STANDALONE, YARN) else "python3")
    )  # an image has its own
    if python or not submit.in_cluster:
        settings[DRIVERS_PYTHON] = python or sys.executable
    user = os.environ.get(HDFS_USER)
    if user:  # it writes under the root wherever it runs
        settings.setdefault(f"spark.executorEnv.{HDFS_USER}", user)
        if submit.in_cluster and master.cluster in DRIVERS_VARIABLES:  # else it has spark-submit's variables
            settings.setdefault(f"{DRIVERS_VARIABLES[master.cluster]}{HDFS_USER}", user)
    return settings


def _reject_any_port(conf: Mapping[str, str]) -> None:
    for key in _PORTS_OF_POD:
        if conf.get(key, "").strip() == "0":
            raise ConfigError(
                f"The Spark setting {key} is '0', and on Kubernetes the driver's pod has to name this port.",
                hint="Leave it out: each pod has ports of its own.",
                key=key,
                value="0",
            )


def own_address(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the setting by which executors reach a driver that runs in a pod: by its address, as no DNS has its name.

    Nothing outside a pod, and where the user has set an address.
    """
    service = os.environ.get(IN_POD)
    if not service or any(
        (_DRIVERS_HOST in conf, *map(os.environ.get, ("SPARK_LOCAL_HOSTNAME", "SPARK_LOCAL_IP", "SPARK_PUBLIC_DNS")))
    ):
        return {}
    family = socket.AF_INET6 if ":" in service else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as towards:  # sends nothing
        towards.connect((service, 443))
        address = str(towards.getsockname()[0])
    return {_DRIVERS_HOST: f"[{address}]" if family == socket.AF_INET6 else address}


def with_package(conf: Mapping[str, str], package: str) -> dict[str, str]:
    """Return the settings of a driver whose executors have our package by its name, and the driver itself by a path."""
    paths = [path for path in conf.get(WORKERS_PATH, "").split(os.pathsep) if path]
    return {**conf, WORKERS_PATH: os.pathsep.join([*paths[:1], package, *paths[1:]])}


def submit_command(
    master: Master,
    submit: SubmitOptions,
    *,
    name: str,
    properties: str,
    driver: str,
    arguments: Sequence[str],
    pyspark: str = "",
) -> list[str]:
    """Return the command line. It holds no setting and no secret: those are in ``properties`` and in the hand-over.

    Spark's standalone master takes no Python program in cluster mode; it takes a Java program, and Spark has one that
    runs Python: ``driver`` is then the jar of that program, which the cluster's host fetches. ``pyspark`` as of
    :func:`find_spark_submit`.
    """
    command = [
        find_spark_submit(submit.binary, pyspark),
        "--master",
        master.url,
        "--deploy-mode",
        submit.deploy_mode,
        "--name",
        name,
    ]
    command += ["--properties-file", properties, "--load-spark-defaults"]
    if submit.in_cluster and master.cluster == STANDALONE:
        no_files = ""
        return [
            *command,
            "--class",
            "org.apache.spark.deploy.PythonRunner",
            driver if "://" in driver else f"file:{driver}",
            _FETCHED_JAR,
            no_files,
            *arguments,
        ]
    if submit.in_cluster and master.cluster == KUBERNETES and "://" not in driver:
        driver = f"local://{driver}"  # in the pod's own filesystem, where the root is mounted
    return [*command, driver, *arguments]


def delete_command(submitted: Sequence[str], submission: str) -> list[str]:
    """Return the command that ends what another one has submitted, by its id in the cluster."""
    kept = submitted[: submitted.index("--deploy-mode")]
    properties = submitted[submitted.index("--properties-file") : submitted.index("--load-spark-defaults") + 1]
    return [*kept, *properties, "--kill", submission]


def leave_properties(path: str, conf: Mapping[str, str]) -> None:
    """Write Spark settings into a file that only its owner reads; one of this name must not be there yet."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(properties_text(conf))
        file.flush()
        os.fsync(descriptor)


def properties_text(conf: Mapping[str, str]) -> str:
    r"""Spark settings as a Java properties file.

    >>> print(properties_text({"spark.a": "C:\\x", "spark.b": " two\nlines"}), end="")
    spark.a=C:\\x
    spark.b=\ two\nlines
    """
    lines = []
    for key, value in sorted(conf.items()):
        text = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        lines.append(f"{key}={chr(92) + text if text.startswith((' ', chr(9))) else text}\n")
    return "".join(lines)


def _addresses(master: Master) -> list[tuple[str, int]]:
    """Return the addresses in a master URL: several of a standalone cluster with standby masters."""
    if master.cluster not in _PORTS:
        return []
    text = master.url.partition("://")[2]
    scheme, separator, rest = text.partition("://")
    default = 80 if scheme == "http" and separator else _PORTS[master.cluster]
    places = []
    for place in (rest if separator else text).partition("/")[0].split(","):
        host, _, port = place.rpartition(":") if place.rpartition(":")[2].isdigit() else (place, "", "")
        places.append((host.strip("[]"), int(port) if port else default))
    return places

"""Master URLs: the hosts on which stages run, and the driver process and its start.

- ``local``, ``local[4]``, ``local[*]``: a runner process of this machine with a Spark session of its own
- ``spark://``, ``yarn``, ``k8s://``: a runner that ``spark-submit`` starts, on this machine (client) or in the cluster
- ``sparkapplication://`` and the schemes that installed packages add: a driver that a service runs
  (:mod:`airflow_samza.launch.drivers.driver_services`)
- ``sc://``: a light runner process of this machine, which is a client of a Spark Connect server
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.launch.drivers.driver_services import SPARK_APPLICATION, is_service
from airflow_samza.secrecy import is_secret_name, without_passwords

LOCAL = "local"
STANDALONE = "standalone"
YARN = "yarn"
KUBERNETES = "kubernetes"
CONNECT = "connect"
SUBMITTED = "submitted"
"""The master of a driver that a service runs, as the driver itself has it: the one with which it was submitted."""

IN_PODS = (KUBERNETES, SPARK_APPLICATION)
"""Clusters whose drivers are pods."""

DEPLOY_MODES = ("client", "cluster")

DEFAULT_MASTER = "local[*]"

MASTER_KEY = "spark.master"
DEPLOY_MODE_KEY = "spark.submit.deployMode"
"""Spark's settings for the same; a place has them, so they are no settings of a stage."""

CHOOSES_A_SPARK = frozenset({"SPARK_REMOTE", "SPARK_LOCAL_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE"})
"""Variables that pyspark obeys before the master that it is given; in a client of Spark Connect it sets some itself."""

# A driver in the cluster waits for its place in a queue; ten minutes of a full cluster are no failure.
DEFAULT_START_SECONDS = 600.0

# As Spark's own SparkContext reads them; local-cluster is left out, which Spark has for its own tests only.
_FORMS: tuple[tuple[str, str], ...] = (
    (LOCAL, r"local|local\[(?:\d+|\*)(?:\s*,\s*\d+)?\]"),
    (STANDALONE, r"spark://[^\s/]+"),
    (YARN, r"yarn"),
    (KUBERNETES, r"k8s://\S+"),
    (CONNECT, r"sc://\S+"),
    (SUBMITTED, SUBMITTED),
)
_EXAMPLES = ("local[*]", "spark://host:7077", "yarn", "k8s://https://host:6443", "sc://host:15002")


@dataclass(frozen=True)
class Master:
    """A master URL, understood. ``url`` may hold the token of a Spark Connect server; ``shown`` never does."""

    url: str = field(repr=False)
    cluster: str

    @property
    def is_local(self) -> bool:
        """Return whether Spark runs inside the runner process."""
        return self.cluster == LOCAL

    @property
    def local_cores(self) -> int | None:
        """The number of tasks that a local master names; None for ``local[*]`` and for other masters.

        >>> [parse_master(url).local_cores for url in ("local[4]", "local", "local[*]")]
        [4, 1, None]
        """
        if not self.is_local:
            return None
        named = re.search(r"\d+|\*", self.url)
        return 1 if named is None else None if named[0] == "*" else int(named[0])

    @property
    def is_submitted(self) -> bool:
        """Return whether the runner is a driver of a cluster, which somebody submits."""
        return self.cluster not in (LOCAL, CONNECT)

    @property
    def is_service(self) -> bool:
        """Return whether a service runs the driver, never on this machine."""
        return self.is_submitted and self.cluster not in (STANDALONE, YARN, KUBERNETES)

    @property
    def of_driver(self) -> str:
        """The master for the driver itself: a service has given it one of its own."""
        return SUBMITTED if self.is_service else self.url

    @property
    def is_connect(self) -> bool:
        """Return whether the runner is a client of a Spark Connect server."""
        return self.cluster == CONNECT

    @property
    def server(self) -> str:
        """The URL of Kubernetes' API server; empty where the master does not name it.

        >>> parse_master("k8s://https://here:6443").server, parse_master("k8s://here").server
        ('https://here:6443', 'https://here')
        """
        if self.cluster != KUBERNETES:
            return ""
        address = self.url.removeprefix("k8s://")
        return address if "://" in address else f"https://{address}"

    @property
    def shown(self) -> str:
        """The URL without secrets: for messages, and for the key of a runner.

        >>> parse_master("sc://spark:15002/;user_id=me;token=abc").shown
        'sc://spark:15002/;user_id=me'
        """
        return _without_token(self.url)


@dataclass(frozen=True)
class SubmitOptions:
    """Options of spark-submit, for the masters that it serves.

    ``deploy_mode`` is ``client`` (the driver on this machine) or ``cluster`` (in the cluster). ``binary`` is the
    spark-submit to call, a path or a name on PATH; empty: the one of the installed pyspark. ``start_seconds`` is how
    long a driver may take until it reports: a full cluster lets it wait. Everything else that spark-submit takes
    (queue, principal, packages, files) is a Spark setting.
    """

    deploy_mode: str = "client"
    binary: str = ""
    start_seconds: float = DEFAULT_START_SECONDS

    def __post_init__(self) -> None:
        if self.deploy_mode not in DEPLOY_MODES:
            raise ConfigError(
                f"{self.deploy_mode!r} is not a deploy mode of Spark.",
                hint=f"{did_you_mean(self.deploy_mode, DEPLOY_MODES)}The driver runs on the submitting machine "
                "(client) or in the cluster (cluster).",
                key="deploy-mode",
                value=self.deploy_mode,
            )

    @property
    def in_cluster(self) -> bool:
        """Return whether the driver runs in the cluster."""
        return self.deploy_mode == "cluster"


def parse_master(url: str) -> Master:
    """Return a master URL, understood; :class:`~airflow_samza.errors.ConfigError` when it is none.

    >>> parse_master("spark://here:7077").cluster
    'standalone'
    """
    for cluster, form in _FORMS:
        if re.fullmatch(form, url):
            return Master(url, cluster)
    scheme, separator, rest = url.partition("://")
    if separator and rest and is_service(scheme):
        return Master(url, scheme)
    shown = _without_token(url)
    raise ConfigError(
        f"{shown!r} is not a master URL that Spark knows.",
        hint=f"Write one like {', '.join(_EXAMPLES)}.",
        key="master",
        value=shown,
    )


def options_for(master: Master, submit: SubmitOptions) -> SubmitOptions:
    """Return the options with the deploy mode that a service has."""
    return replace(submit, deploy_mode="cluster") if master.is_service else submit


def _without_token(url: str) -> str:
    kept = [part for part in url.split(";") if not is_secret_name(part.partition("=")[0])]
    return without_passwords(";".join(kept))


AUTHENTICATE = "spark.authenticate"
ENCRYPT = ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled", "spark.authenticate.enableSaslEncryption")


def open_doors(master: Master, conf: Mapping[str, str]) -> str | None:
    """Return a line of warning where a cluster's driver and executors talk without a secret or in clear; else None.

    A local Spark listens on loopback only, and what a Spark Connect server does is its own.
    """
    if not master.is_submitted:
        return None
    if conf.get(AUTHENTICATE, "").strip().lower() != "true":
        what = f"{AUTHENTICATE} is off: whoever reaches the ports of the driver or an executor can run code there"
    elif not any(conf.get(key, "").strip().lower() == "true" for key in ENCRYPT):
        what = (
            f"{ENCRYPT[0]} is off: whoever is on the network between driver and executors can read what goes "
            "there, secrets among it"
        )
    else:
        return None
    return (
        f"{what}. Set it in the cluster's spark-defaults.conf, "
        "or among the settings of the Spark connection (docs/operate/spark.md)."
    )

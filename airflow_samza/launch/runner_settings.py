"""The settings of a stage runner (the driver process), and the key by which runs share one.

The launcher makes them, and the stage runner and warm runners are started by them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_samza.launch.bindings import access_digest, bindings_to_json, without_secrets
from airflow_samza.launch.masters import DEFAULT_MASTER, SubmitOptions, parse_master
from airflow_samza.launch.warm.settings import WarmRunners
from airflow_samza.systems.system import SystemBinding

# Short against the 0.1 s that the smallest Spark job takes; listing one small folder costs microseconds.
POLL_SECONDS = 0.05

DEFAULT_IDLE_SECONDS = 360.0
"""Seconds that a runner waits for the run's next stage.

Longer than Airflow's default delay before a retry (300 s), so it lives as long as the run; the end of a run closes it
at once.
"""

IDLE_OF_ONE_SECONDS = 30.0
"""The time that a runner of one task alone waits for the next stage."""

GAVE_WAY = 3
"""The exit code of a runner on this host that found another in its place; a cluster would take it for a failure."""


def engine_name(application: str) -> str:
    """Return the name under which Spark shows the runner of an application."""
    return f"airflow_samza {application}"


@dataclass(frozen=True)
class RunnerSettings:
    """The settings of a stage runner.

    Runtimes whose settings differ only in secrets, idle time, archives of classes, in what is said of warm runners and
    of the size of the run share a runner.

    ``code`` are zips of the user's code, ``package`` is the zip of ours where the cluster needs it; both paths from the
    root. ``owner``: the only user of a runner that ends with its owner's container. ``python`` is the Python that runs
    it (empty: the submitter's own).
    ``warm`` says whether a local Spark may be lent by a warm runner, which serves runs of one ``tenant`` only.
    ``is_small``: the run reads so little that its stages need no Spark, as far as the plan knows.
    """

    root: str
    bindings: Mapping[str, SystemBinding]
    code: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    archives: tuple[str, ...] = ()
    package: str = ""
    master: str = DEFAULT_MASTER
    submit: SubmitOptions = field(default_factory=SubmitOptions)
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)
    idle_seconds: float = DEFAULT_IDLE_SECONDS
    class_archives: str | None = None
    owner: str = ""
    python: str = ""
    warm: WarmRunners = field(default_factory=WarmRunners)
    tenant: str = ""
    is_small: bool = False

    @property
    def may_be_warm(self) -> bool:
        """Return whether a warm runner may serve the run: its Java is of this host, and outlives the task."""
        return bool(self.warm) and parse_master(self.master).is_local and not self.owner

    @property
    def key(self) -> str:
        """A digest of all that makes one runner differ from another; of secrets only what opens the root, as a digest.

        A runner that can no longer open its root hears of no request: with new keys a new one is started.
        """
        shared: dict[str, Any] = {
            "bindings": without_secrets(self.bindings),
            "code": self.code,
            "archives": self.archives,
            "package": self.package,
            "master": parse_master(self.master).shown,
            "deploy_mode": self.submit.deploy_mode,
            "binary": self.submit.binary,
            "conf": dict(self.conf),
            **({"owner": self.owner} if self.owner else {}),
            **({"access": opening} if (opening := access_digest(self.bindings)) else {}),
            **({"python": self.python} if self.python else {}),
        }
        return hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON for the runner: with secrets, so never for a file that stays."""
        return {
            "bindings": bindings_to_json(self.bindings),
            "code": list(self.code),
            "origins": dict(self.origins),
            "archives": list(self.archives),
            "package": self.package,
            "master": parse_master(self.master).of_driver,
            "conf": dict(self.conf),
            "idle_seconds": self.idle_seconds,
            "class_archives": self.class_archives,
            "is_small": self.is_small,
            "in_cluster": self.submit.in_cluster,
        }

    def to_warm_json(self) -> dict[str, Any]:
        """Return the JSON for a warm runner: what its Java is made of; with secrets of Spark, and of no system."""
        return {
            "root": self.root,
            "tenant": self.tenant,
            "master": self.master,
            "conf": dict(self.conf),
            "archives": list(self.archives),
            "class_archives": self.class_archives,
            "bounds": asdict(self.warm),
        }

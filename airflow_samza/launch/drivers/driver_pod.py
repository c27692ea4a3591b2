"""The pod of a driver on Kubernetes: why it does not run yet, and how it has ended, in the words of who knows that.

These are the scheduler's, the kubelet's and whoever evicts pods; all of them are in the pod's own status.
"""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from airflow_samza.errors import RuntimeMissing, SamzaError
from airflow_samza.launch.drivers.driver_services import SPARK_APPLICATION
from airflow_samza.launch.drivers.kubernetes_api import NAMESPACE, KubernetesApi
from airflow_samza.launch.masters import IN_PODS, Master, SubmitOptions
from airflow_samza.launch.starts import StartState

logger = logging.getLogger("airflow_samza.launcher")

POD_NAME = "spark.kubernetes.driver.pod.name"

LOOK_SECONDS = 3.0
"""Seconds between two looks at a pod."""

_LONGEST = 40
"""Characters of a name that say whose it is: the host of a pod has its name, up to 63 characters."""

_CANNOT_BE_MADE = frozenset(
    (
        *("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
        *("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    )
)
"""Reasons of the kubelet for a container that waits, other than that it is being made."""

_REMEDY = "Correct the Spark setting spark.kubernetes.container.image, or what the pod mounts and pulls with."


def pod_name(name: str, once: str) -> str:
    """Return a name for a driver's pod that no other has.

    >>> pod_name("airflow_samza page_views manual__2026-01-01T00:00:00", "4f1c0a77e2")
    'samza-page-views-manual-2026-01-01t00-00-4f1c0a77-driver'
    """
    readable = re.sub("[^a-z0-9]+", "-", name.lower()).removeprefix("airflow-")[:_LONGEST].strip("-")
    return f"{readable}-{once[:8]}-driver"


class DriverPod:
    """A driver's pod by its name, in the namespace of the settings; ``server`` as of :class:`KubernetesApi`.

    A pod that is not there is gone if it ``was_made`` or was seen; else nobody may have made it yet.
    """

    def __init__(self, server: str, conf: Mapping[str, str], name: str, was_made: bool = False) -> None:
        self._api = KubernetesApi(server, conf)
        self._was_made = was_made
        self.name = name
        self.namespace = conf.get(NAMESPACE, "default")
        self._state = StartState()
        self._looks_at = time.monotonic() + LOOK_SECONDS

    @property
    def submission(self) -> str:
        """The id by which spark-submit deletes it."""
        return f"{self.namespace}:{self.name}"

    def state(self) -> StartState:
        """Return what it waits for, or how it has ended, as of a few seconds ago."""
        if time.monotonic() >= self._looks_at:
            self._state = self._look()
            self._looks_at = time.monotonic() + LOOK_SECONDS
        return self._state

    def ending(self) -> str:
        """Return how it has ended, as the rest of a sentence; empty where that is not known, or it has not."""
        with suppress(SamzaError):
            pod = self.read()
            if pod is not None:
                return ending(pod)
            return f"its pod {self.submission} is gone: it was deleted or evicted" if self._was_made else ""
        return ""

    def _look(self) -> StartState:
        try:
            pod = self.read()
        except RuntimeMissing as error:
            logger.info("why the driver's pod %s waits, if it does, is not seen: %s", self.submission, error)
            self._looks_at = float("inf")
            return StartState()
        except SamzaError as error:  # spark-submit, or the operator, asks the same server
            logger.debug("%s", error)
            return self._state
        return pod_state(pod) if pod is not None else StartState()

    def read(self) -> dict[str, Any] | None:
        """Return the pod as the API server has it; None if it is not there."""
        pod = self._api.ask("GET", f"/api/v1/namespaces/{self.namespace}/pods/{self.name}")
        self._was_made |= pod is not None
        return pod


def own_pod(master: Master, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the setting by which executors belong to the pod in which their driver is (client mode), and go with it.

    Nothing where it is in no pod of the namespace in which executors are made, or where this is not to be found out.
    """
    name = socket.gethostname()
    with suppress(SamzaError, OSError):
        status = (DriverPod(master.server, conf, name).read() or {}).get("status", {})
        if status.get("podIP") == socket.getaddrinfo(name, None)[0][4][0]:
            return {POD_NAME: name}
    return {}


def why_driver_ended(master: Master, submit: SubmitOptions, conf: Mapping[str, str], host: str) -> str:
    """Return how the pod of a driver has ended that gives no sign of life any more; its host has the pod's name."""
    if not host or not submit.in_cluster or master.cluster not in IN_PODS:
        return ""
    if master.cluster == SPARK_APPLICATION:
        conf = {**conf, NAMESPACE: master.url.partition("://")[2]}
    return DriverPod(master.server, conf, host, was_made=True).ending()


def pod_state(pod: Mapping[str, Any]) -> StartState:
    """Return the state of a driver by its pod, as the API server has it."""
    status = pod.get("status", {})
    if status.get("phase") in ("Failed", "Succeeded"):
        return StartState(ended=ending(pod))
    if status.get("phase") != "Pending":
        return StartState()
    containers = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    waits = [(one["state"]["waiting"], one.get("image", "")) for one in containers if "waiting" in one.get("state", {})]
    for waiting, image in waits:
        if waiting.get("reason") in _CANNOT_BE_MADE:
            return StartState(waits_for=_pending(pod, waiting, f", of the image {image}"), remedy=_REMEDY)
    unmet = [one for one in status.get("conditions", ()) if one.get("status") == "False" and one.get("message")]
    scheduled = [one for one in unmet if one.get("type") == "PodScheduled"]
    for why in [*scheduled, *(waiting for waiting, _ in waits)]:
        return StartState(waits_for=_pending(pod, why))
    return StartState()


def ending(pod: Mapping[str, Any]) -> str:
    """Return how a pod has ended, as the rest of a sentence; empty where it has not."""
    meta, status = pod["metadata"], pod.get("status", {})
    who = f"its pod {meta.get('namespace', 'default')}:{meta['name']}"
    disrupted = [one for one in status.get("conditions", ()) if one.get("type") == "DisruptionTarget"]
    if status.get("phase") == "Failed" and status.get("reason"):  # Evicted, NodeLost, DeadlineExceeded
        return f"{who} has ended: {_words(status)}"
    if disrupted:
        return f"{who} has ended: {_words(disrupted[0])}"
    for container in status.get("containerStatuses", ()):
        ended = container.get("state", {}).get("terminated")
        if ended is not None:
            return f"{who} has ended with exit code {ended.get('exitCode')} ({_words(ended)})"
    return f"{who} is being deleted" if meta.get("deletionTimestamp") else ""


def _pending(pod: Mapping[str, Any], why: Mapping[str, Any], more: str = "") -> str:
    meta = pod["metadata"]
    return f"the driver's pod {meta.get('namespace', 'default')}:{meta['name']} is pending: {_words(why)}{more}"


def _words(why: Mapping[str, Any]) -> str:
    return ": ".join(str(why[part]).strip() for part in ("reason", "message") if why.get(part))

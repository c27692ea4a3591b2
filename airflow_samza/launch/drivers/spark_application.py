"""Drivers as SparkApplications, which Kubeflow's Spark operator runs (``sparkoperator.k8s.io/v1beta2``).

``sparkapplication://etl`` is the namespace ``etl`` of the cluster of this pod, or of the one that ``KUBECONFIG`` names.
The operator calls spark-submit, so this process needs neither Spark nor Java.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from airflow_samza.errors import RuntimeMissing, StageFailed
from airflow_samza.launch.drivers.driver_pod import DriverPod, pod_name
from airflow_samza.launch.drivers.driver_services import Driver, DriverService, RunningDriver
from airflow_samza.launch.drivers.kubernetes_api import NAMESPACE, KubernetesApi
from airflow_samza.launch.log_lines import most_informative_line, said_by_api_server
from airflow_samza.launch.spark_versions import PAIRS
from airflow_samza.launch.starts import StartState

logger = logging.getLogger("airflow_samza.launcher")

API_VERSION = "sparkoperator.k8s.io/v1beta2"

LOOK_SECONDS = 2.0

KEPT_SECONDS = 3600
"""Seconds after its end in which a SparkApplication, with its pod and so the driver's log, can still be looked at."""

_NOT_RUN = {
    "": "waits for a Spark operator, which has not taken it up",
    **{state: f"is {state}" for state in ("SUSPENDING", "SUSPENDED", "RESUMING")},  # by a queue, as Kueue, or somebody
}
_ENDED = frozenset({"COMPLETED", "FAILED", "SUBMISSION_FAILED", "FAILING", "SUCCEEDING"})


class SparkApplications(DriverService):
    """The SparkApplications of a namespace."""

    def __init__(self, url: str) -> None:
        self._namespace = url.partition("://")[2]

    def check(self) -> None:
        """Reject a cluster that knows no SparkApplications."""
        if KubernetesApi("", {}).ask("GET", f"/apis/{API_VERSION}") is None:
            raise RuntimeMissing(
                f"The cluster knows no SparkApplications ({API_VERSION}).",
                hint="Install Kubeflow's Spark operator there, or name the cluster's own master, k8s://….",
            )

    def start(self, driver: Driver) -> RunningDriver:
        """Create a SparkApplication; a StageFailed has the API server's words where it rejects that."""
        api, made = KubernetesApi("", driver.conf), manifest(driver, self._namespace)
        path = f"/apis/{API_VERSION}/namespaces/{self._namespace}/sparkapplications"
        api.ask("POST", path, made, fieldValidation="Strict")
        name = made["metadata"]["name"]
        return RunningApplication(
            api, f"{path}/{name}", DriverPod("", {**driver.conf, NAMESPACE: self._namespace}, f"{name}-driver")
        )


def manifest(driver: Driver, namespace: str) -> dict[str, Any]:
    """Return the SparkApplication of a driver; the settings of Spark say the rest, as for spark-submit."""
    return {
        "apiVersion": API_VERSION,
        "kind": "SparkApplication",
        "metadata": {"name": pod_name(driver.name, driver.once).removesuffix("-driver"), "namespace": namespace},
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": max(PAIRS.items())[1],
            "mainApplicationFile": driver.program if "://" in driver.program else f"local://{driver.program}",
            "arguments": list(driver.arguments),
            "sparkConf": dict(driver.conf),
            "restartPolicy": {"type": "Never"},
            "timeToLiveSeconds": KEPT_SECONDS,
            "driver": {},
            "executor": {},
        },
    }


class RunningApplication(RunningDriver):
    """A SparkApplication that was created."""

    def __init__(self, api: KubernetesApi, path: str, pod: DriverPod) -> None:
        self._api = api
        self._path = path
        self._pod = pod
        self._state = StartState()
        self._looks_at = 0.0

    @property
    def log(self) -> str:
        """The command that shows it."""
        return f"shown by kubectl logs -n {self._pod.namespace} {self._pod.name}"

    def state(self) -> StartState:
        """Return the state by the operator's words, and while the driver's pod is pending, by those of the pod."""
        if time.monotonic() >= self._looks_at:
            self._state = self._look()
            self._looks_at = time.monotonic() + LOOK_SECONDS
        return self._state

    def stop(self) -> None:
        """Delete it; the operator deletes its pods."""
        try:
            self._api.ask("DELETE", self._path)
        except StageFailed as error:
            logger.warning("the SparkApplication %s stays: %s", self._path, error)

    def _look(self) -> StartState:
        try:
            found = self._api.ask("GET", self._path)
        except StageFailed:  # it may answer the next time
            return self._state
        who = f"its SparkApplication {self._pod.namespace}:{self._path.rpartition('/')[2]}"
        if found is None:
            return StartState(ended=f"{who} is gone: somebody has deleted it")
        reported = found.get("status", {}).get("applicationState", {})
        state, words = reported.get("state", ""), reported.get("errorMessage", "")
        if state in _ENDED:  # words of a submission that failed are all that spark-submit has printed
            said = said_by_api_server(words) or most_informative_line(words.splitlines() or [""])
            return StartState(ended=f"{who} is {state}: {said}".removesuffix(": "))
        if state in _NOT_RUN:
            return StartState(waits_for=f"{who} {_NOT_RUN[state]}")
        return StartState() if state == "RUNNING" else self._pod.state()

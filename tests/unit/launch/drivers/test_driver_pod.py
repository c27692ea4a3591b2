"""The status of a pod says why a driver waits, and how it has ended."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from airflow_samza.errors import StageFailed
from airflow_samza.launch.drivers.driver_pod import POD_NAME, DriverPod, ending, own_pod, pod_state, why_driver_ended
from airflow_samza.launch.masters import SubmitOptions, parse_master
from tests.support.kubernetes_api_server import api_server

META = {"name": "views-driver", "namespace": "etl"}


def waiting(reason: str, **more: str) -> dict[str, Any]:
    return {
        "phase": "Pending",
        "containerStatuses": [{"image": "i:1", "state": {"waiting": {"reason": reason, **more}}}],
    }


@pytest.mark.parametrize(
    ("status", "waits_for", "is_hopeless"),
    [
        (waiting("ContainerCreating"), "is pending: ContainerCreating", False),
        (waiting("ImagePullBackOff", message="no such tag"), "ImagePullBackOff: no such tag, of the image i:1", True),
        (waiting("CreateContainerConfigError", message='secret "s" not found'), 'Error: secret "s" not found', True),
        (
            {
                "phase": "Pending",
                "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
                ],
            },
            "the driver's pod etl:views-driver is pending: Unschedulable: 0/3 nodes",
            False,
        ),
        ({"phase": "Running"}, "", False),
    ],
)
def test_a_pod_waits_for_what_the_scheduler_or_the_kubelet_says(
    status: dict[str, Any], waits_for: str, is_hopeless: bool
) -> None:
    state = pod_state({"metadata": META, "status": status})
    assert waits_for in state.waits_for
    assert bool(state.remedy) == is_hopeless
    assert bool(state.waits_for) == bool(waits_for)


EVICTED = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory."}
DRAINED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "evicting"}


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (EVICTED, "its pod etl:views-driver has ended: Evicted: The node was low on resource: memory."),
        ({"phase": "Running", "conditions": [DRAINED]}, "has ended: EvictionByEvictionAPI: evicting"),
        (
            {"containerStatuses": [{"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}]},
            "has ended with exit code 137 (OOMKilled)",
        ),
        ({"phase": "Running"}, ""),
    ],
)
def test_the_end_of_a_pod_is_said_in_the_words_of_who_ended_it(status: dict[str, Any], says: str) -> None:
    said = ending({"metadata": META, "status": status})
    assert said.endswith(says)
    assert bool(said) == bool(says)


def test_only_a_driver_in_a_pod_has_a_pod_to_ask() -> None:
    for url, mode in (("yarn", "cluster"), ("k8s://http://127.0.0.1:1", "client")):
        assert why_driver_ended(parse_master(url), SubmitOptions(mode), {}, "host") == ""


@pytest.mark.parametrize("was_seen", [True, False])
def test_a_pod_is_gone_only_if_it_was_there(was_seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "")
    with api_server() as server:
        pod = DriverPod(server.url, {}, "views-driver")
        if was_seen:
            server.pods = {"phase": "Running"}
            assert pod.ending() == ""
        server.pods = None
        assert pod.ending() == ("its pod default:views-driver is gone: it was deleted or evicted" if was_seen else "")
        master = parse_master(f"k8s://{server.url}")
        assert " is gone: " in why_driver_ended(master, SubmitOptions("cluster"), {}, "of-a-driver-that-ran")


OWN_ADDRESS = "10.88.0.7"


@pytest.mark.parametrize(
    ("pod", "is_own"),
    [
        ({"status": {"podIP": OWN_ADDRESS}}, True),
        ({"status": {"podIP": "10.88.0.8"}}, False),
        ({"status": {}}, False),
        (None, False),
        (StageFailed("forbidden", hint="Get the right to it."), False),
    ],
    ids=["own", "another of this name", "not running", "of another namespace", "without the right"],
)
def test_executors_belong_to_the_pod_of_a_driver_in_client_mode_if_it_is_known(
    pod: Any, is_own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(self: DriverPod) -> Any:
        if isinstance(pod, Exception):
            raise pod
        return pod if self.submission == "etl:task-of-views" else {}

    monkeypatch.setattr(DriverPod, "read", read)
    monkeypatch.setattr(socket, "gethostname", lambda: "task-of-views")
    monkeypatch.setattr(socket, "getaddrinfo", lambda name, port: [(0, 0, 0, "", (OWN_ADDRESS, 0))])
    found = own_pod(parse_master("k8s://https://api"), {"spark.kubernetes.namespace": "etl"})
    assert found == ({POD_NAME: "task-of-views"} if is_own else {})

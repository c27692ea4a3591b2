"""The status of a pod says why a driver waits, and how it has ended."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_samza.launch.drivers.driver_pod import ending, pod_state, why_driver_ended
from airflow_samza.launch.masters import SubmitOptions, parse_master

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

"""The pod of the page's KubernetesPodOperator, as the operator builds it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.support.documentation_pages import examples


def pod_of_page(run_id: str) -> dict[str, Any]:
    """Return the pod of the task in a run of the Dag, as it is sent to the API server."""
    from kubernetes.client import ApiClient

    scope: dict[str, Any] = {}
    exec(examples("operate/kubernetes.md")["pod_dag.py"], scope)
    (task,) = scope["dag"].tasks
    task.__dict__["hook"] = SimpleNamespace(is_in_cluster=True, get_namespace=lambda: "default")
    task.render_template_fields({"run_id": run_id})
    pod: dict[str, Any] = ApiClient().sanitize_for_serialization(task.build_pod_request_obj())
    return pod

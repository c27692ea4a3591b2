"""Questions to Kubernetes' API server, by Kubernetes' own client, which knows every way to log in.

The client is loaded when a driver is started there, and no sooner.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from airflow_samza.errors import RuntimeMissing, StageFailed

NAMESPACE = "spark.kubernetes.namespace"

_CONTEXT = "spark.kubernetes.context"

REJECTED = "Correct what it names, or get the right to it."
"""The hint where an API server, or YARN, has rejected what it was asked."""

_REQUEST_SECONDS = 5.0

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount/token"
"""The file by which a pod has a service account."""

_NOT_FOUND = 404

_NO_ANSWER = frozenset((429, 500, 502, 503, 504))  # of a server that is starting, stopping or too busy

_BUSY = "Is it running, and is this its address? Try again when it answers: kubectl get --raw /readyz."


class KubernetesApi:
    """An API server: ``server`` is its URL; empty: that of the context, or of the cluster around this pod.

    As Spark does it, a client is who the file says that ``KUBECONFIG`` names, in its context or the one that the
    settings of Spark name; without such a file, the service account of the pod in which it is.
    """

    def __init__(self, server: str, conf: Mapping[str, str]) -> None:
        self._server = server
        self._context = conf.get(_CONTEXT) or None

    def ask(self, method: str, path: str, body: object = None, **query: str) -> dict[str, Any] | None:
        """Return the answer; None where that which is asked for is not there.

        :class:`~airflow_samza.errors.StageFailed` with the server's words where it rejects the request, or does not
        answer it.
        """
        client = self._client
        from kubernetes.client.exceptions import ApiException
        from urllib3.exceptions import HTTPError

        try:
            answer = client.call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params={"Accept": "application/json", "Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=_REQUEST_SECONDS,
            )
            return dict(json.loads(answer.data))
        except ApiException as error:
            if error.status == _NOT_FOUND and method != "POST":
                return None
            said = _message(error.body) or f"{error.status} {error.reason}"
            if error.status not in _NO_ANSWER:
                sentence = f"The API server of Kubernetes rejects {method} {path}: {said}"
                raise StageFailed(sentence, hint=REJECTED, said=said) from None
        except HTTPError as error:
            said = f"it cannot be reached ({error})"
        raise StageFailed(
            f"The API server of Kubernetes does not answer {method} {path}: {said}", hint=_BUSY, said=said
        )

    @cached_property
    def _client(self) -> Any:
        try:
            from kubernetes import client, config
        except ImportError as error:
            raise RuntimeMissing(
                "Kubernetes' client for Python is not installed.",
                hint="Install it: pip install 'apache-airflow-providers-apache-spark[cncf-kubernetes]'.",
            ) from error
        configuration = client.Configuration()
        named = os.environ.get("KUBECONFIG") or os.path.expanduser("~/.kube/config")
        if any(os.path.exists(path) for path in named.split(os.pathsep)):
            config.load_kube_config(named, self._context, configuration)
        elif os.path.exists(_ACCOUNT):
            config.load_incluster_config(client_configuration=configuration)
        if self._server:
            configuration.host = self._server
        configuration.retries = False
        return client.ApiClient(configuration)


def _message(body: Any) -> str:
    try:
        return str(json.loads(body)["message"])
    except (TypeError, ValueError, KeyError):
        return ""

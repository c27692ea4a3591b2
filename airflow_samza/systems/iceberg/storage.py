"""Storage of a table's files, opened by the client of roots with the credentials of the binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_samza.systems.files.location import Location, open_location
from airflow_samza.systems.filesystems.addresses import Address

_S3 = {
    "s3.endpoint": "endpoint",
    "s3.region": "region",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.role-arn": "role_arn",
    "client.region": "region",
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
}
_OPTIONS = {
    "s3": _S3,
    "gs": {"gcs.oauth2.token": "bearer_token", "gcs.service.host": "endpoint"},
    "abfss": {
        "adls.account-name": "account_name",
        "adls.account-key": "account_key",
        "adls.connection-string": "connection_string",
        "adls.sas-token": "sas_token",
        "adls.tenant-id": "tenant_id",
        "adls.client-id": "client_id",
        "adls.client-secret": "client_secret",
    },
}
"""Properties of pyiceberg, and the options of a root that mean the same; those that stand first count."""


class TableStorage:
    """Places of a table's files; buckets are opened once."""

    def __init__(self, properties: Mapping[str, Any]) -> None:
        self._properties = properties
        self._opened: dict[str, Location] = {}

    def at(self, uri: str) -> Location:
        """Return the place of a file, as the table's metadata writes it: a URI, or a path of this host."""
        scheme, authority, path = Address.of(uri)
        is_local = scheme in ("", "file")
        top = "/" if is_local else f"{scheme}://{authority}"
        if top not in self._opened:
            self._opened[top] = open_location(top, self._options(scheme))
        opened = self._opened[top]
        return opened.at("/" + path.lstrip("/")) if is_local else opened / path

    def _options(self, scheme: str) -> dict[str, Any]:
        said = {name: value for name, value in self._properties.items() if value}
        return {ours: said[name] for name, ours in reversed(_OPTIONS.get(scheme, {}).items()) if name in said}

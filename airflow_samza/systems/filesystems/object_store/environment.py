"""Options of an object store that stand in the environment of one process, for those on other hosts, which lack it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from airflow_samza.systems.filesystems.object_store.address import SCHEMES, Store

_PLACE: dict[Store, dict[str, tuple[str, ...]]] = {
    "s3": {
        "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
        "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    },
    "gcs": {"endpoint": ("STORAGE_EMULATOR_HOST",)},
    "azure": {
        "account_name": ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT"),
        "endpoint": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    },
}
_IDENTITY: dict[Store, dict[str, tuple[str, ...]]] = {
    "s3": {
        "access_key_id": ("AWS_ACCESS_KEY_ID",),
        "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
        "session_token": ("AWS_SESSION_TOKEN", "AWS_TOKEN"),
    },
    "gcs": {"service_account_key": ("GOOGLE_SERVICE_ACCOUNT_KEY",), "bearer_token": ("GOOGLE_BEARER_TOKEN",)},
    "azure": {
        "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
        "sas_token": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
        "connection_string": ("AZURE_STORAGE_CONNECTION_STRING",),
        "client_secret": ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
    },
}
_OF_A_SECRET = {"client_id": ("AZURE_CLIENT_ID",), "tenant_id": ("AZURE_TENANT_ID",)}
_NAMES_AN_IDENTITY = frozenset(
    {"profile", "role_arn", "skip_signature", "service_account", "application_credentials", "token"}
    | {"client_id", "federated_token_file", "use_azure_cli"}
    | {name for options in _IDENTITY.values() for name in options}
)


def environment_options(
    url: str, given: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what the environment adds to the options of a store: its place, and fixed credentials.

    A role of the host, and what lies in files, is not handed over: each host has its own. Options that name an identity
    leave no room for one of the environment.
    """
    environment = os.environ if environment is None else environment
    store = SCHEMES[url.partition("://")[0].lower()]
    variables = dict(_PLACE[store])
    if not _NAMES_AN_IDENTITY & given.keys():
        variables |= _IDENTITY[store]
        if store == "azure" and any(environment.get(name) for name in _IDENTITY["azure"]["client_secret"]):
            variables |= _OF_A_SECRET
    options = {
        option: next((environment[name] for name in names if environment.get(name)), "")
        for option, names in variables.items()
        if option not in given
    }
    return {option: value for option, value in options.items() if value}

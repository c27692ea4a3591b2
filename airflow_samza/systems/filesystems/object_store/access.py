"""Access to an object store: its address, and the identity of the caller, by options or by the environment.

Options are the names of obstore's settings that are listed here. Without them the environment decides, as for the
stores' own clients: ``AWS_*``, the instance's or the pod's role, ``GOOGLE_APPLICATION_CREDENTIALS``, ``AZURE_*``.
Clients of stores, and the bindings that travel between processes, read these options.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_samza.application.rejections import did_you_mean
from airflow_samza.errors import ConfigError
from airflow_samza.systems.filesystems.object_store.address import NAMES, SCHEMES, Address, Store
from airflow_samza.systems.filesystems.object_store.aws_roles import AwsIdentity, checked_identity

OPTIONS: dict[Store, frozenset[str]] = {
    "s3": frozenset(
        {
            "endpoint",
            "region",
            "access_key_id",
            "secret_access_key",
            "session_token",
            "profile",
            "external_id",
            "skip_signature",
            "virtual_hosted_style_request",
            "role_arn",
            "role_session_name",
            "web_identity_token_file",
            "sts_endpoint",
            "container_credentials_relative_uri",
            "container_credentials_full_uri",
            "container_authorization_token_file",
            "metadata_endpoint",
            "imdsv1_fallback",
            "server_side_encryption",
            "sse_kms_key_id",
            "sse_bucket_key_enabled",
            "request_payer",
            "checksum_algorithm",
            "unsigned_payload",
            "disable_bulk_delete",
        }
    ),
    "gcs": frozenset(
        {
            "endpoint",
            "service_account",
            "service_account_key",
            "application_credentials",
            "bearer_token",
            "skip_signature",
        }
    ),
    "azure": frozenset(
        {
            "endpoint",
            "account_name",
            "account_key",
            "sas_token",
            "connection_string",
            "client_id",
            "client_secret",
            "tenant_id",
            "authority_host",
            "token",
            "msi_endpoint",
            "object_id",
            "msi_resource_id",
            "federated_token_file",
            "use_azure_cli",
            "skip_signature",
        }
    ),
}
"""Options of each store. All of them also know ``ssl_verify``: true, false, or a file of certificates."""

_FLAGS = frozenset(
    {
        "skip_signature",
        "virtual_hosted_style_request",
        "imdsv1_fallback",
        "sse_bucket_key_enabled",
        "unsigned_payload",
        "disable_bulk_delete",
        "use_azure_cli",
    }
)

Credentials = Callable[[], Mapping[str, object]]
"""A function that returns credentials with the time when they expire, as obstore's credential providers do."""


@dataclass(frozen=True)
class Access:
    """Settings of a store's client, and the identity of the caller; none of it is shown."""

    settings: tuple[tuple[str, str | bool], ...] = field(default=(), repr=False)
    """obstore's settings of the store."""
    client: tuple[tuple[str, str | bool], ...] = field(default=(), repr=False)
    """obstore's settings of its HTTP client."""
    provider: Credentials | None = field(default=None, repr=False)
    """Source of credentials, in place of the settings and the environment."""
    name: str = "the credentials of the environment"
    """The identity as messages show it."""
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Variables that the store's client reads by itself: another environment is another access."""


def find_access(
    address: Address, options: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None
) -> Access:
    """Return the access by options, else by the environment; an unknown option is rejected."""
    values = {name: value for name, value in (options or {}).items() if value not in (None, "")}
    option_names = OPTIONS[address.store] | {"ssl_verify"}
    for name in sorted(values):
        if name not in option_names:
            raise ConfigError(
                f"{NAMES[address.store]} has no option {name!r}.",
                hint=f"{did_you_mean(name, option_names)}Its options are {', '.join(sorted(option_names))}.",
                key=name,
            )
    environment = os.environ if environment is None else environment
    verify = str(values.pop("ssl_verify", environment.get("AWS_CA_BUNDLE", "") if address.store == "s3" else ""))
    texts: dict[str, str | bool] = {
        name: str(value).strip().lower() in ("true", "1", "yes") if name in _FLAGS else str(value)
        for name, value in values.items()
    }
    client = _client(verify)
    access = {"s3": _s3, "gcs": _gcs, "azure": _azure}[address.store](address, texts, environment)
    settings = dict(access.settings)
    if str(settings.get("endpoint", "")).startswith("http://") or '"http://' in str(settings.get(_KEY, "")):
        client["allow_http"] = True
    read = tuple(sorted(item for item in environment.items() if item[0].startswith(_VARIABLES)))
    return replace(access, client=tuple(sorted(client.items())), environment=read)


_KEY = "service_account_key"
_VARIABLES = ("AWS_", "AZURE_", "GOOGLE_")


def _client(verify: str) -> dict[str, str | bool]:
    if verify.lower() in ("", "true"):
        return {}
    if verify.lower() == "false":
        return {"allow_invalid_certificates": True}
    try:
        with open(verify, encoding="ascii") as file:
            return {"root_certificate": file.read()}
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"The file of certificates {verify} (ssl_verify) cannot be read: {error}.",
            hint="Name a PEM file that every host of the run has, or leave ssl_verify out.",
            key="ssl_verify",
        ) from None


def _new_access(settings: Mapping[str, str | bool], name: str = "", provider: Credentials | None = None) -> Access:
    return Access(tuple(sorted(settings.items())), (), provider, name or Access.name)


def _s3(address: Address, options: dict[str, str | bool], environment: Mapping[str, str]) -> Access:
    options |= _of_environment({"endpoint": _PLACE["s3"]["endpoint"]}, options, environment)
    key = ("access_key_id", "secret_access_key")
    for has, lacks in (key, key[::-1]):
        if has in options and lacks not in options:
            raise ConfigError(
                f"The options have {has} without {lacks}.",
                hint=f"Set both, or neither of {' and '.join(key)}.",
                key=lacks,
            )
    assumed = "role_arn" in options and not (
        "web_identity_token_file" in options or environment.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    )
    if assumed or "profile" in options:
        return _aws_identity(options)
    options.pop("external_id", None)
    if "access_key_id" not in options:
        return _new_access(options)
    if "session_token" in options:
        return _new_access(options, "the session token of the options")
    if not (environment.get("AWS_SESSION_TOKEN") or environment.get("AWS_TOKEN")):
        return _new_access(options, "the access key of the options")
    # The environment's session token belongs to another key.
    fixed = _Fixed(str(options.pop("access_key_id")), str(options.pop("secret_access_key")))
    return _new_access(options, "the access key of the options", fixed)


def _aws_identity(options: dict[str, str | bool]) -> Access:
    key = tuple(str(options.pop(name, "")) for name in ("access_key_id", "secret_access_key", "session_token"))
    taken = ("profile", "role_arn", "external_id", "role_session_name", "sts_endpoint")
    fields = {name: str(options.pop(name)) for name in taken if name in options}
    identity = AwsIdentity(
        **fields, region=str(options.get("region", "")), key=(key[0], key[1], key[2]) if key[0] else None
    )
    return _new_access(options, identity.name, checked_identity(identity))


@dataclass(frozen=True)
class _Fixed:
    """Credentials of S3 that do not expire."""

    access_key_id: str
    secret_access_key: str = field(repr=False)

    def __call__(self) -> Mapping[str, object]:
        return {
            "access_key_id": self.access_key_id,
            "secret_access_key": self.secret_access_key,
            "token": None,
            "expires_at": None,
        }


def _gcs(address: Address, options: dict[str, str | bool], environment: Mapping[str, str]) -> Access:
    endpoint = str(options.pop("endpoint", "") or environment.get("STORAGE_EMULATOR_HOST", ""))
    named = {"service_account", _KEY, "application_credentials", "bearer_token"} & options.keys()
    if endpoint and not named:  # a server of tests, which asks for no identity
        account = {
            "gcs_base_url": endpoint if "://" in endpoint else f"http://{endpoint}",
            "disable_oauth": True,
            "client_email": "",
            "private_key": "",
            "private_key_id": "",
        }
        return _new_access({**options, _KEY: json.dumps(account)}, f"nobody, as {endpoint} wants")
    if endpoint:
        options["base_url"] = endpoint
    return _new_access(options, "the service account of the options" if named else "")


def _azure(address: Address, options: dict[str, str | bool], environment: Mapping[str, str]) -> Access:
    identity = {"account_key", "sas_token", "client_secret", "token", "federated_token_file", "use_azure_cli"}
    stated = str(options.pop("connection_string", ""))
    if not stated and not (identity & options.keys()):
        stated = environment.get("AZURE_STORAGE_CONNECTION_STRING", "")
    options = {**(_of_connection_string(stated) if stated else {}), **options}
    if address.account:
        options["account_name"] = address.account
        if address.suffix not in _PUBLIC:
            options.setdefault("endpoint", f"https://{address.account}.{address.suffix.replace('dfs.', 'blob.', 1)}")
    variables = dict(_PLACE["azure"])
    if not identity & options.keys():
        variables["account_key"] = _IDENTITY["azure"]["account_key"]
    options |= _of_environment(variables, options, environment)
    if "account_name" not in options:
        raise ConfigError(
            f"The URL {address.shown} names no storage account, and there is none in the environment.",
            hint="Write abfss://container@account.dfs.core.windows.net/path, or set AZURE_STORAGE_ACCOUNT_NAME.",
            key="account_name",
        )
    if "sas_token" in options:
        options["sas_key"] = str(options.pop("sas_token")).lstrip("?")
    return _new_access(options, "the credentials of the options" if identity & options.keys() else "")


_PUBLIC = ("dfs.core.windows.net", "blob.core.windows.net")


def _of_connection_string(text: str) -> dict[str, str | bool]:
    """Return the options in a connection string of a storage account.

    >>> _of_connection_string("AccountName=acme;AccountKey=a2V5;EndpointSuffix=core.windows.net")
    {'account_name': 'acme', 'account_key': 'a2V5'}
    """
    parts = dict(part.partition("=")[::2] for part in text.strip().split(";") if part)
    names = {
        "AccountName": "account_name",
        "AccountKey": "account_key",
        "SharedAccessSignature": "sas_token",
        "BlobEndpoint": "endpoint",
    }
    settings: dict[str, str | bool] = {option: parts[name] for name, option in names.items() if parts.get(name)}
    suffix, account = parts.get("EndpointSuffix", "core.windows.net"), settings.get("account_name")
    if account and suffix != "core.windows.net":
        settings.setdefault("endpoint", f"{parts.get('DefaultEndpointsProtocol', 'https')}://{account}.blob.{suffix}")
    if not settings:
        raise ConfigError(
            "The connection string of Azure has neither AccountName nor BlobEndpoint.",
            hint="Copy it from the storage account's access keys.",
            key="connection_string",
        )
    return settings


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
    url: str, store_options: Mapping[str, object], environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what the environment adds to the options of a store: its place, and fixed credentials.

    A role of the host, and what lies in files, is not handed over: each host has its own. Options that name an identity
    leave no room for one of the environment.
    """
    environment = os.environ if environment is None else environment
    store = SCHEMES[url.partition("://")[0].lower()]
    variables = dict(_PLACE[store])
    if not _NAMES_AN_IDENTITY & store_options.keys():
        variables |= _IDENTITY[store]
        if store == "azure" and any(environment.get(name) for name in _IDENTITY["azure"]["client_secret"]):
            variables |= _OF_A_SECRET
    return _of_environment(variables, store_options, environment)


def _of_environment(
    variables: Mapping[str, Sequence[str]], options: Mapping[str, object], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return what the environment says for options that are not there, by the names of its variables."""
    found = {
        option: next((environment[name] for name in names if environment.get(name)), "")
        for option, names in variables.items()
        if option not in options
    }
    return {option: value for option, value in found.items() if value}

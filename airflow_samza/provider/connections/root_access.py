"""From Airflow connections to the access of a root, or of files: ``root_conn_id`` names the connection that has it.

The fields of connections to clouds (``aws``, ``google_cloud_platform``, ``wasb``) are read here, so that no provider
of a cloud has to be installed; options have the names of
:mod:`airflow_samza.systems.filesystems.object_store.access`. What takes a chain of identities is left to that
provider's hook, where it is there. The hook of roots opens a root by it, and so do triggers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.provider.connections.fields import extra_of, mapping_of, masked
from airflow_samza.systems.filesystems.root_access import NO_ACCESS, RootAccess
from airflow_samza.systems.filesystems.webhdfs.address import is_hdfs

Options = dict[str, Any]

STORES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "s3": (("s3",), ("aws",)),
    "gcs": (("gs",), ("google_cloud_platform",)),
    "azure": (("abfss", "az"), ("wasb", "adls")),
}
"""By store: the schemes of its URLs, and the types of connections to it."""


def aws_options(conn_id: str, connection: Any) -> Options:
    """Return the options of a connection of type ``aws``: keys, a session token, a profile, or a role to assume."""
    extra = extra_of(conn_id, connection)
    session, config = _table(extra, "session_kwargs"), _table(extra, "config_kwargs")
    for_s3 = _table(_table(extra, "service_config"), "s3")
    options: Options = {
        "access_key_id": connection.login or extra.get("aws_access_key_id"),
        "secret_access_key": connection.password or extra.get("aws_secret_access_key"),
        "session_token": extra.get("aws_session_token"),
        "region": extra.get("region_name") or session.get("region_name"),
        "endpoint": for_s3.get("endpoint_url") or extra.get("endpoint_url") or extra.get("host"),
        "profile": extra.get("profile_name") or session.get("profile_name"),
        "ssl_verify": extra.get("verify"),
    }
    if _table(config, "s3").get("addressing_style") == "virtual":
        options["virtual_hosted_style_request"] = True
    if config.get("signature_version") == "unsigned":
        options["skip_signature"] = True
    if extra.get("role_arn"):
        options |= _role(conn_id, extra)
    return _without_blanks(options)


def _role(conn_id: str, extra: Mapping[str, Any]) -> Options:
    """Return the options of a role; the credentials that a hook of Airflow's provider got stand for roles of SAML."""
    method = str(extra.get("assume_role_method") or "assume_role")
    how = _table(extra, "assume_role_kwargs")
    role = {"role_arn": extra["role_arn"], "role_session_name": how.get("RoleSessionName")}
    if method == "assume_role":
        return {**role, "external_id": how.get("ExternalId") or extra.get("external_id")}
    if method == "assume_role_with_web_identity" and extra.get("assume_role_with_web_identity_federation") == "file":
        return {**role, "web_identity_token_file": extra.get("assume_role_with_web_identity_token_file")}
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import (  # type: ignore[import-not-found,unused-ignore]  # it need not be installed
            AwsGenericHook,
        )
    except ImportError:
        raise _needs_provider(conn_id, f"assumes a role by {method}", "amazon") from None
    held = AwsGenericHook(aws_conn_id=conn_id, client_type="s3").get_credentials()
    return {"access_key_id": held.access_key, "secret_access_key": held.secret_key, "session_token": held.token}


def google_options(conn_id: str, connection: Any) -> Options:
    """Return the options of a connection of type ``google_cloud_platform``: a key, its file, or nobody's identity."""
    extra = _unprefixed(extra_of(conn_id, connection), "google_cloud_platform")
    for name in ("impersonation_chain", "key_secret_name"):
        if extra.get(name):
            return {"bearer_token": _google_token(conn_id, name)}
    key = extra.get("keyfile_dict")
    return _without_blanks(
        {
            "service_account_key": json.dumps(key) if isinstance(key, dict) else key,
            "service_account": extra.get("key_path"),
            "application_credentials": extra.get("credential_config_file"),
            "endpoint": extra.get("endpoint"),
            "skip_signature": True if extra.get("is_anonymous") else None,
        }
    )


def _google_token(conn_id: str, name: str) -> str:
    try:
        from airflow.providers.google.common.hooks.base_google import (  # type: ignore[import-not-found,unused-ignore]  # it need not be installed
            GoogleBaseHook,
        )
    except ImportError:
        raise _needs_provider(conn_id, f"has the field {name}", "google") from None
    return str(GoogleBaseHook(gcp_conn_id=conn_id)._get_access_token())


def azure_options(conn_id: str, connection: Any) -> Options:
    """Return the options of a connection of type ``wasb`` or ``adls``, in the order of Airflow's own hook."""
    extra = _unprefixed(extra_of(conn_id, connection), str(connection.conn_type))
    if extra.get("connection_string"):
        return {"connection_string": extra["connection_string"]}
    options = _account(str(connection.host or "").strip(), str(connection.login or ""))
    if extra.get("tenant_id"):
        options |= {
            "tenant_id": extra["tenant_id"],
            "client_id": connection.login,
            "client_secret": connection.password,
        }
    elif extra.get("shared_access_key"):
        options["account_key"] = extra["shared_access_key"]
    elif str(extra.get("sas_token") or "").startswith("http"):
        whole = urlsplit(str(extra["sas_token"]))
        options |= {**_account(f"{whole.scheme}://{whole.netloc}", ""), "sas_token": whole.query}
    elif extra.get("sas_token"):
        options["sas_token"] = extra["sas_token"]
    elif connection.password:
        options["account_key"] = connection.password
    else:
        identity = extra.get("managed_identity_client_id")
        options |= {"client_id": identity, "tenant_id": extra.get("workload_identity_tenant_id")}
    return _without_blanks(options)


def _account(host: str, login: str) -> Options:
    """Return the account of a host, which may be a URL, a host's name or the account's, and of a login.

    >>> _account("https://acme.blob.core.windows.net/", ""), _account("", "acme")
    ({'account_name': 'acme'}, {'account_name': 'acme'})
    >>> _account("http://127.0.0.1:10000/devstoreaccount1", "")
    {'account_name': 'devstoreaccount1', 'endpoint': 'http://127.0.0.1:10000/devstoreaccount1'}
    """
    if not host:
        return {"account_name": login} if login else {}
    place = urlsplit(host if "://" in host else f"https://{host}")
    account, _, suffix = place.netloc.partition(".")
    if suffix in ("", "blob.core.windows.net", "dfs.core.windows.net") and ":" not in place.netloc:
        return {"account_name": account}
    if suffix.startswith(("blob.", "dfs.")):
        return {"account_name": account, "endpoint": f"{place.scheme}://{account}.{suffix.replace('dfs.', 'blob.', 1)}"}
    return {"account_name": place.path.strip("/") or login, "endpoint": host.rstrip("/")}


OF_TYPES: Mapping[str, Callable[[str, Any], Options]] = {
    "aws": aws_options,
    "google_cloud_platform": google_options,
    "wasb": azure_options,
    "adls": azure_options,
}
"""By type of connection: the function from its id and itself to options."""


def _needs_provider(conn_id: str, what: str, provider: str) -> RuntimeMissing:
    return RuntimeMissing(
        f"The connection {conn_id!r} {what}, which needs Airflow's provider for {provider}, and that is not installed.",
        hint=f"Install it: pip install apache-airflow-providers-{provider}.",
        conn_id=conn_id,
    )


def _table(extra: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = mapping_of(extra.get(name))
    if value is None:
        raise ConfigError(
            f"The field {name} of the connection's extra is not a JSON object.", hint="Correct it.", key=name
        )
    return value


def _unprefixed(extra: Mapping[str, Any], conn_type: str) -> dict[str, Any]:
    """Return extra fields without the prefix that Airflow's forms gave them before 2.5."""
    prefix = f"extra__{conn_type}__"
    return {**{k.removeprefix(prefix): v for k, v in extra.items() if k.startswith(prefix)}, **extra}


def _without_blanks(options: Options) -> Options:
    """Return the options that say something."""
    return {name: value for name, value in options.items() if value not in (None, "")}


FIELD = "root_conn_id"
"""The field of a connection that names another one, whose credentials open the root."""

_SCHEMES = {scheme: store for store, (schemes, _) in STORES.items() for scheme in schemes}


def find_access(conn_id: str, connection: Any, root: str, get_connection: Callable[[str], Any]) -> RootAccess:
    """Return the access of a root by the connection that names it.

    On HDFS its login is the user, its password a delegation token. On an object store :data:`FIELD` names a connection
    of the store's type; without one the environment decides.
    """
    named = str(extra_of(conn_id, connection).get(FIELD) or "").strip() or None
    if is_hdfs(root):
        _reject_field(conn_id, root, named)
        options = {"user": connection.login, "token": connection.password}
        return masked(RootAccess({name: value for name, value in options.items() if value}, conn_id))
    if named is None:
        return NO_ACCESS
    store = _SCHEMES.get(root.partition("://")[0].lower()) if "://" in root else None
    if store is None:
        _reject_field(conn_id, root, named)
    other = get_connection(named)
    kind = str(other.conn_type or "")
    types = STORES[str(store)][1]
    if kind not in types:
        raise ConfigError(
            f"The connection {conn_id!r} opens {root} with the connection {named!r}, which is of type {kind!r}.",
            hint=f"Name a connection of type {' or '.join(types)} as {FIELD}."
            + (_KEEPS_TYPE if kind == "generic" else ""),
            key=FIELD,
            value=named,
        )
    return masked(RootAccess(OF_TYPES[kind](named, other), conn_id))


_KEEPS_TYPE = " Without the cloud's provider Airflow makes it generic, unless it is added with --conn-json or as a URI."


def _reject_field(conn_id: str, root: str, named: str | None) -> None:
    if named is not None:
        raise ConfigError(
            f"The connection {conn_id!r} names the connection {named!r} as its {FIELD}, and its root {root} is on no "
            "object store.",
            hint=f"Leave {FIELD} out; on HDFS the connection's own login is the user, its password a delegation token.",
            key=FIELD,
            value=named,
        )

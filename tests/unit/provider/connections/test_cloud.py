"""Each form that a connection to a cloud may have, as options of an object store: no provider of a cloud is installed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_samza.errors import ConfigError, RuntimeMissing
from airflow_samza.provider.connections.root_access import OF_TYPES, find_access
from airflow_samza.systems.filesystems.root_access import NO_ACCESS

KEY = {"type": "service_account", "private_key": "hush"}


def connection(kind: str, **more: Any) -> Connection:
    extra = more.pop("extra", None)
    return Connection(conn_id="c", conn_type=kind, extra=json.dumps(extra) if extra is not None else None, **more)


def options_of(kind: str, **fields: Any) -> dict[str, Any]:
    return OF_TYPES[kind]("cloud", connection(kind, **fields))


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({}, {}),
        ({"login": "AKIA", "password": "hush"}, {"access_key_id": "AKIA", "secret_access_key": "hush"}),
        (
            {
                "extra": {
                    "aws_access_key_id": "ASIA",
                    "aws_secret_access_key": "hush",
                    "aws_session_token": "for an hour",
                    "region_name": "eu-central-1",
                    "endpoint_url": "http://s3.local:9000",
                }
            },
            {
                "access_key_id": "ASIA",
                "secret_access_key": "hush",
                "session_token": "for an hour",
                "region": "eu-central-1",
                "endpoint": "http://s3.local:9000",
            },
        ),
        (
            {
                "extra": {
                    "endpoint_url": "https://all.local",
                    "service_config": {"s3": {"endpoint_url": "https://s3.local"}},
                    "session_kwargs": {"profile_name": "etl", "region_name": "eu-west-1"},
                    "config_kwargs": {"s3": {"addressing_style": "virtual"}},
                    "verify": "/etc/ssl/ours.pem",
                }
            },
            {
                "endpoint": "https://s3.local",
                "profile": "etl",
                "region": "eu-west-1",
                "virtual_hosted_style_request": True,
                "ssl_verify": "/etc/ssl/ours.pem",
            },
        ),
        ({"extra": {"config_kwargs": '{"signature_version": "unsigned"}'}}, {"skip_signature": True}),
        (
            {
                "extra": {
                    "role_arn": "arn:aws:iam::1:role/etl",
                    "assume_role_kwargs": {"ExternalId": "x", "RoleSessionName": "samza"},
                }
            },
            {"role_arn": "arn:aws:iam::1:role/etl", "external_id": "x", "role_session_name": "samza"},
        ),
        (
            {
                "extra": {
                    "role_arn": "arn:aws:iam::1:role/etl",
                    "assume_role_method": "assume_role_with_web_identity",
                    "assume_role_with_web_identity_federation": "file",
                    "assume_role_with_web_identity_token_file": "/var/run/token",
                }
            },
            {"role_arn": "arn:aws:iam::1:role/etl", "web_identity_token_file": "/var/run/token"},
        ),
    ],
)
def test_an_aws_connection(fields: dict[str, Any], options: dict[str, Any]) -> None:
    assert options_of("aws", **fields) == options


@pytest.mark.parametrize(
    ("extra", "options"),
    [
        ({}, {}),
        ({"keyfile_dict": json.dumps(KEY)}, {"service_account_key": json.dumps(KEY)}),
        ({"keyfile_dict": KEY}, {"service_account_key": json.dumps(KEY)}),
        ({"extra__google_cloud_platform__key_path": "/etc/key.json"}, {"service_account": "/etc/key.json"}),
        ({"credential_config_file": "/etc/federated.json"}, {"application_credentials": "/etc/federated.json"}),
        ({"is_anonymous": True}, {"skip_signature": True}),
    ],
)
def test_a_google_connection(extra: dict[str, Any], options: dict[str, Any]) -> None:
    assert options_of("google_cloud_platform", extra=extra) == options


@pytest.mark.parametrize(
    ("fields", "options"),
    [
        ({"login": "acme", "password": "hush"}, {"account_name": "acme", "account_key": "hush"}),
        (
            {"host": "https://acme.blob.core.windows.net", "extra": {"shared_access_key": "hush"}},
            {"account_name": "acme", "account_key": "hush"},
        ),
        (
            {"host": "acme.blob.core.usgovcloudapi.net", "extra": {"sas_token": "?sv=1&sig=hush"}},
            {
                "account_name": "acme",
                "endpoint": "https://acme.blob.core.usgovcloudapi.net",
                "sas_token": "?sv=1&sig=hush",
            },
        ),
        (
            {"extra": {"sas_token": "https://acme.blob.core.windows.net/?sv=1&sig=hush"}},
            {"account_name": "acme", "sas_token": "sv=1&sig=hush"},
        ),
        (
            {"host": "acme", "login": "app", "password": "hush", "extra": {"tenant_id": "t"}},
            {"account_name": "acme", "tenant_id": "t", "client_id": "app", "client_secret": "hush"},
        ),
        (
            {"extra": {"extra__wasb__connection_string": "AccountName=acme;AccountKey=hush"}},
            {"connection_string": "AccountName=acme;AccountKey=hush"},
        ),
        (
            {"login": "acme", "extra": {"managed_identity_client_id": "mi"}},
            {"account_name": "acme", "client_id": "mi"},
        ),
        (
            {"host": "http://127.0.0.1:10000/devstoreaccount1", "password": "hush"},
            {
                "account_name": "devstoreaccount1",
                "endpoint": "http://127.0.0.1:10000/devstoreaccount1",
                "account_key": "hush",
            },
        ),
    ],
)
def test_an_azure_connection(fields: dict[str, Any], options: dict[str, Any]) -> None:
    assert options_of("wasb", **fields) == options


@pytest.mark.parametrize(
    ("kind", "extra", "package"),
    [
        ("aws", {"role_arn": "arn:x", "assume_role_method": "assume_role_with_saml"}, "amazon"),
        ("google_cloud_platform", {"impersonation_chain": "robot@acme"}, "google"),
        ("google_cloud_platform", {"key_secret_name": "key"}, "google"),
    ],
)
def test_a_chain_of_identities_names_the_provider_that_it_takes(kind: str, extra: dict[str, Any], package: str) -> None:
    with pytest.raises(RuntimeMissing, match=rf"'cloud'.*\n.*apache-airflow-providers-{package}"):
        options_of(kind, extra=extra)


def test_every_secret_of_a_connection_is_known_as_one() -> None:
    made = {
        "aws": connection("aws", password="hush", extra={"aws_session_token": "hush"}),
        "google_cloud_platform": connection("google_cloud_platform", extra={"keyfile_dict": KEY}),
        "wasb": connection("wasb", login="acme", password="hush", extra={"sas_token": ""}),
    }
    for kind, root in (("aws", "s3://a"), ("google_cloud_platform", "gs://a"), ("wasb", "az://a")):
        access = find_access("samza", _samza(root), f"{root}/samza", lambda _, kind=kind: made[kind])  # type: ignore[misc]
        assert access
        assert all(name in access.secret for name, value in access.options.items() if "hush" in str(value))


def _samza(root: str) -> Connection:
    return connection("samza", extra={"root": f"{root}/samza", "root_conn_id": "cloud"})


def test_without_a_connection_of_its_own_the_environment_opens_a_root() -> None:
    assert find_access("samza", connection("samza"), "s3://bucket/samza", lambda _: pytest.fail("asked")) == NO_ACCESS


def test_rejects_a_connection_to_another_store() -> None:
    with pytest.raises(
        ConfigError, match=r"opens s3://b with the connection 'cloud', which is of type 'wasb'.*\n.*aws"
    ):
        find_access("samza", _samza("s3://b"), "s3://b", lambda _: connection("wasb"))


@pytest.mark.parametrize("root", ["/data/samza", "webhdfs://nn:9870/samza"])
def test_rejects_a_connection_for_a_root_that_takes_none(root: str) -> None:
    with pytest.raises(ConfigError, match=f"its root {root} is on no object store"):
        find_access("samza", _samza(root), root, lambda _: connection("aws"))

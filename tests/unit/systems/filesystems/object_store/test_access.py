"""Addresses of object stores, and who asks them: options, the environment, and nothing of it in what is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_samza.errors import ConfigError
from airflow_samza.launch.bindings import with_root_access
from airflow_samza.secrecy import is_secret_name
from airflow_samza.systems.filesystems.object_store.access import OPTIONS, Access, environment_options, find_access
from airflow_samza.systems.filesystems.object_store.address import Store, parse_address
from airflow_samza.systems.filesystems.opening import open_filesystem
from airflow_samza.systems.filesystems.root_access import ROOT_ACCESS
from demo.store_servers import S3Server
from tests.support.faulty_store import FaultyStore

SECRET_OPTIONS = frozenset(
    {"secret_access_key", "session_token", "service_account_key", "bearer_token", "account_key", "sas_token"}
    | {"connection_string", "client_secret", "token"}
)
AZURE = "abfss://models@acme.dfs.core.windows.net/samza"


def access(url: str, options: Mapping[str, object] | None = None, **environment: str) -> Access:
    return find_access(parse_address(url)[0], options, environment)


@pytest.mark.parametrize(
    ("url", "root"),
    [
        ("s3://models/samza/x/", "s3://models/samza/x"),
        ("S3://models", "s3://models"),
        ("gs://models/samza", "gs://models/samza"),
        ("az://models/samza", "az://models/samza"),
        (AZURE, AZURE),
        ("s3://models/a b/ü=1", "s3://models/a b/ü=1"),
    ],
)
def test_a_root_is_shown_so_that_it_opens_again(url: str, root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    files = open_filesystem(url)
    assert files.root == root
    assert open_filesystem(files.root).root == root
    assert files.location("a/b") == f"{root}/a/b"
    assert files.local_path("a/b") is None


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("s3://", "names no bucket"),
        ("s3:///samza", "names no bucket"),
        ("gs://a b/x", "names no bucket"),
        ("az:///x", "names no container"),
        ("abfss://models/samza", "names no container and account"),
        ("abfss://models@/samza", "names no container and account"),
        ("s3://models/a//b", "has the part ''"),
        ("s3://models/../b", r"has the part '\.\.'"),
        ("s3://models/samza?region=x", "has the part 'samza\\?region=x'"),
    ],
)
def test_rejects_a_url_that_names_no_place(url: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        open_filesystem(url)


@pytest.mark.parametrize("url", ["s3://key:hunter2@models/x", "gs://hunter2@models/x", "abfss://k:hunter2@/x"])
def test_rejects_credentials_in_a_url_and_shows_none(url: str) -> None:
    with pytest.raises(ConfigError) as rejected:
        open_filesystem(url)
    assert "hunter2" not in f"{rejected.value} {rejected.value.facts}"


@pytest.mark.parametrize(("url", "store"), [("s3://models", "S3"), ("gs://models", "Google"), (AZURE, "Azure")])
def test_rejects_an_option_that_a_store_does_not_know(url: str, store: str) -> None:
    with pytest.raises(ConfigError, match=f"{store}.* has no option 'regoin'") as rejected:
        access(url, {"regoin": "hunter2"})
    assert "hunter2" not in str(rejected.value)


@pytest.mark.parametrize("store", list(OPTIONS))
def test_every_option_that_is_secret_is_known_as_a_secret(store: Store) -> None:
    for name in OPTIONS[store] & SECRET_OPTIONS:
        assert is_secret_name(name), name


def test_nothing_of_an_access_is_shown() -> None:
    for url, options in {
        "s3://models": {"access_key_id": "hunter2", "secret_access_key": "hunter2", "session_token": "hunter2"},
        "gs://models": {"service_account_key": json.dumps({"private_key": "hunter2"})},
        AZURE: {"account_key": "hunter2"},
    }.items():
        files = open_filesystem(url, options)
        found = access(url, options, AWS_SESSION_TOKEN="hunter2", AZURE_STORAGE_ACCOUNT_KEY="hunter2")
        assert "hunter2" not in f"{found!r} {files!r} {files.root} {files.location('a')} {found.name}"


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_the_environment_names_an_endpoint_which_may_be_without_tls(name: str) -> None:
    found = find_access(parse_address("s3://models")[0], {}, {name: "http://minio:9000"})
    assert dict(found.settings) == {"endpoint": "http://minio:9000"}
    assert dict(found.client) == {"allow_http": True}


def test_options_stand_before_the_environment() -> None:
    found = access("s3://models", {"endpoint": "https://one"}, AWS_ENDPOINT_URL="https://other")
    assert dict(found.settings)["endpoint"] == "https://one"
    found = access(AZURE, {"account_key": "a2V5"}, AZURE_STORAGE_CONNECTION_STRING="AccountName=x;AccountKey=eA==")
    assert dict(found.settings) == {"account_key": "a2V5", "account_name": "acme"}


def test_half_a_pair_of_keys_is_rejected() -> None:
    with pytest.raises(ConfigError, match="have access_key_id without secret_access_key"):
        access("s3://models", {"access_key_id": "a"})


def test_the_keys_of_options_are_used_without_the_token_of_the_environment(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of other keys")
    with FaultyStore(s3.endpoint) as proxy:
        options: dict[str, object] = {"endpoint": proxy.endpoint}
        open_filesystem(s3.url("access"), options).put("a", b"x")
        open_filesystem(s3.url("access"), {**options, "access_key_id": "k", "secret_access_key": "s"}).put("b", b"x")
        assert [asked.token for asked in proxy.asked] == ["of other keys", ""]


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({"AZURE_STORAGE_ACCOUNT": "one", "AZURE_STORAGE_KEY": "a2V5"}, {"account_name": "one", "account_key": "a2V5"}),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=one;AccountKey=a2V5==;BlobEndpoint=https://x/one;"},
            {"account_name": "one", "account_key": "a2V5==", "endpoint": "https://x/one"},
        ),
        (
            {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=one;SharedAccessSignature=sv=1&sig=x=="},
            {"account_name": "one", "sas_key": "sv=1&sig=x=="},
        ),
    ],
)
def test_the_environment_names_an_account_of_azure(environment: dict[str, str], settings: dict[str, str]) -> None:
    assert dict(find_access(parse_address("az://models")[0], {}, environment).settings) == settings


def test_an_account_in_a_sovereign_cloud_has_its_endpoint() -> None:
    found = access("abfss://models@acme.dfs.core.chinacloudapi.cn/samza")
    assert dict(found.settings)["endpoint"] == "https://acme.blob.core.chinacloudapi.cn"


def test_rejects_a_container_without_an_account() -> None:
    with pytest.raises(ConfigError, match="names no storage account") as rejected:
        access("az://models/samza")
    assert "abfss://container@account" in rejected.value.hint


def test_certificates_are_checked_unless_an_option_says_otherwise(tmp_path: Path) -> None:
    assert access("s3://models").client == ()
    assert dict(access("s3://models", {"ssl_verify": False}).client) == {"allow_invalid_certificates": True}
    (tmp_path / "ca.pem").write_text("a certificate")
    for found in (
        access("s3://models", {"ssl_verify": str(tmp_path / "ca.pem")}),
        access("s3://models", AWS_CA_BUNDLE=str(tmp_path / "ca.pem")),
    ):
        assert dict(found.client) == {"root_certificate": "a certificate"}
    with pytest.raises(ConfigError, match=r"missing\.pem \(ssl_verify\) cannot be read"):
        access("s3://models", {"ssl_verify": str(tmp_path / "missing.pem")})


def test_another_environment_is_another_access() -> None:
    assert access("s3://models", AWS_ACCESS_KEY_ID="a") != access("s3://models", AWS_ACCESS_KEY_ID="b")
    assert access("s3://models", HOME="a") == access("s3://models", HOME="b")


AWS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "hush", "AWS_DEFAULT_REGION": "eu-west-1"}


@pytest.mark.parametrize(
    ("url", "given", "environment", "found"),
    [
        (
            "s3://b/x",
            {},
            AWS,
            {"access_key_id": "AKIA", "secret_access_key": "hush", "region": "eu-west-1"},
        ),
        ("s3://b/x", {"access_key_id": "mine", "region": "us-east-1"}, AWS, {}),
        ("s3://b/x", {"role_arn": "arn:x"}, AWS, {"region": "eu-west-1"}),
        ("s3://b/x", {}, {"AWS_WEB_IDENTITY_TOKEN_FILE": "/t", "AWS_ROLE_ARN": "arn:x"}, {}),
        ("gs://b/x", {}, {"GOOGLE_APPLICATION_CREDENTIALS": "/key.json", **AWS}, {}),
        ("gs://b/x", {}, {"GOOGLE_SERVICE_ACCOUNT_KEY": "{}"}, {"service_account_key": "{}"}),
        ("az://b/x", {}, {"AZURE_CLIENT_ID": "of a managed identity"}, {}),
        (
            "az://b/x",
            {"account_name": "acme"},
            {"AZURE_CLIENT_ID": "app", "AZURE_CLIENT_SECRET": "hush", "AZURE_TENANT_ID": "t"},
            {"client_id": "app", "client_secret": "hush", "tenant_id": "t"},
        ),
    ],
)
def test_fixed_credentials_are_handed_over_and_what_each_host_has_is_not(
    url: str, given: dict[str, str], environment: dict[str, str], found: dict[str, str]
) -> None:
    assert environment_options(url, given, environment) == found


def test_workers_get_what_this_process_reads_from_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    binding = with_root_access({}, "s3://nowhere/samza")[ROOT_ACCESS]
    assert binding.options["secret_access_key"] == "hush"
    assert "secret_access_key" in binding.secret

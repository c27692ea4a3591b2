"""Profiles and assumed roles, over an S3 and an STS of the tests' own."""

from __future__ import annotations

import builtins
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from airflow_samza.errors import ConfigError, RuntimeMissing, StorageUnavailable
from airflow_samza.systems.filesystems.object_store.access import find_access
from airflow_samza.systems.filesystems.object_store.address import parse_address
from airflow_samza.systems.filesystems.object_store.filesystem import ObjectStoreFilesystem, open_object_store
from demo.store_servers import S3Server

pytestmark = pytest.mark.extended


ROLE = "arn:aws:iam::123456789012:role/etl"


@pytest.fixture
def place(s3: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """The options that name the server, and an environment without an identity."""
    for name in s3.environment:
        monkeypatch.delenv(name)
    (tmp_path / "credentials").write_text("[etl]\naws_access_key_id = AKIAETL\naws_secret_access_key = hush\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return {"endpoint": s3.endpoint, "region": "us-east-1"}


def credentials_of(options: dict[str, Any]) -> dict[str, Any]:
    access = find_access(parse_address("s3://samza-tests/x")[0], options)
    assert access.provider is not None
    assert "hush" not in repr(access)
    return dict(access.provider())


def test_a_profile_of_this_host_opens_a_root(place: dict[str, str], s3: S3Server) -> None:
    options = {**place, "profile": "etl"}
    files: ObjectStoreFilesystem = open_object_store(s3.url("profile"), options)
    assert files.put_if_absent("a", b"1")
    assert files.read("a") == b"1"
    assert credentials_of(options)["access_key_id"] == "AKIAETL"


def test_a_role_is_assumed_with_the_key_of_the_options_and_names_itself(place: dict[str, str], s3: S3Server) -> None:
    options = {
        **place,
        "sts_endpoint": s3.endpoint,
        "role_arn": ROLE,
        "external_id": "acme",
        "access_key_id": "AKIA",
        "secret_access_key": "hush",
    }
    found = credentials_of(options)
    assert found["access_key_id"] != "AKIA"
    assert found["token"]
    assert found["expires_at"] is not None
    files = open_object_store(s3.url("role"), options)
    assert files.put_if_absent("a", b"1")
    assert files.client.access.name == f"the role {ROLE}"


def test_rejects_a_profile_that_this_host_does_not_know(place: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"no profile 'elt'.*\n.*The profiles are etl"):
        credentials_of({**place, "profile": "elt"})


def test_rejects_a_role_where_botocore_is_missing(place: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "airflow_samza.systems.filesystems.object_store.aws_roles.find_spec",
        lambda name: None if name == "botocore" else found(name),
    )
    with pytest.raises(RuntimeMissing, match=rf"the role {ROLE} need the package botocore.*\n.*pip install botocore"):
        credentials_of({**place, "role_arn": ROLE})


def test_a_web_identity_needs_no_botocore(place: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *given: Any, **more: Any) -> Any:
        assert not name.startswith("botocore")
        return real(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    options = {**place, "role_arn": ROLE, "web_identity_token_file": "/var/run/token"}
    assert find_access(parse_address("s3://samza-tests/x")[0], options).provider is None


def test_a_role_that_nobody_grants_is_named_in_one_sentence(
    place: dict[str, str], s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = {**place, "sts_endpoint": "http://127.0.0.1:1", "role_arn": ROLE, "profile": "etl"}
    with pytest.raises(
        StorageUnavailable, match=f"did not read s3://.*: the role {ROLE} cannot be asked for now"
    ) as failed:
        open_object_store(s3.url("role"), options, patience=0.1).read("a")
    assert "hush" not in str(failed.value)

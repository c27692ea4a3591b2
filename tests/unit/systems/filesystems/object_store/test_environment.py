from __future__ import annotations

import pytest

from airflow_samza.launch.bindings import with_root_access
from airflow_samza.systems.filesystems.object_store.access import environment_options
from airflow_samza.systems.filesystems.root_access import ROOT_ACCESS

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

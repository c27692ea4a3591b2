"""Secrets: one list, for every place that shows, logs, hashes or sends options."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from airflow_samza import secrecy
from airflow_samza.application.app_descriptor import StreamApplicationDescriptor
from airflow_samza.application.application import stream_application
from airflow_samza.errors import ConfigError, InvalidApplication
from airflow_samza.launch.bindings import without_secrets
from airflow_samza.launch.masters import parse_master
from airflow_samza.launch.runner_settings import RunnerSettings
from airflow_samza.launch.spark_settings import is_per_job, reject_static
from airflow_samza.runs.tables.push_request import PushRequest
from airflow_samza.secrecy import HIDDEN, holds_secret, is_secret_name, secret_names, shown, without, without_passwords
from airflow_samza.systems.system import SystemBinding
from tests.support.syntax_trees import parsed

SECRET = [
    "password",
    "PASSWORD",
    "sfPassword",
    "db_passwd",
    "pwd",
    "PWD",
    "userPwd",
    "passphrase",
    "ssl.key.passphrase",
    "api_key",
    "apiKey",
    "API-KEY",
    "token",
    "access_token",
    "sasl.oauthbearer.token",
    "sas",
    "SAS",
    "fs.azure.sas.fixed.token.x",
    "fs.azure.account.key.x.dfs.core.windows.net",
    "client_secret",
    "fs.s3a.secret.key",
    "fs.s3a.access.key",
    "aws_secret_access_key",
    "credentials",
    "private_key",
    "pem_private_key",
    "ssl.key.pem",
    "ssl_key_pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.pem",
    "sfPrivateKey",
    "sasl.jaas.config",
    "kafka.sasl.jaas.config",
    "jaas",
    "Authorization",
    "http.auth",
    "connection_string",
    "AccountKey",
    "SharedAccessSignature",
]
OPEN = [
    "url",
    "user",
    "key",
    "keys",
    "primary_key",
    "partitionColumn",
    "sasl.mechanism",
    "sasl.kerberos.service.name",
    "saslMechanism",
    "passenger",
    "author",
    "compass",
    "format",
    "key.serializer",
    "fs.s3a.aws.credentials.provider",
    "bypass",
    "tokenProviderClass",
    "spinner",
    "row_key",
    "root",
]


@pytest.mark.parametrize("name", SECRET)
def test_a_name_on_the_list_is_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", OPEN)
def test_a_name_that_only_resembles_one_is_not_secret(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize("name", [*SECRET, *OPEN, "passcode", "fs.x.api.key", "signingKey", "sig", "tokenProvider"])
def test_a_name_is_secret_in_a_text_exactly_when_it_is_secret_as_an_option(name: str) -> None:
    shown_text = without_passwords(f"jdbc:x:mem;{name}=hush;x=1")
    assert shown_text == f"jdbc:x:mem;{name}={HIDDEN if is_secret_name(name) else 'hush'};x=1"


NAMES_OF_OTHERS = ("launch/warm/key.py", "systems/filesystems/object_store/", "systems/iceberg/catalogs.py")
"""Variables of a shell; settings, variables and error codes of object stores; errors of catalogs. They decide nothing
about secrets."""


def test_no_other_module_lists_names_of_secrets() -> None:
    package = Path(secrecy.__file__).parent
    lists: list[str] = []
    for file in sorted(package.rglob("*.py")):
        if file.relative_to(package).as_posix().startswith(NAMES_OF_OTHERS):
            continue
        for node in ast.walk(parsed(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.List | ast.Set | ast.Tuple):
                texts = [str(each.value) for each in node.elts if isinstance(each, ast.Constant)]
            elif isinstance(node, ast.Constant) and "|" in str(node.value):
                texts = str(node.value).split("|")
            else:
                continue
            if sum(map(is_secret_name, texts)) > 1:
                lists.append(f"{file.relative_to(package)}: {texts[0]}")
    assert lists == [f"secrecy.py: {words[0]}" for words in (secrecy.WORDS, secrecy.WHOLE_WORDS)]


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://me:hush@host:5432/db", f"postgresql://me:{HIDDEN}@host:5432/db"),
        ("https://:hush@host/x?sig=hush&y=1", f"https://:{HIDDEN}@host/x?sig={HIDDEN}&y=1"),
        ("jdbc:sqlserver://host;user=me;password={hush};x=1", f"jdbc:sqlserver://host;user=me;password={HIDDEN};x=1"),
        ("jdbc:oracle:thin:me/hush@//host:1521/x", f"jdbc:oracle:thin:me/{HIDDEN}@//host:1521/x"),
        (
            'LoginModule required username="me" password="hu sh";',
            f'LoginModule required username="me" password={HIDDEN};',
        ),
        ("AccountName=a;AccountKey=aHVzaA==;X=1", f"AccountName=a;AccountKey={HIDDEN};X=1"),
        ("sc://host:15002/;user_id=me;token=hush", f"sc://host:15002/;user_id=me;token={HIDDEN}"),
        ("url=jdbc:h2:x?password=hush&y=1", f"url=jdbc:h2:x?password={HIDDEN}&y=1"),
        ("conf='user=me api.key=hush'", f"conf='user=me api.key={HIDDEN}'"),
        ("a.b =password= hush", f"a.b =password= {HIDDEN}"),
        ("two ftp://a:x1@h/ and ftp://b:y2@h/", f"two ftp://a:{HIDDEN}@h/ and ftp://b:{HIDDEN}@h/"),
        ("no password here: see http://host:80/a@b", "no password here: see http://host:80/a@b"),
        ("the key is k=1 and 5 = 5", "the key is k=1 and 5 = 5"),
    ],
)
def test_a_password_in_a_text_is_hidden_and_nothing_else(text: str, hidden: str) -> None:
    assert without_passwords(text) == hidden
    assert without_passwords(hidden) == hidden


def test_a_long_text_without_a_space_is_looked_through_in_one_pass() -> None:
    long = "a" * 1_000_000  # hours, if each letter were tried as the beginning of a URL
    assert without_passwords(f"{long} ftp://me:hush@h") == f"{long} ftp://me:{HIDDEN}@h"


def test_an_option_is_secret_by_what_it_holds() -> None:
    assert holds_secret("url", "jdbc:h2:mem")
    assert holds_secret("endpoint", "https://me:hush@host/")
    assert not holds_secret("endpoint", "https://host/")
    assert not holds_secret("partitions", 5)
    assert secret_names({"url": "jdbc:x", "user": "me", "pwd": ""}) == {"url", "pwd"}


def test_options_for_people_hide_what_is_secret() -> None:
    assert shown({"root": "/data", "pwd": "hush", "odd": "hush"}, secret=["odd"]) == {
        "root": "/data",
        "pwd": HIDDEN,
        "odd": HIDDEN,
    }


def test_a_secret_that_is_part_of_another_is_hidden_with_it() -> None:
    assert without("it is abcdef, or abc", ["abc", "abcdef", "", None]) == f"it is {HIDDEN}, or {HIDDEN}"


@pytest.mark.parametrize(
    "options", [{"sas": "hush"}, {"endpoint": "https://me:hush@host/"}, {"sasl.jaas.config": "hush"}]
)
def test_a_secret_that_nobody_marked_is_shown_by_no_binding(options: dict[str, str]) -> None:
    binding = SystemBinding("kafka", {"root": "/data", **options})
    assert binding.secret == frozenset(options)
    assert "hush" not in repr(binding)
    assert "hush" not in str(without_secrets({"events": binding}))
    assert "/data" in repr(binding)


@pytest.mark.parametrize("options", [{"api_key": "hush"}, {"url": "jdbc:h2:mem:x;PASSWORD=hush"}])
def test_rejects_an_option_in_code_when_it_is_a_secret(options: dict[str, str]) -> None:
    name = next(iter(options))

    @stream_application("shop")
    def shop(app: StreamApplicationDescriptor) -> None:
        app.input_stream("events", schema="a bigint", system="db", options=options)

    with pytest.raises(
        InvalidApplication, match=f"The option '{name}' looks like a secret, and options in code are written"
    ) as caught:
        shop.spec()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "source", [{"jdbc": {"url": "jdbc:x", "pwd": "hush"}}, {"path": "/a", "options": {"sas": "hush"}}]
)
def test_rejects_a_push_when_its_source_holds_a_secret(source: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="which is secret, and the request is stored in a file") as caught:
        PushRequest("app", "apps:app", "tiers", "first", "log", "tiers-push", 2, ("id",), source)
    assert "hush" not in str(caught.value)


def test_a_request_and_settings_of_a_runner_show_no_options() -> None:
    request = PushRequest(
        "app", "apps:app", "tiers", "first", "log", "tiers-push", 2, ("id",), {"jdbc": {"url": "jdbc:hush"}}
    )
    settings = RunnerSettings("/data", {}, conf={"spark.hadoop.fs.s3a.secret.key": "hush"})
    assert "hush" not in repr(request)
    assert "hush" not in repr(settings)


def test_a_master_is_shown_without_what_is_secret() -> None:
    master = parse_master("sc://host:15002/;user_id=me;TOKEN=hush;x-api-key=hush;use_ssl=true")
    assert master.shown == "sc://host:15002/;user_id=me;use_ssl=true"


def test_a_secret_setting_of_spark_is_no_setting_of_a_stage_whose_request_is_a_file() -> None:
    assert is_per_job("spark.sql.shuffle.partitions")
    assert not is_per_job("spark.sql.vault.password")


def test_a_secret_setting_that_spark_rejects_is_not_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        reject_static({"spark.ssl.keyPassword": "hush"})
    assert "hush" not in str(caught.value)
    assert "hush" not in str(caught.value.facts)

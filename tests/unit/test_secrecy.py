"""What is secret: one list, for every place that shows, logs, hashes or sends options."""

from __future__ import annotations

import pytest

from airflow_samza.secrecy import HIDDEN, holds_secret, is_secret_name, secret_names, shown, without, without_passwords

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


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("postgresql://me:hush@host:5432/db", f"postgresql://me:{HIDDEN}@host:5432/db"),
        ("https://:hush@host/x?sig=hush&y=1", f"https://:{HIDDEN}@host/x?sig={HIDDEN}&y=1"),
        ("jdbc:sqlserver://host;user=me;password={hush};x=1", f"jdbc:sqlserver://host;user=me;password={HIDDEN};x=1"),
        ("jdbc:oracle:thin:me/hush@//host:1521/x", f"jdbc:oracle:thin:me/{HIDDEN}@//host:1521/x"),
        ('LoginModule required username="me" password="hu sh";', f'LoginModule required username="me" password={HIDDEN};'),
        ("AccountName=a;AccountKey=aHVzaA==;X=1", f"AccountName=a;AccountKey={HIDDEN};X=1"),
        ("sc://host:15002/;user_id=me;token=hush", f"sc://host:15002/;user_id=me;token={HIDDEN}"),
        ("two ftp://a:x1@h/ and ftp://b:y2@h/", f"two ftp://a:{HIDDEN}@h/ and ftp://b:{HIDDEN}@h/"),
        ("no password here: see http://host:80/a@b", "no password here: see http://host:80/a@b"),
        ("the key is k=1 and 5 = 5", "the key is k=1 and 5 = 5"),
    ],
)
def test_a_password_in_a_text_is_hidden_and_nothing_else(text: str, hidden: str) -> None:
    assert without_passwords(text) == hidden
    assert without_passwords(hidden) == hidden


def test_an_option_is_secret_by_what_it_holds() -> None:
    assert holds_secret("url", "jdbc:h2:mem")
    assert holds_secret("endpoint", "https://me:hush@host/")
    assert not holds_secret("endpoint", "https://host/")
    assert not holds_secret("partitions", 5)
    assert secret_names({"url": "jdbc:x", "user": "me", "pwd": ""}) == {"url", "pwd"}


def test_options_for_people_hide_what_is_secret() -> None:
    assert shown({"root": "/data", "pwd": "hush", "odd": "hush"}, secret=["odd"]) == {"root": "/data", "pwd": HIDDEN, "odd": HIDDEN}


def test_a_secret_that_is_part_of_another_is_hidden_with_it() -> None:
    assert without("it is abcdef, or abc", ["abc", "abcdef", "", None]) == f"it is {HIDDEN}, or {HIDDEN}"

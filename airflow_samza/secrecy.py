"""The one list of what is secret: options by their names, and passwords inside URLs and other texts.

Whatever shows, logs, hashes or sends options asks here, so that a name is secret everywhere or nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

HIDDEN = "***"
"""The text in place of a secret."""

WORDS = (
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "credential",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "keypem",
    "sharedkey",
    "encryptionkey",
    "signingkey",
    "masterkey",
    "signature",
    "jaas",
    "authorization",
    "connectionstring",
)
"""A name that holds one of these is secret, also with other separators (``Api-Key``, ``fs.azure.account.key``)."""

WHOLE_WORDS = ("sas", "sig", "pass", "pw", "pin", "auth", "bearer")
"""These are secret only as a word of their own: ``sas`` is, ``sasl.mechanism`` is not."""

NOT_SECRET = ("tokenservice", "tokenprovider", "tokenendpoint", "credentialsprovider", "credentialprovider")
"""Names that say where a secret comes from, and hold none."""

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_IN_URL = re.compile(r"(?P<user>://[^\s/@:?#'\"]*):[^\s/?#'\"]*@")
_ORACLE = re.compile(r"(?P<scheme>jdbc:oracle:\w+:)(?P<user>[^\s/@]*)/(?P<password>[^\s@]*)@")
_NAME = re.compile(r"(?<![\w.-])([\w.-]+)\s*=\s*")
_VALUE = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s;&,)'\"]+")


def is_secret_name(name: str) -> bool:
    """Return whether an option of this name holds a secret.

    >>> is_secret_name("sasl.jaas.config"), is_secret_name("Api-Key")
    (True, True)
    >>> is_secret_name("sasl.mechanism"), is_secret_name("primary_key")
    (False, False)
    """
    parts = [part.lower() for part in _PARTS.findall(name)]
    joined = "".join(parts)
    if any(word in joined for word in NOT_SECRET):
        return False
    return any(word in joined for word in WORDS) or any(part in WHOLE_WORDS for part in parts)


def gives_away(name: str, value: object) -> bool:
    """Return whether an option is secret by its name, or shows a password in its value.

    It may stand in no code and no file.

    >>> gives_away("pwd", "x"), gives_away("url", "jdbc:h2:x;password=x")
    (True, True)
    >>> gives_away("url", "jdbc:postgresql://host/db")
    False
    """
    return is_secret_name(name) or (isinstance(value, str) and without_passwords(value) != value)


def holds_secret(name: str, value: object) -> bool:
    """Return whether an option gives a secret away, or is a URL of JDBC, in which one may stand anywhere.

    No text shows it.

    >>> holds_secret("url", "jdbc:postgresql://host/db"), holds_secret("url", "https://me:hush@host/")
    (True, True)
    >>> holds_secret("url", "https://host/")
    False
    """
    return gives_away(name, value) or (isinstance(value, str) and value.startswith("jdbc:"))


def secret_names(options: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the options that hold a secret."""
    return frozenset(name for name, value in options.items() if holds_secret(str(name), value))


def shown(options: Mapping[str, Any], secret: Iterable[str] = ()) -> dict[str, Any]:
    """Return options for people: what is secret, by the list or because ``secret`` names it, is hidden."""
    named = frozenset(secret)
    return {
        name: HIDDEN if name in named or holds_secret(str(name), value) else value for name, value in options.items()
    }


def without_passwords(text: str) -> str:
    """Return a text in which no password of a URL, and no value of a secret name (``password=…``), can be read.

    >>> without_passwords("jdbc:h2:x;USER=me;PASSWORD=hush and ftp://me:hush@host/x")
    'jdbc:h2:x;USER=me;PASSWORD=*** and ftp://me:***@host/x'
    """
    text = _IN_URL.sub(rf"\g<user>:{HIDDEN}@", text)
    text = _ORACLE.sub(rf"\g<scheme>\g<user>/{HIDDEN}@", text)
    kept, at = [], 0
    for name in _NAME.finditer(text):
        if name.start() >= at and is_secret_name(name[1]) and (value := _VALUE.match(text, name.end())):
            kept += [text[at : name.end()], HIDDEN]
            at = value.end()
    return "".join((*kept, text[at:]))


def secret_texts(value: object) -> Iterator[str]:
    """Yield the texts that are secret in a secret value: all of it, or, in an object, what is secret by its name.

    >>> list(secret_texts({"type": "basic", "basic": {"username": "jo", "password": "x"}}))
    ['x']
    """
    if not isinstance(value, Mapping):
        yield from [str(value)] if value else []
        return
    for name, inner in value.items():
        if isinstance(inner, Mapping) or is_secret_name(str(name)):
            yield from secret_texts(inner)


def without(text: str, secrets: Iterable[object]) -> str:
    """Return a text in which neither these secrets nor passwords can be read."""
    texts = {text for secret in secrets for text in secret_texts(secret)}
    for secret in sorted(texts, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return without_passwords(text)


def masked(name: str, value: object) -> str:
    """Return a value of a column as it may be shown to recognize a row: its ends alone, nothing of a secret.

    >>> masked("member", "ada.lovelace"), masked("member", 12345), masked("member", "ada"), masked("api_key", "x-1234")
    ('ad***ce', '1***5', '***', '***')
    """
    text = str(value)
    if value is None or is_secret_name(name):
        return "null" if value is None else HIDDEN
    ends = 2 if len(text) > 7 else 1 if len(text) > 3 else 0
    return f"{text[:ends]}{HIDDEN}{text[len(text) - ends :]}"

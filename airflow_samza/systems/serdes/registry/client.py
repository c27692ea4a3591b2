"""Questions to a schema registry: one client per process and settings, which keeps what it was told of an id.

The binding of serdes gives one to the serdes of a registry.
"""

from __future__ import annotations

import atexit
import importlib
import os
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from airflow_samza.errors import ConfigError, RuntimeMissing, StorageUnavailable, install
from airflow_samza.secrecy import without_passwords

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema

PREFIX = "schema.registry."
"""Beginning of the options of a system that are settings of its schema registry."""

_DEFAULTS = {
    # A registry that is away is reported within seconds; the client itself would wait for an answer for ever.
    "timeout": 10.0,
    "max.retries": 2,
    "retries.wait.ms": 200,
    "retries.max.wait.ms": 2000,
    # Workers live for days, and the latest version of a subject does not stay that.
    "cache.latest.ttl.sec": 60,
}

_NUMBERS = (*_DEFAULTS, "cache.capacity")

T = TypeVar("T")

AUTO_REGISTER = "auto.register.schemas"
"""Setting that lets a stream's schema file be registered when it is first written; without it nothing is."""


class SchemaText(NamedTuple):
    """Schema of a registry: its ``kind`` (AVRO, JSON, PROTOBUF), text, and the schemas that it refers to, by name."""

    kind: str
    text: str
    references: tuple[tuple[str, SchemaText], ...] = ()


class Registered(NamedTuple):
    """Version of a subject: the id that messages name, and the schema."""

    id: int
    schema: SchemaText


class Registry:
    """Schema registry of a system. ``settings`` are those of its client; a request that fails is one sentence."""

    def __init__(self, system: str, settings: Mapping[str, Any]) -> None:
        self._system = system
        self.registers = str(settings.get(AUTO_REGISTER, "false")).strip().lower() == "true"
        self._settings = {name: value for name, value in settings.items() if name != AUTO_REGISTER}
        self._shown = ", ".join(_without_login(url.strip()) for url in str(settings["url"]).split(","))

    def schema(self, id: int, kind: str) -> SchemaText | None:
        """Return the schema of an id, or None."""
        return self._ask(lambda client: self._text(client, client.get_schema(id, fmt=_format(kind)), kind))

    def latest(self, subject: str, kind: str) -> Registered | None:
        """Return the latest version of a subject, or None."""

        def newest(client: Any) -> Registered:
            version = client.get_latest_version(subject, fmt=_format(kind))
            return Registered(version.schema_id, self._text(client, version.schema, kind))

        return self._ask(newest)

    def id_of(self, subject: str, text: str, kind: str) -> int | None:
        """Return the id under which a subject has this schema, or None; it is registered where that is allowed."""
        schema = _library().Schema(text, schema_type=kind)
        if self.registers:
            return self._ask(lambda client: int(client.register_schema(subject, schema)), may_lack=False)
        return self._ask(lambda client: int(client.lookup_schema(subject, schema).schema_id))

    def _text(self, client: Any, schema: Schema, kind: str) -> SchemaText:
        references = tuple(
            (
                str(one.name),
                self._text(client, client.get_version(one.subject, one.version, True, _format(kind)).schema, kind),
            )
            for one in schema.references or ()
        )
        return SchemaText(str(schema.schema_type or "AVRO"), str(schema.schema_str), references)

    def _ask(self, request: Callable[[Any], T], *, may_lack: bool = True) -> T | None:
        """Return an answer; None where the registry lacks what is asked for, if it may."""
        library = _library()
        from confluent_kafka.schema_registry.common._httpx_compat import httpx

        try:
            return request(_client(self._settings))
        except library.SchemaRegistryError as error:
            if may_lack and error.http_status_code == 404:
                return None
            raise self._rejected(error.http_status_code, str(error.error_message)) from error
        except httpx.TransportError as error:
            if "CERTIFICATE_VERIFY_FAILED" in str(error):
                raise ConfigError(
                    f"The certificate of the schema registry of the system {self._system!r} at {self._shown} "
                    "is not trusted.",
                    hint=f"Name the file of the authority that signed it: {PREFIX}ssl.ca.location.",
                    key=f"{PREFIX}ssl.ca.location",
                    system=self._system,
                ) from error
            raise StorageUnavailable(
                f"The schema registry of the system {self._system!r} at {self._shown} "
                f"does not answer ({type(error).__name__}).",
                hint=f"Start it, or correct {PREFIX}url.",
                system=self._system,
            ) from error
        except (ValueError, TypeError, OSError) as error:  # settings that the client does not take
            raise ConfigError(
                f"The client of the schema registry of the system {self._system!r} "
                f"cannot be made: {without_passwords(str(error))}.",
                hint=f"Correct the settings that begin with {PREFIX}.",
                key=f"{PREFIX}url",
                system=self._system,
            ) from error

    def _rejected(self, status: int, what: str) -> Exception:
        where = f"The schema registry of the system {self._system!r} at {self._shown}"
        if status in (401, 403):
            return ConfigError(
                f"{where} {'rejects the login or its password' if status == 401 else 'grants no access'} (HTTP "
                f"{status}).",
                hint=f"Correct {PREFIX}basic.auth.user.info (user:password) of the system's connection, or have the "
                "rights granted.",
                key=f"{PREFIX}basic.auth.user.info",
                system=self._system,
            )
        if status in (409, 422):
            return ConfigError(
                f"{where} rejects the schema (HTTP {status}): {what}.",
                hint="Register a schema that is compatible with the subject's versions.",
                key="serde",
                system=self._system,
            )
        return StorageUnavailable(
            f"{where} answers with an error (HTTP {status}): {what}.",
            hint="Look into its log; the request is tried again with the task.",
            system=self._system,
        )


_clients: dict[tuple[int, str], Any] = {}


def _client(settings: Mapping[str, Any]) -> Any:
    """Return this process's client for these settings: its connections are not those of a parent."""
    key = (os.getpid(), repr(sorted((name, str(value)) for name, value in settings.items())))
    if key not in _clients:
        _clients[key] = _library().SchemaRegistryClient(dict(settings))
    return _clients[key]


@atexit.register
def close_clients() -> None:
    """Close the connections of this process; who asks again gets new ones."""
    for key in [key for key in _clients if key[0] == os.getpid()]:
        _clients.pop(key).close()


def _library() -> ModuleType:
    """Return the library, or what to install."""
    try:
        with warnings.catch_warnings():
            # Beside httpx in the place of httpx2 authlib warns of itself, whatever filters there are.
            deprecated = importlib.import_module("authlib.deprecate").AuthlibDeprecationWarning
            warnings.simplefilter("ignore", deprecated)
            import confluent_kafka.schema_registry as library
    except ImportError as error:
        raise RuntimeMissing(
            f"A schema registry needs the package {error.name or 'confluent-kafka'}, which is not installed.",
            hint=install("registry"),
            package=str(error.name),
        ) from error
    return library


def _format(kind: str) -> str | None:
    """Return the form in which schemas are asked for: of Protobuf a descriptor, which needs no compiler."""
    return "serialized" if kind == "PROTOBUF" else None


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def registry_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the registry's client, without the prefix; {} when the options name no registry.

    >>> registry_settings({"bootstrap.servers": "b:9092", "schema.registry.url": "http://r:8081"})["url"]
    'http://r:8081'
    """
    settings = {name[len(PREFIX) :]: value for name, value in options.items() if name.startswith(PREFIX)}
    if "url" not in settings:
        return {}
    return {**_DEFAULTS, **{n: _typed(n, v) for n, v in settings.items()}}


def _typed(name: str, value: Any) -> Any:
    if name in _NUMBERS and isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value  # the client names it
    return value

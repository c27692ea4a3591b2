"""Catalogs, opened by pyiceberg for as long as the plan asks them, and what goes wrong with them as errors.

pyiceberg is loaded here only, and inside functions: it takes half a second, and tasks never need it. A catalog is
constructed from the binding alone: ``load_catalog`` would merge the environment and the user's file into it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_fixed

from airflow_samza.errors import (
    ConfigError,
    RuntimeMissing,
    SamzaError,
    StorageFull,
    StorageUnavailable,
    TopicError,
    install,
)
from airflow_samza.systems.files.failures import NOTHING_IS_LOST, is_full
from airflow_samza.systems.files.formats.file_format import READ_BY_SPARK
from airflow_samza.systems.iceberg.bounds import bound_catalog
from airflow_samza.systems.iceberg.expiry import forget_metadata, marking
from airflow_samza.systems.iceberg.hive_catalog import hive_catalog
from airflow_samza.systems.iceberg.options import CatalogSettings, identifier_of

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

ANSWER_SECONDS = 30.0
"""Seconds within which a REST or Hive catalog has to answer a request; pyiceberg itself would wait forever."""

_EXTRAS = {"pyiceberg": "iceberg", "thrift": "hive"}
"""The extra that brings a package which catalogs need."""

_FIRST_TRIES = 20
"""Tries to open a catalog whose tables other processes are making at the same time: two seconds in all."""

_MADE_BY_OTHERS = ("OperationalError", "ProgrammingError", "IntegrityError")
"""Errors of a database in which another process has just made a table: of SQLite, and two of PostgreSQL."""

_REJECTING = (
    "Unauthorized",
    "Forbidden",
    "OAuth",
    "AuthorizationExpired",
    "AccessDenied",
    "NoCredentials",
    "SignError",
)
"""Words in the names of errors of catalogs and storages that do not know the caller, or do not let it."""


@contextmanager
def opened_catalog(settings: CatalogSettings, *, create: bool = False) -> Iterator[Catalog]:
    """Let a catalog be asked; ``create`` makes the folder and the tables of an embedded one that is missing."""
    with catalog_errors(settings):
        if settings.folder is not None:
            _check_folder(settings, create=create)
        catalog: Any = _constructed(settings)
        bound_catalog(catalog, settings)
        catalog.commit_table = marking(catalog.commit_table)
        catalog._delete_old_metadata = forget_metadata  # pyiceberg deletes what the log names, wherever it lies
        try:
            yield catalog
        finally:
            with suppress(Exception):
                catalog.close()


def _check_folder(settings: CatalogSettings, *, create: bool) -> None:
    assert settings.folder is not None
    if create:
        os.makedirs(settings.folder, exist_ok=True)
    elif not os.path.isfile(settings.place):
        raise TopicError(
            f"The folder {settings.folder} of the system {settings.system!r} has no Iceberg catalog: there is no file "
            f"{os.path.basename(settings.place)} in it.",
            hint="Correct the folder in the system's binding; pyiceberg makes a catalog there, with "
            f"type sql and the uri sqlite:///{settings.place}.",
            system=settings.system,
            path=settings.place,
        )


def _constructed(settings: CatalogSettings) -> Catalog:
    """Return the catalog; the tables of one in a database are made by the first of several processes at once."""
    from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType

    if settings.type == "rest":
        return _rest(settings)
    if settings.type == "hive":
        return hive_catalog(settings, ANSWER_SECONDS)
    tries = Retrying(
        retry=retry_if_exception(partial(_may_have_been_made, settings)),
        stop=stop_after_attempt(_FIRST_TRIES),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    return tries(AVAILABLE_CATALOGS[CatalogType(settings.type)], settings.name, dict(settings.properties))


def _may_have_been_made(settings: CatalogSettings, error: BaseException) -> bool:
    """Return whether another process may just have made the tables of a catalog in a database."""
    kind = type(error).__name__
    in_file = settings.folder is not None and kind == "OperationalError"  # SQLite's file may be locked, too
    return in_file or (kind in _MADE_BY_OTHERS and "already exists" in str(error))


def _rest(settings: CatalogSettings) -> Catalog:
    from pyiceberg.catalog.rest import RestCatalog

    class Impatient(RestCatalog):
        """Catalog of which each request has an end."""

        def _create_session(self) -> Any:
            session = super()._create_session()
            session.request = partial(session.request, timeout=ANSWER_SECONDS)  # type: ignore[method-assign]
            return session

        def close(self) -> None:
            """Close idle connections, which an error that is still remembered would keep open: processes fork."""
            adapter: Any
            for adapter in self._session.adapters.values():
                for pool in adapter.poolmanager.pools._container.values():
                    pool.close()
            super().close()

    return Impatient(settings.name, **settings.properties)


def find_table(catalog: Catalog, table: str) -> Table | None:
    """Return a table as it is now; None: it does not exist."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    with suppress(NoSuchTableError, NoSuchNamespaceError):
        return catalog.load_table(identifier_of(table))
    return None


def load_table(catalog: Catalog, settings: CatalogSettings, table: str, stream: str, *, written: bool = False) -> Table:
    """Return a table as it is now; one that does not exist is a ``TopicError``."""
    found = find_table(catalog, table)
    if found is None:
        identifier = identifier_of(table)
        name = ".".join(identifier)
        raise TopicError(
            f"The table {name} of stream {stream!r} does not exist in the catalog {settings.place} (system "
            f"{settings.system!r}).",
            hint=f"{_tables_hint(catalog, identifier)}Check table= of the stream, and the system's binding"
            + ('; or set the output\'s option create="true", and it is made.' if written else "."),
            table=name,
            stream=stream,
            system=settings.system,
        )
    return found


def _tables_hint(catalog: Catalog, identifier: tuple[str, ...]) -> str:
    """Return the names of tables that a table's namespace has, for a hint."""
    from airflow_samza.application.rejections import did_you_mean, listed

    with suppress(Exception):
        names = sorted(".".join(each) for each in catalog.list_tables(identifier[:-1]))
        near = did_you_mean(".".join(identifier), names)
        return near or (f"The namespace has {listed(names, 10)}. " if names else "The namespace has no tables. ")
    with suppress(Exception):
        names = sorted(".".join(each) for each in catalog.list_namespaces())
        return f"The catalog has the namespaces {listed(names, 10)}. " if names else "The catalog is empty. "
    return ""


@contextmanager
def catalog_errors(settings: CatalogSettings) -> Iterator[None]:
    """Turn what pyiceberg raises into an error that says what to do, without secrets."""
    try:
        yield
    except SamzaError:
        raise
    except ModuleNotFoundError as error:
        library = str(error.name).partition(".")[0]
        if library not in _EXTRAS:
            raise
        raise RuntimeMissing(
            f"The system {settings.system!r} of kind iceberg needs {library}, which is not installed here.",
            hint=install(_EXTRAS[library]),
            library=library,
        ) from error
    except Exception as error:
        raise _translated(error, settings) from None  # the cause may show a secret


def _translated(error: Exception, settings: CatalogSettings) -> SamzaError:
    """Return our error; those of catalogs come from a dozen libraries, so that their names have to say what it is."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    text = settings.without_secrets(" ".join(str(error).split()))[:300].rstrip(".") or kinds[0]
    where = f"The Iceberg catalog {settings.place} of the system {settings.system!r}"
    facts = {"system": settings.system, "catalog": settings.place}
    if "NotInstalledError" in kinds or isinstance(error, ImportError):
        return RuntimeMissing(f"{where} needs a package: {text}.", hint="Install it where plans are made.", **facts)
    if any(word in name for name in kinds for word in _REJECTING) or "password authentication failed" in text:
        return TopicError(
            f"{where} rejects the credentials: {text}.",
            hint="Correct them in the system's binding (in Airflow: in its connection), and let it read the table.",
            **facts,
        )
    if is_full(error) or "database or disk is full" in text:
        return StorageFull(
            f"{where} has no room left: {text}.",
            hint=f"Free space where it and its tables lie, {NOTHING_IS_LOST}",
            **facts,
        )
    if isinstance(error, FileNotFoundError):
        return TopicError(
            f"{where} names a file that does not exist: {text}.",
            hint="A table that was moved or half deleted cannot be read. Restore its files, or register it anew.",
            **facts,
        )
    if "ValidationError" in kinds or isinstance(error, NotImplementedError | ArithmeticError):
        return TopicError(
            f"{where} has a table that pyiceberg cannot read: {text}.",
            hint=f"It may have a newer format: {READ_BY_SPARK}.",
            **facts,
        )
    if "NoSuchPropertyException" in kinds or isinstance(error, ValueError | TypeError):
        return ConfigError(
            f"{where} cannot be opened: {text}.", hint="Correct the properties of the system's binding.", **facts
        )
    return StorageUnavailable(
        f"{where} does not answer, or fails: {kinds[0]}: {text}.",
        hint="Try again; when it stays, check its address in the system's binding, the network, and the storage.",
        **facts,
    )

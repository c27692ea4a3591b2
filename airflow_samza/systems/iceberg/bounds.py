"""Bounds of what the metadata of tables may choose, which whoever may alter a table writes.

pyiceberg merges a table's properties over those of the catalog: they would choose which classes are imported, which
endpoint is asked, and by whose right. And a list, manifest or file may have any address that the process can open.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from airflow_samza.application.rejections import listed
from airflow_samza.errors import TopicError
from airflow_samza.secrecy import is_secret_name, without_passwords
from airflow_samza.systems.filesystems.addresses import Folders
from airflow_samza.systems.iceberg.options import CatalogSettings

if TYPE_CHECKING:
    from pyiceberg.table import ManifestGroupPlanner, Table

logger = logging.getLogger(__name__)

_IMPORTED = "py-io-impl"

_NOT_OF_TABLES = re.compile(
    r"(py-.*-impl|write\.py-location-provider\.impl|(s3|gcs|adls|client|hdfs|hf|oss|glue|dynamodb|rest|header|ssl"
    r"|oauth2-server-uri|uri|warehouse)(\..*)?)"
)
"""Properties that choose what is imported, and where storages and catalogs are."""


def bound_catalog(catalog: Any, settings: CatalogSettings) -> None:
    """Have a catalog open tables by the binding alone, and files within the tables' folders or ``locations=``.

    Properties that no table may set stay in its metadata, and do nothing. A REST catalog may lend credentials.
    """
    opened, loaded = catalog._load_file_io, catalog.load_table
    left_out: dict[str, dict[str, str]] = {}

    def load_file_io(properties: Mapping[str, str] = MappingProxyType({}), location: str | None = None) -> Any:
        lent = properties if settings.type == "rest" else {}
        return opened({**lent, _IMPORTED: settings.properties.get(_IMPORTED, "")}, location)

    def bounded(table: Any) -> Any:
        properties = table.metadata.properties
        chosen = {
            name: value for name, value in properties.items() if is_secret_name(name) or _NOT_OF_TABLES.fullmatch(name)
        }
        if chosen:
            left_out[table.metadata_location] = chosen
            table.metadata = _with(table.metadata, {name: properties[name] for name in properties.keys() - chosen})
            _say(settings.system, ".".join(table.name()), *sorted(chosen))
        _bind(table, settings, table)
        return table

    def staged(current: Any, *arguments: Any) -> Any:
        table = stage(bounded(current) if current is not None else None, *arguments)
        if current is not None:
            properties = {**left_out.get(current.metadata_location, {}), **table.metadata.properties}
            table.metadata = _with(table.metadata, properties)
        _bind(table, settings, current or table)
        return table

    def without_properties(made: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def call(identifier: Any, response: Any) -> Any:
            table = made(identifier, response.model_copy(update={"metadata": _with(response.metadata, {})}))
            table.metadata = response.metadata
            return table

        return call

    catalog._load_file_io, catalog.load_table = load_file_io, lambda identifier: bounded(loaded(identifier))
    if settings.type == "rest":  # which places metadata itself
        catalog._response_to_table = without_properties(catalog._response_to_table)
        catalog._response_to_staged_table = without_properties(catalog._response_to_staged_table)
    else:
        stage = catalog._update_and_stage_table
        catalog._update_and_stage_table = staged


def check_address(of: Table | ManifestGroupPlanner, address: str) -> None:
    """Reject an address that neither lies in a table's folder nor in a place that the binding allows."""
    io: Any = of.io
    io.check(address)


def _with(metadata: Any, properties: Mapping[str, str]) -> Any:
    return metadata.model_copy(update={"properties": dict(properties)})


@cache
def _say(system: str, table: str, *names: str) -> None:
    """Warn of properties of a table, once in a process."""
    logger.warning(
        "The table %s of the system %r has properties that only a binding may have, and they are left out: %s",
        table,
        system,
        listed(names),
    )


def _bind(table: Any, settings: CatalogSettings, of: Table) -> None:
    """Have the files of a table opened, made and deleted only where those of the table ``of`` may lie.

    Its location is its own if its metadata, whose address the catalog says, lies in there.
    """
    location, name = of.metadata.location, ".".join(of.name())
    is_own = Folders([f"{location.rstrip('/')}/metadata"]).have(of.metadata_location)
    folders = Folders([*([location] if is_own else ()), *settings.locations])

    def check(address: str) -> None:
        if not folders.have(address):
            shown = without_passwords(address)
            raise TopicError(
                f"The table {name} of the system {settings.system!r} names the address {shown!r}, "
                "which is not in its folder.",
                hint="Find out who has written that. If files of the table may lie there, name the folder in the "
                'binding of the system: locations="s3://lake/archive"; several stand with commas.',
                table=name,
                system=settings.system,
                address=shown,
            )

    def checked(act: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def call(location: Any) -> Any:
            check(location if isinstance(location, str) else location.location)
            return act(location)

        return call

    io = table.io
    io.check = check
    io.new_input, io.new_output, io.delete = checked(io.new_input), checked(io.new_output), checked(io.delete)

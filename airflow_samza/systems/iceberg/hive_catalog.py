"""A Hive metastore as a catalog: requests have an end, and a commit replaces only the metadata that it began from.

pyiceberg commits under a lock of the metastore, and does not notice when it expires: who stood still for longer would
replace what others have committed since. So a commit makes sure of the lock, and names the metadata that it expects,
which metastores from version 4 on compare when they store the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_samza.errors import ConfigError, StorageUnavailable
from airflow_samza.systems.iceberg.options import CatalogSettings

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

_LOCK_POLLS = {"lock-check-max-wait-time": "0.25", "lock-check-retries": "60"}
"""Waits for a lock, where the binding does not say otherwise: a quarter of a second; pyiceberg's begin with two."""

_EXPECTED_KEY, _EXPECTED_VALUE = "expected_parameter_key", "expected_parameter_value"
_METADATA, _FORMER = "metadata_location", "previous_metadata_location"
_CHANGED = "The table has been modified"
"""Words of a metastore that has other metadata than the commit expects."""

_INCOMPARABLE = "Comparisons between 'CLOB"
"""Words of Derby when it is to compare them."""


def hive_catalog(settings: CatalogSettings, answer_seconds: float) -> Catalog:
    """Return a catalog of a metastore, which has to answer each request within some seconds."""
    from hive_metastore.ThriftHiveMetastore import Client
    from hive_metastore.ttypes import CheckLockRequest, GetTableRequest, GetTablesRequest, MetaException
    from pyiceberg.catalog import LOCATION, WAREHOUSE_LOCATION
    from pyiceberg.catalog.hive import HiveCatalog, _HiveClient
    from pyiceberg.exceptions import CommitFailedException, WaitingForLockException
    from pyiceberg.typedef import EMPTY_DICT
    from thrift.protocol.TBinaryProtocol import TBinaryProtocol
    from thrift.transport.TSocket import TSocket

    class Requests(Client):  # type: ignore[misc]
        """Requests to metastores of versions 2 to 4; 4.0.1 has dropped two for others, which 2 does not have."""

        def get_table(self, dbname: str, tbl_name: str) -> Any:
            return _either(
                partial(super().get_table, dbname, tbl_name),
                lambda: self.get_table_req(GetTableRequest(dbName=dbname, tblName=tbl_name)).table,
            )

        def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> Any:
            asked = GetTablesRequest(dbName=dbname, tblNames=tbl_names)
            return _either(
                partial(super().get_table_objects_by_name, dbname, tbl_names),
                lambda: self.get_table_objects_by_name_req(asked).tables,
            )

        def lock(self, rqst: Any) -> Any:
            self._held = super().lock(rqst)
            return self._held

        def alter_table_with_environment_context(
            self, dbname: str, tbl_name: str, new_tbl: Any, environment_context: Any
        ) -> None:
            self.check_lock(CheckLockRequest(lockid=self._held.lockid))  # which fails if it has expired
            former = new_tbl.parameters[_FORMER]
            environment_context.properties |= {_EXPECTED_KEY: _METADATA, _EXPECTED_VALUE: former}
            try:
                super().alter_table_with_environment_context(dbname, tbl_name, new_tbl, environment_context)
            except MetaException as error:
                if _CHANGED in str(error.message):
                    raise CommitFailedException(f"{dbname}.{tbl_name} has changed since {former}") from error
                if _INCOMPARABLE in str(error.message):
                    raise _in_derby(settings) from error
                raise

    class Connection(_HiveClient):
        """Connection whose requests have an end."""

        def _init_thrift_transport(self) -> Any:
            transport = super()._init_thrift_transport()
            for part in vars(transport).values():
                if isinstance(part, TSocket):
                    part.setTimeout(answer_seconds * 1000)
            return transport

        def _client(self) -> Client:
            client = Requests(TBinaryProtocol(self._transport))
            if self._ugi:
                client.set_ugi(*self._ugi)
            return client

    class Metastore(HiveCatalog):
        @staticmethod
        def _create_hive_client(properties: dict[str, str]) -> _HiveClient:
            said = HiveCatalog._create_hive_client(properties)
            return Connection(said._uri, properties.get("ugi"), said._kerberos_auth, said._kerberos_service_name)

        def create_namespace(self, namespace: Any, properties: Mapping[str, str] = EMPTY_DICT) -> None:
            """Make a namespace; without a place of its own it is in the warehouse of the binding."""
            if WAREHOUSE_LOCATION in self.properties:
                warehouse, database = self.properties[WAREHOUSE_LOCATION], self.identifier_to_database(namespace)
                properties = {LOCATION: f"{warehouse.rstrip('/')}/{database}.db", **properties}
            super().create_namespace(namespace, dict(properties))

        def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
            try:
                return super().commit_table(table, requirements, updates)
            except CommitFailedException as error:
                if isinstance(error.__cause__, WaitingForLockException):
                    raise _locked(settings, ".".join(table.name())) from error
                raise

    return Metastore(settings.name, **{**_LOCK_POLLS, **settings.properties})


def _either(request: Callable[[], Any], other: Callable[[], Any]) -> Any:
    """Return the answer to a request; where the metastore does not know it, that to another one."""
    from thrift.Thrift import TApplicationException

    try:
        return request()
    except TApplicationException as error:
        if error.type != TApplicationException.UNKNOWN_METHOD:
            raise
    return other()


def _in_derby(settings: CatalogSettings) -> ConfigError:
    return ConfigError(
        f"The Hive metastore {settings.place} (system {settings.system!r}) keeps its data in Derby, in which it cannot "
        "compare the metadata that a commit expects.",
        hint="Let the metastore keep them in PostgreSQL, MySQL, MariaDB, Oracle or SQL Server.",
        system=settings.system,
    )


def _locked(settings: CatalogSettings, table: str) -> StorageUnavailable:
    """Return the error of a table whose lock somebody holds: also who has died has it, until it expires."""
    return StorageUnavailable(
        f"The table {table} of the Hive metastore {settings.place} (system {settings.system!r}) is locked, and the "
        "lock was not let go of in time.",
        hint="Try again; nothing is lost. The lock of a process that was killed ends by the metastore's "
        "metastore.txn.timeout (5 minutes), which needs its metastore.housekeeping.threads.on=true.",
        table=table,
        system=settings.system,
    )

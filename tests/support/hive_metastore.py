"""A real metastore of Hive on this machine, whose data lie in a PostgreSQL: it comes from Maven, Hadoop's jars too.

``scripts/setup-jars.sh hive`` and ``hdfs`` fetch them. It lets go of locks whose holders have died, soon.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import LockComponent, LockLevel, LockRequest, LockType
from pyiceberg.catalog.hive import _HiveClient

from airflow_samza.systems.system import Publication, StreamSpec
from demo.java_servers import START_SECONDS, NoServer, free_ports, jars, java_command, launched
from tests.support.iceberg_catalogs import publish

METASTORE = "org.apache.hadoop.hive.metastore.HiveMetaStore"
SCHEMA = "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool"

LOCK_SECONDS = 10
"""Time after which a lock is let go of whose holder says nothing."""

_LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n
"""


class HiveMetastore:
    """A metastore in a folder; ``database`` is the SQLAlchemy URL of an empty database of PostgreSQL."""

    def __init__(self, folder: Path, database: str) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        at = urlsplit(database)
        self._database = f"jdbc:postgresql://{at.hostname}:{at.port}{at.path}"
        self._user = str(at.username)
        self._home = jars("hive")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Its address."""
        return f"thrift://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, and returns when it answers."""
        self._configure()
        command = self._java(SCHEMA, "-dbType", "postgres", "-initSchema")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoServer(f"The schema of Hive's metastore could not be made:\n{(done.stdout + done.stderr)[-2000:]}")
        log = self.folder / "metastore.log"
        self._process = launched(self._java(METASTORE, "-p", str(self.port)), log)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise NoServer(f"Hive's metastore did not start; the end of {log}:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Stops it."""
        if self._process is not None:
            self._process.kill()  # nobody needs what it stores
            self._process.wait()

    def _answers(self) -> bool:
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def _java(self, program: str, *arguments: str) -> list[str]:
        classpath = [str(self.folder), f"{self._home}/lib/*", f"{self._home}/*", f"{jars('hdfs')}/*"]
        home = ["/usr/bin/env", f"METASTORE_HOME={self._home}"]  # the scripts of the schema lie below it
        return [*home, *java_command(classpath, program, *arguments)]

    def _configure(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log4j2.properties").write_text(_LOGGING)
        settings = {
            "javax.jdo.option.ConnectionURL": self._database,
            "javax.jdo.option.ConnectionDriverName": "org.postgresql.Driver",
            "javax.jdo.option.ConnectionUserName": self._user,
            "javax.jdo.option.ConnectionPassword": "",
            "metastore.warehouse.dir": f"file:{self.folder}/warehouse",
            "metastore.thrift.bind.host": "127.0.0.1",
            "metastore.event.db.notification.api.auth": "false",
            "metastore.housekeeping.threads.on": "true",
            "metastore.txn.timeout": f"{LOCK_SECONDS}s",
            "metastore.acid.housekeeper.interval": "1s",
            "metastore.acid.housekeeper.start": "0s",
        }
        properties = (
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
        )
        text = f"<configuration>{''.join(properties)}</configuration>"
        (self.folder / "metastore-site.xml").write_text(text)


def publish_but(
    options: Mapping[str, Any], stream: StreamSpec, publication: Publication, act: str, folder: Path
) -> None:
    """Publish an epoch; do something in place of, or before, the request that stores the commit."""
    store = Client.alter_table_with_environment_context

    def acting(*arguments: Any, **more: Any) -> Any:
        if act == "dies":
            os._exit(9)
        if act == "stands still" and not (folder / "go").exists():
            (folder / "stands").touch()
            while not (folder / "go").exists():
                time.sleep(0.05)
        answer = store(*arguments, **more)
        if act == "dies when it is stored":
            os._exit(9)
        return answer

    Client.alter_table_with_environment_context = acting
    publish(options, stream, publication)


def take_lock(uri: str, database: str, table: str) -> None:
    """Take the lock of a table, and say nothing any more."""
    with _HiveClient(uri) as client:
        part = LockComponent(
            level=LockLevel.TABLE, type=LockType.EXCLUSIVE, dbname=database, tablename=table, isTransactional=True
        )
        client.lock(LockRequest(component=[part], user="tests", hostname="tests"))

"""Sessions of a Spark Connect server, from a stage runner that needs no Java: ``sc://host:port/;token=…``.

Code and archives belong to a session, and so do the Python workers that have loaded them: a new session costs a second
and a half before its first task starts, the same session 0.1 s. So stages with the same settings share one; only a
stage with a ``transform`` has its own, because what a function registers by name (temporary views) would be seen by all
in it. A server that takes no code from its clients, as Sail, cannot serve (decision 122). The runner on Spark opens it
for such masters.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from airflow_samza.errors import ConfigError, SamzaError, StageFailed
from airflow_samza.launch.bindings import bindings_to_json
from airflow_samza.launch.masters import Master
from airflow_samza.launch.spark_settings import FIXED
from airflow_samza.launch.spark_versions import check_installed, check_server
from airflow_samza.spark.sealed_bindings import SEALED, seal_bindings
from airflow_samza.spark.sessions.driver_session import NO_PROPERTIES, DriverSession, grpc_status
from airflow_samza.spark.sessions.session_start import set_conf
from airflow_samza.systems.system import SystemBinding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as RemoteSession

# About seven seconds in all, where Spark would try for ten minutes: enough for a proxy that restarts. A server that
# restarted has lost the session anyway.
_RETRIES = 5
_LONGEST_PAUSE_MS = 3000


class ConnectSession(DriverSession):
    """A client of a Spark Connect server, which tells it neither of cores nor of its page.

    Every session brings zips of ``code`` and ``archives`` along. Among the code is this package, which a server does
    not have, or has in another version.
    """

    def __init__(self, master: Master, code: Sequence[str], archives: Sequence[str] = ()) -> None:
        self._master = master
        self._code = tuple(code)
        self._archives = tuple(archives)
        self._shared: dict[frozenset[tuple[str, str]], SparkSession] = {}
        self._open: list[SparkSession] = []
        self._sealed: dict[tuple[str, str], dict[str, Any]] = {}
        self._lock = threading.Lock()
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = (
            "1"  # so that pyspark.sql.functions, too, makes columns of Spark Connect
        )
        import pyspark

        check_installed()
        try:
            self._spare: SparkSession | None = self._connect()
            version = str(self._spare.version)
        except Exception as error:
            raise self._rejected(error) from error
        try:
            check_server(self._a_server, version, pyspark.__version__)
        except BaseException:
            self._spare.stop()
            raise

    @property
    def place(self) -> str:
        """``the Spark Connect server sc://host:15002``."""
        return f"the Spark Connect server {self._master.shown}"

    @property
    def _a_server(self) -> str:
        return self.place[0].upper() + self.place[1:]

    @contextmanager
    def stage_session(self, conf: Mapping[str, str], *, own: bool) -> Iterator[SparkSession]:
        """Return the session that all stages with these settings share, or one that ends with the stage."""
        if not own:
            with self._lock:
                session = self._shared.get(frozenset(conf.items()))
                if session is None:
                    session = self._shared[frozenset(conf.items())] = self._start(conf)
            yield session
            return
        session = self._start(conf)
        try:
            yield session
        finally:
            session.stop()
            with self._lock:
                self._open.remove(session)

    @property
    def passes_properties(self) -> bool:
        """A client has no way to give a job properties that its tasks see."""
        return False

    @contextmanager
    def tagged(
        self,
        spark: SparkSession,
        tag: str,
        description: str,
        *,
        pool: str = "",
        properties: Mapping[str, str] = NO_PROPERTIES,
    ) -> Iterator[None]:
        """Set a tag, which belongs to a thread and a session; the server decides how jobs share the cores."""
        spark.addTag(tag)
        try:
            yield
        finally:
            spark.removeTag(tag)

    def for_workers(self, spark: SparkSession | None, bindings: Mapping[str, SystemBinding]) -> dict[str, Any]:
        """Seal them: the function has half of what it takes to read the secrets, a file of the session the rest."""
        plain = bindings_to_json(bindings)
        if not any(described["secret"] for described in plain.values()):
            return plain
        place = cast("RemoteSession", spark).session_id, json.dumps(plain, sort_keys=True)
        with self._lock:
            sealed = self._sealed.get(place)
            if sealed is None:
                sealed, masked = seal_bindings(plain)
                with tempfile.TemporaryDirectory() as folder:  # of mode 0700, and what it holds is of no use by itself
                    path = os.path.join(folder, str(sealed[SEALED]["file"]))
                    with open(path, "wb") as file:
                        file.write(masked)
                    cast("RemoteSession", spark).addArtifacts(path, file=True)
                self._sealed[place] = sealed
        return sealed

    def cancel(self, tag: str) -> None:
        """Interrupt what runs with the tag, in whichever session it runs."""
        for session in list(self._open):
            session.interruptTag(tag)

    def answers(self) -> bool:
        """Ask the server for a setting, in a session that is open; without one there is nothing that could be lost."""
        session = next(iter(self._open), self._spare)
        if session is None:
            return True
        try:
            session.conf.get("spark.sql.session.timeZone")
        except Exception as error:
            # A server that says that it does not know the session any more has answered: what runs in it hears of that
            # by itself.
            return "UNAVAILABLE" not in f"{grpc_status(error)} {error}"
        return True

    def kill(self) -> None:
        """Do nothing: the server is not this runner's to kill."""

    def stop(self) -> None:
        """Release the sessions; the server ends what still runs in them."""
        for session in [*self._open, *([self._spare] if self._spare is not None else [])]:
            session.stop()

    def _start(self, conf: Mapping[str, str]) -> SparkSession:
        spare, self._spare = self._spare, None
        session = spare if spare is not None else self._connect()
        path = list(sys.path)
        try:
            set_conf(session, {**conf, **FIXED}, self.place)
            session.addArtifacts(*self._code, pyfile=True)
            if self._archives:
                session.addArtifacts(*self._archives, archive=True)
        except BaseException:
            session.stop()
            raise
        finally:
            sys.path[:] = path  # it puts what it ships first on the path of this process, which has it all already
        self._open.append(session)
        return session

    def _connect(self) -> SparkSession:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as RemoteSession

        session = RemoteSession.builder.remote(self._master.url).create()
        session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES, max_backoff=_LONGEST_PAUSE_MS)])
        return cast("SparkSession", session)  # the same interface, though not the same class

    def _rejected(self, error: Exception) -> SamzaError:
        """Return the error for a server of which the first question failed."""
        text = str(error)
        if "UNAUTHENTICATED" in f"{grpc_status(error)} {text}":
            return ConfigError(
                f"{self._a_server} does not accept the token.",
                hint="Correct the token in the connection.",
                key="token",
                value="…",
            )
        first = _said_first(error)
        hint = "Does another service listen at this port? A server behind TLS needs ;use_ssl=true in its URL."
        if _NOT_TRUSTED in first:
            hint = f"Name a file with the certificate of its authority in {_TRUSTED}, in the environment of the tasks."
        return StageFailed(
            f"{self._a_server} does not answer as one: {first[:300]}",
            hint=hint,
            master=self._master.shown,
        )


_DETAILS = re.compile(r'^\s*details = "(.+)"$', re.MULTILINE)
_NOT_TRUSTED = "CERTIFICATE_VERIFY_FAILED"
_TRUSTED = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"


def _said_first(error: Exception) -> str:
    """Return the first line that an error says; of one of gRPC's own, also inside of another, that is its details.

    The text of gRPC's errors begins with a class.
    """
    details, text = getattr(error, "details", None), str(error)
    quoted = _DETAILS.search(text)
    said = str(details() or "") if callable(details) else quoted[1] if quoted is not None else ""
    return next((line.strip() for line in (said or text).splitlines() if line.strip()), type(error).__name__)

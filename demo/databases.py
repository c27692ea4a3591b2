"""A PostgreSQL and a Redis on this machine: what an Airflow with many tasks at once, or with Celery, has beside it.

    with running_postgres(place / "postgres") as url, running_redis(place / "redis") as broker:
        ...

``python -m demo.databases`` prints where their programs are.

Both listen on 127.0.0.1 only, on ports that were free, and store what they store in the folder that they are given.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from demo.airflow_settings import free_port

START_SECONDS = 60.0

_DEBIAN = Path("/usr/lib/postgresql")
"""Folder of Debian's packages: the programs of a server lie in one folder per version, and not on the PATH."""

_OWNER = "postgres"
"""The user that Debian's package makes. The server does not run as root."""


class NoDatabase(RuntimeError):
    """Error for a database that cannot be started here; the message says why and what to do."""


@contextmanager
def running_postgres(place: Path, *, connections: int = 200) -> Iterator[str]:
    """Start a PostgreSQL with a new, empty database; yield its SQLAlchemy URL.

    Raises:
        NoDatabase: when the server is not installed, or does not start.
    """
    programs = _postgres_programs()
    place = place.resolve()
    place.mkdir(parents=True)
    with _data_folder(place) as (data, identity):
        made = [str(programs / "initdb"), "--pgdata", str(data), "--username", "airflow", "--auth", "trust"]
        done = subprocess.run(
            [*made, "--no-sync"], **identity, cwd=data, capture_output=True, text=True, env=_environment()
        )
        if done.returncode:
            raise NoDatabase(f"PostgreSQL's initdb ended with {done.returncode}: {done.stderr.strip()}")
        with _serving(programs, place, data, identity, connections) as url:
            yield url


@contextmanager
def _serving(programs: Path, place: Path, data: Path, identity: Mapping[str, Any], connections: int) -> Iterator[str]:
    """Start the server over a folder of data; yield its URL."""
    port = free_port()
    settings = {
        "port": port,
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "max_connections": connections,
        # What a crash of the machine would lose here nobody misses.
        "fsync": "off",
    }
    command = [str(programs / "postgres"), "-D", str(data), *(f"--{name}={value}" for name, value in settings.items())]

    def ready() -> bool:
        asked = [str(programs / "pg_isready"), "--quiet", "--host", "127.0.0.1", "--port", str(port)]
        return subprocess.run(asked, env=_environment()).returncode == 0

    # SIGINT: PostgreSQL ends its sessions and itself at once, in good order.
    with _running("PostgreSQL", command, place, ready, ending=signal.SIGINT, cwd=data, **identity):
        yield f"postgresql+psycopg2://airflow@127.0.0.1:{port}/postgres"


@contextmanager
def running_redis(place: Path) -> Iterator[str]:
    """Start a Redis; yield its URL.

    Raises:
        NoDatabase: when the server is not installed, or does not start.
    """
    program = _redis_program()
    place = place.resolve()
    place.mkdir(parents=True)
    port = free_port()

    def ready() -> bool:
        from redis import Redis, RedisError

        try:
            with Redis(host="127.0.0.1", port=port) as client:
                return bool(client.ping())
        except RedisError:
            return False

    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--dir", str(place), "--save", ""]
    with _running("Redis", command, place, ready, ending=signal.SIGTERM):
        yield f"redis://127.0.0.1:{port}/0"


def _postgres_programs() -> Path:
    """Return the folder of a server's programs: that of the PATH, or the newest that Debian has."""
    versions = [folder for folder in _DEBIAN.glob("*/bin") if (folder / "postgres").exists()]
    if versions:
        return max(versions, key=lambda folder: float(folder.parent.name))
    found = shutil.which("postgres")
    if found is None:
        raise NoDatabase("There is no PostgreSQL: install it (Debian: apt-get install postgresql).")
    return Path(found).resolve().parent


def _redis_program() -> str:
    found = shutil.which("redis-server")
    if found is None:
        raise NoDatabase("There is no redis-server on the PATH: install it (Debian: apt-get install redis-server).")
    return found


@contextmanager
def _data_folder(place: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield an empty folder for a server's data, and the user and groups that the server runs as.

    Where this process is root's, the server is another user's, who may not be able to pass the folders above ``place``:
    then its data lie in a temporary folder, which is deleted afterwards.
    """
    if os.geteuid() != 0:
        (place / "data").mkdir(mode=0o700)
        yield place / "data", {}
        return
    owner = pwd.getpwnam(_OWNER)
    with tempfile.TemporaryDirectory(prefix="airflow-samza-postgres-", ignore_cleanup_errors=True) as folder:
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        yield Path(folder), {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}


def _environment() -> Mapping[str, str]:
    """Return this environment without the settings of a client of another PostgreSQL."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PG")}


@contextmanager
def _running(
    name: str,
    command: Sequence[str],
    place: Path,
    ready: Callable[[], bool],
    *,
    ending: signal.Signals,
    cwd: Path | None = None,
    **identity: Any,
) -> Iterator[None]:
    log = place / "server.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=cwd or place,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(),
            start_new_session=True,  # Ctrl-C ends what uses it before
            **identity,
        )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:])
                raise NoDatabase(f"{name} did not start within {START_SECONDS:.0f} s; its log:\n{tail}")
            time.sleep(0.1)
        yield
    finally:
        process.send_signal(ending)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


if __name__ == "__main__":
    try:
        print(_postgres_programs(), _redis_program())
    except NoDatabase as problem:
        sys.exit(str(problem))

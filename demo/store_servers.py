"""Object stores on this machine: S3 by moto, Azure by Azurite, and the XML API of Google Cloud Storage before moto.

Each is a process of this machine, on a free port, that is stopped at the end. Azurite comes from npm, once, into a
folder for caches; moto is one of the development packages.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from demo.airflow_settings import free_port
from demo.java_servers import NoServer

BUCKET = "samza-tests"
AZURITE = "azurite@3.35.0"
START_SECONDS = 120.0


class Server:
    """A store in a folder, with a bucket."""

    scheme: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """Return the address of its interface."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find it."""
        raise NotImplementedError

    def url(self, path: str, bucket: str = BUCKET) -> str:
        """Return the URL of an object in a bucket."""
        return f"{self.scheme}://{bucket}/{path}"

    def command(self) -> list[str]:
        """Return the command that runs it."""
        raise NotImplementedError

    def make_bucket(self, name: str) -> None:
        """Make a bucket, or a container of Azure."""
        raise NotImplementedError

    def start(self) -> None:
        """Start it, and return when it has its bucket."""
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONWARNINGS": "ignore"},
                start_new_session=True,  # Ctrl-C ends what uses it before
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._listens():
            if time.monotonic() > deadline:
                raise NoServer(
                    f"{self.command()[0]} did not listen within {START_SECONDS:.0f} s; see {self.folder}/log."
                )
            time.sleep(0.02)
        self.make_bucket(BUCKET)

    def _listens(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise NoServer(f"The store ended; the end of its log:\n{(self.folder / 'log').read_text()[-2000:]}")
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
        except OSError:
            return False
        return True

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """Send a request; an answer that is no success is an error."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            if answer.status >= 300:
                raise NoServer(f"{method} {path} was answered by {answer.status}: {answer.read()!r}")
        finally:
            connection.close()

    def stop(self) -> None:
        """Stop it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)


class S3Server(Server):
    """An S3 by moto."""

    scheme = "s3"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_REGION": "us-east-1",
        }

    def command(self) -> list[str]:
        """Return the command that runs it."""
        return [sys.executable, str(Path(__file__).with_name("moto_s3.py")), str(self.port)]

    def make_bucket(self, name: str, *, versions: bool = False) -> None:
        """Make a bucket, or a container of Azure."""
        if not versions:
            self.ask("PUT", f"/{name}")
            return
        import boto3

        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id="tests",
            aws_secret_access_key="tests",
        )
        client.create_bucket(Bucket=name)
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})


class AzureServer(Server):
    """An Azure Blob Storage by Azurite, with its well-known account and key."""

    scheme = "az"
    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find it."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": f"{self.endpoint}/{self.account}",
        }

    def command(self) -> list[str]:
        """Return the command that runs it."""
        program = installed("azurite", "node_modules/.bin/azurite-blob", [_npm(), "install", "--no-audit", AZURITE])
        options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        return [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), *options]

    def make_bucket(self, name: str) -> None:
        """Make a bucket, or a container of Azure."""
        date = datetime.now(timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
        headers = {"x-ms-date": date, "x-ms-version": "2021-08-06"}
        signed = ["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())]
        signed += [f"/{self.account}/{self.account}/{name}", "restype:container"]
        digest = hmac.new(base64.b64decode(self.key), "\n".join(signed).encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        self.ask("PUT", f"/{self.account}/{name}?restype=container", headers=headers)


class GcsServer(Server):
    """A Google Cloud Storage: its XML API before moto's S3, which asks for no identity.

    fake-gcs-server 1.56 has no uploads of the XML API, which obstore speaks, other than by signed URLs.
    """

    scheme = "gs"

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which clients find it."""
        return {"STORAGE_EMULATOR_HOST": self.endpoint}

    def command(self) -> list[str]:
        """Return the command that runs it."""
        return [sys.executable, str(Path(__file__).with_name("moto_s3.py")), str(self.port), "gcs"]

    def make_bucket(self, name: str) -> None:
        """Make a bucket, or a container of Azure."""
        self.ask("PUT", f"/{name}")


def installed(name: str, program: str, command: list[str]) -> Path:
    """Return a program in a folder for caches, made by a command that runs in that folder, once on this machine."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "airflow-samza", "stores")
    folder = caches / f"{name}-{hashlib.sha256(' '.join(command).encode()).hexdigest()[:8]}"
    caches.mkdir(parents=True, exist_ok=True)
    with open(caches / f".{folder.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            made = subprocess.run(
                command,
                cwd=folder,
                env={**os.environ, "GOBIN": str(folder)},
                capture_output=True,
                text=True,
                check=False,
            )
            if made.returncode:
                raise NoServer(f"{' '.join(command)} ended with {made.returncode}:\n{made.stdout}{made.stderr}")
            (folder / "done").touch()
    return folder / program


def _npm() -> str:
    found = shutil.which("npm")
    if found is None:
        raise NoServer("Azurite needs npm, which is not on the PATH: install it (Debian, Ubuntu: apt-get install npm).")
    return found

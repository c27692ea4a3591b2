"""Object stores of the tests' own: S3 by moto, Azure by Azurite, and the XML API of Google Cloud Storage before moto.

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
from datetime import datetime, timezone
from pathlib import Path
from typing import ClassVar

from tests.support.waiting import until

BUCKET = "samza-tests"
AZURITE = "azurite@3.35.0"


def free_port() -> int:
    """A port of this machine on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Server:
    """A store in a folder, with a bucket."""

    scheme: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return the bytes that clients read."""
        raise NotImplementedError

    def url(self, path: str, bucket: str = BUCKET) -> str:
        return f"{self.scheme}://{bucket}/{path}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def make_bucket(self, name: str) -> None:
        raise NotImplementedError

    def start(self) -> None:
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env={**os.environ, "PYTHONWARNINGS": "ignore"}
            )
        until(self._listens, seconds=120)
        self.make_bucket(BUCKET)

    def _listens(self) -> bool:
        if self.process is not None and self.process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
        except OSError:
            return False
        return True

    def ask(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body or None, headers or {})
            answer = connection.getresponse()
            assert answer.status < 300, (path, answer.status, answer.read())
        finally:
            connection.close()

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)


class S3Server(Server):
    """An S3 by moto."""

    scheme = "s3"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_REGION": "us-east-1",
        }

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("moto_s3.py")), str(self.port)]

    def make_bucket(self, name: str, *, versions: bool = False) -> None:
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
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": self.account,
            "AZURE_STORAGE_ACCOUNT_KEY": self.key,
            "AZURE_STORAGE_ENDPOINT": f"{self.endpoint}/{self.account}",
        }

    def command(self) -> list[str]:
        program = installed("azurite", "node_modules/.bin/azurite-blob", [_npm(), "install", "--no-audit", AZURITE])
        options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
        return [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(self.port), *options]

    def make_bucket(self, name: str) -> None:
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
        return {"STORAGE_EMULATOR_HOST": self.endpoint}

    def command(self) -> list[str]:
        return [sys.executable, str(Path(__file__).with_name("moto_s3.py")), str(self.port), "gcs"]

    def make_bucket(self, name: str) -> None:
        self.ask("PUT", f"/{name}")


def installed(name: str, program: str, command: list[str]) -> Path:
    """A program in a folder for caches, made by a command that runs in that folder, once on this machine."""
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
            assert made.returncode == 0, made.stdout + made.stderr
            (folder / "done").touch()
    return folder / program


def _npm() -> str:
    found = shutil.which("npm")
    assert found, "Azurite needs npm (Debian, Ubuntu: apt-get install npm)"
    return found

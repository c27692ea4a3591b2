"""Identity towards HDFS: a user's name, or a delegation token, which is a secret.

Both come from a connection's options, or from where Hadoop's own clients find them: ``HADOOP_USER_NAME``, and the file
of tokens that ``hdfs fetchdt`` writes and YARN gives its containers (``HADOOP_TOKEN_FILE_LOCATION``).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_samza.errors import ConfigError
from airflow_samza.private_folder import user_name

# A NameNode takes tokens of these kinds over HTTP.
_KINDS = frozenset({b"WEBHDFS delegation", b"SWEBHDFS delegation", b"HDFS_DELEGATION_TOKEN"})


@dataclass(frozen=True)
class Access:
    """Identity of the caller; a token names the user to the NameNode."""

    user: str = ""
    token: str = field(default="", repr=False)
    verify: str | bool = True
    """Check of the server's certificate (true or false), or the file of the authorities that sign it."""

    @property
    def parameters(self) -> dict[str, str]:
        """Parameters of every request."""
        return {"delegation": self.token} if self.token else {"user.name": self.user}

    @property
    def name(self) -> str:
        """The identity as messages show it."""
        return "the delegation token's user" if self.token else f"the user {self.user!r}"


def find_access(options: Mapping[str, object] | None = None, environment: Mapping[str, str] | None = None) -> Access:
    """Return the identity by options (``user``, ``token``, ``ssl_verify``), else the environment, else the process."""
    options, environment = options or {}, os.environ if environment is None else environment
    said = str(options.get("ssl_verify", True))
    verify = {"true": True, "false": False}.get(said.lower(), said)
    token = str(options.get("token") or "")
    if not token and not options.get("user") and environment.get("HADOOP_TOKEN_FILE_LOCATION"):
        token = _token_of(Path(environment["HADOOP_TOKEN_FILE_LOCATION"]))
    user = str(options.get("user") or environment.get("HADOOP_USER_NAME") or "") or (user_name() or "")
    if not user and not token:
        raise ConfigError(
            f"The user id {os.geteuid()} has no name on this host, and HDFS asks who writes.",
            hint="Set HADOOP_USER_NAME, or the login of the connection.",
            key="HADOOP_USER_NAME",
        )
    return Access(user, token, verify)


def _token_of(file: Path) -> str:
    """Return the first token for HDFS in a file of tokens, in the form that a URL takes.

    "" when it has no such token.
    """
    try:
        data = file.read_bytes()
        return next((token for kind, token in tokens_in(data) if kind in _KINDS), "")
    except FileNotFoundError:
        raise ConfigError(
            f"HADOOP_TOKEN_FILE_LOCATION names {file}, which does not exist.",
            hint="Fetch a token (hdfs fetchdt), or unset the variable.",
            key="HADOOP_TOKEN_FILE_LOCATION",
        ) from None
    except (OSError, ValueError, IndexError) as error:
        raise ConfigError(
            f"The file of tokens {file} cannot be read: {error}.",
            hint="It has to be one that hdfs fetchdt, or YARN, wrote in the form of Hadoop's Writables.",
            key="HADOOP_TOKEN_FILE_LOCATION",
        ) from None


def tokens_in(data: bytes) -> Iterator[tuple[bytes, str]]:
    """Yield kind and URL form of the tokens in a file of tokens (Hadoop's ``Credentials``, as Writables)."""
    if data[:4] != b"HDTS" or data[4] != 0:
        raise ValueError("it does not begin as such a file")
    count, at = _vint(data, 5)
    for _ in range(count):
        _, at = _bytes(data, at)  # the service that it is kept under
        begin = at
        for _ in ("identifier", "password"):
            _, at = _bytes(data, at)
        kind, at = _bytes(data, at)
        _, at = _bytes(data, at)  # the service that it is for
        yield kind, base64.urlsafe_b64encode(data[begin:at]).rstrip(b"=").decode()


def _bytes(data: bytes, at: int) -> tuple[bytes, int]:
    length, at = _vint(data, at)
    if length < 0 or at + length > len(data):
        raise ValueError("it is cut off")
    return data[at : at + length], at + length


def _vint(data: bytes, at: int) -> tuple[int, int]:
    """Return Hadoop's variable-length number at a place, and the place after it.

    >>> _vint(bytes([100]), 0), _vint(bytes([0x8F, 200]), 0), _vint(bytes([0x8E, 1, 0]), 0)
    ((100, 1), (200, 2), (256, 3))
    """
    first = data[at] - 256 if data[at] > 127 else data[at]
    if first >= -112:
        return first, at + 1
    size = -112 - first if first >= -120 else -120 - first
    if at + 1 + size > len(data):
        raise ValueError("it is cut off")
    number = int.from_bytes(data[at + 1 : at + 1 + size], "big")
    return (number if first >= -120 else ~number), at + 1 + size

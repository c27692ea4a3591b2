"""Client of WebHDFS (decision 65): requests, tried again while that can help; rejections become our errors.

A request goes to the NameNode that answered last; one that is down or standby passes it on to the next. What carries
data goes to the DataNode that the NameNode names. Failures that may pass are tried again for ``patience`` seconds.
See decision 70.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar
from urllib.parse import quote

import httpx
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.filesystems.contents import RangeReader
from airflow_samza.systems.filesystems.filesystem import DELETED_MEANWHILE, did_not
from airflow_samza.systems.filesystems.pace import FREE
from airflow_samza.systems.filesystems.remote import RemoteStatus, all_below, temporary_key
from airflow_samza.systems.filesystems.webhdfs.access import Access
from airflow_samza.systems.filesystems.webhdfs.address import Address
from airflow_samza.systems.filesystems.webhdfs.rejections import (
    BROKEN_OFF,
    NONE_ACTIVE,
    STANDBY,
    UNREACHED,
    Rejection,
    error_of,
    rejection_of,
)

if TYPE_CHECKING:
    import pyarrow as pa

PATIENCE_SECONDS = 40.0
"""Seconds for which a passing failure is tried again: a standby NameNode takes over within ten to thirty seconds."""

_TIMEOUT = httpx.Timeout(
    60.0, connect=10.0
)  # a NameNode that collects garbage is silent for long; one that is there accepts at once

_Result = TypeVar("_Result")


def _is_said(record: logging.LogRecord) -> bool:
    """Keep our requests out of the log: their URLs may hold a token, and there are many."""
    return "/webhdfs/v1/" not in record.getMessage()


logging.getLogger("httpx").addFilter(_is_said)


class WebHdfsClient:
    """Client of one HDFS as one user. Threads may share it, and a forked process gets connections of its own.

    A file that must not be there yet is written under a temporary name and renamed: HDFS decides under its lock whether
    the target exists, and the boolean in its answer says which writer has won.
    """

    pace = FREE
    has_folders = True

    def __init__(self, address: Address, access: Access, patience: float = PATIENCE_SECONDS) -> None:
        self.address = address
        self.access = access
        self._patience = patience
        self._active = 0
        self._pid = 0
        self._http: httpx.Client | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process it connects anew.
        return shared_client, (self.address, self.access, self._patience)

    def status(self, path: str) -> RemoteStatus | None:
        """Return the status of a path; None when nothing lies there."""
        try:
            answer = self._answer("GET", path, "GETFILESTATUS", "read")
        except FileNotFoundError:
            return None
        return _status(path, answer["FileStatus"])

    def list(self, path: str) -> tuple[RemoteStatus, ...]:
        """Return the entries of a directory; a missing one is FileNotFoundError, a file NotADirectoryError."""
        found = self._answer("GET", path, "LISTSTATUS", "list")["FileStatuses"]["FileStatus"]
        if any(not each["pathSuffix"] for each in found):  # a file stands for itself
            raise NotADirectoryError(20, "Not a directory", f"/{path}")
        return tuple(_status(f"{path}/{each['pathSuffix']}".strip("/"), each) for each in found)

    def below(self, path: str, limit: int | None = None) -> tuple[RemoteStatus, ...]:
        """Return all in a directory and in those below it, whatever the limit; one that goes meanwhile is empty."""
        return all_below(self, path)

    def open(self, path: str) -> pa.NativeFile:
        """Return a file to read at any place, in ranges."""
        import pyarrow as pa

        status = self.status(path)
        if status is None:
            raise FileNotFoundError(2, "No such file or directory", self.address.url(path))
        if status.is_folder:
            raise IsADirectoryError(21, "Is a directory", f"/{path}")
        return pa.PythonFile(RangeReader(status.size, lambda offset, length: self.read(path, offset, length)), mode="r")

    def read(self, path: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return the bytes from an offset on, which the file must have."""
        more = {"offset": str(offset), **({"length": str(length)} if length is not None else {})}

        def read() -> bytes:
            place = self._once("GET", path, "OPEN", {**more, "noredirect": "true"}).json()["Location"]
            return self._at_datanode("GET", place, path).content

        return self._persist(read, "read", path)

    def put_new(self, path: str, content: bytes | BinaryIO, *, durable: bool) -> bool:
        """Write a file, unless something lies there."""
        for _ in range(3):
            if self._is_file(path):
                return False
            temporary = temporary_key(path)
            self.create(temporary, content, durable=durable, shown=path)
            if self.rename(temporary, path, shown=path):
                return True
            self.delete([temporary])
            if self._is_file(path):
                return False
            # Neither renamed nor there: somebody deleted the directory, or the file, at this moment.
        location = self.address.url(path)
        raise TopicError(
            f"The storage cannot write {location}: its directory is deleted again and again.",
            hint=DELETED_MEANWHILE,
            path=location,
        )

    def _is_file(self, path: str) -> bool:
        status = self.status(path)
        if status is not None and status.is_folder:
            location = self.address.url(path)
            raise TopicError(
                f"The storage cannot write {location}: Is a directory.", hint="Use another path.", path=location
            )
        return status is not None

    def put(self, path: str, data: bytes) -> None:
        """Write a file, in place of one that is there."""
        temporary = temporary_key(path)
        self.create(temporary, data, durable=False, shown=path)
        try:
            self.rename(temporary, path, overwrite=True, shown=path)
        except BaseException:
            with contextlib.suppress(TopicError):
                self.delete([temporary])
            raise

    def write(self, path: str, content: BinaryIO) -> None:
        """Write a file that nobody reads yet, at its place."""
        self.create(path, content, durable=True)

    def create(self, path: str, content: bytes | BinaryIO, *, durable: bool, shown: str = "") -> None:
        """Write a whole file, in place of one that is there; errors name the path ``shown``, if it is given.

        ``durable``: the DataNodes have it on their disks when this returns.
        """
        more = {"createflag": "create,overwrite,sync_block"} if durable else {"overwrite": "true"}

        def create() -> None:
            place = self._once("PUT", path, "CREATE", {**more, "noredirect": "true"}).json()["Location"]
            self._at_datanode("PUT", place, path, content)

        self._persist(create, "write", shown or path)

    def rename(self, source: str, target: str, *, overwrite: bool = False, shown: str = "") -> bool:
        """Move a file; return False where something lies at the target, or no directory above it.

        With ``overwrite`` a file at the target is replaced. After a lost answer the two paths are looked at: nobody but
        this caller may know the source's name.
        """
        more = {"destination": f"/{target}", **({"renameoptions": "OVERWRITE"} if overwrite else {})}
        unsure = False

        def rename() -> bool:
            nonlocal unsure
            try:
                response = self._once("PUT", source, "RENAME", more)
            except Rejection as error:
                unsure = unsure or error.kind == BROKEN_OFF
                raise
            return overwrite or bool(response.json()["boolean"])

        try:
            done = self._persist(rename, "write" if shown else "rename", shown or source)
        except FileNotFoundError:
            if not unsure:
                raise
            done = False
        if not done and unsure:
            return self.status(source) is None and self.status(target) is not None
        return done

    def move(self, source: str, target: str) -> None:
        """Move a file or directory; something at the target that cannot be replaced is an error."""
        self.make_dirs(target.rpartition("/")[0])
        self.rename(source, target, overwrite=True)

    def make_dirs(self, path: str) -> None:
        """Make a directory and those above it."""
        self._answer("PUT", path, "MKDIRS", "write")

    def delete(self, paths: Sequence[str], *, recursive: bool = False) -> None:
        """Delete files, or directories with all in them; nothing there is fine."""
        for path in paths:
            self._answer("DELETE", path, "DELETE", "delete", {"recursive": str(recursive).lower()})

    def _answer(
        self, method: str, path: str, operation: str, doing: str, more: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return dict(self._persist(lambda: self._once(method, path, operation, more or {}).json(), doing, path))

    def _persist(self, send: Callable[[], _Result], doing: str, path: str) -> _Result:
        """Send a request until it succeeds, is rejected for good, or patience has run out."""
        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, Rejection) and error.may_pass),
            wait=wait_random_exponential(multiplier=0.05, max=3.0),
            stop=stop_after_delay(self._patience),
            reraise=True,
        )
        location = self.address.url(path)
        try:
            return retrying(send)
        except Rejection as error:
            if not error.may_pass:
                raise error_of(error, doing, path, location, self.access) from None
            raise StorageUnavailable(did_not(doing, location, error.reason), hint=error.hint, path=location) from error

    def _once(self, method: str, path: str, operation: str, more: Mapping[str, str]) -> httpx.Response:
        """Send a request to the NameNode that answered last; on from one that cannot serve it to the next."""
        failed: Rejection | None = None
        standby: list[str] = []
        for turn in range(len(self.address.namenodes)):
            place = (self._active + turn) % len(self.address.namenodes)
            namenode = self.address.namenodes[place]
            query = {"op": operation, **self.access.parameters, **more}
            try:
                response = self._send(method, f"{namenode}/webhdfs/v1/{quote(path)}", query, f"the NameNode {namenode}")
            except Rejection as error:
                if error.kind == STANDBY:
                    standby.append(namenode)
                elif error.may_pass and error.kind != BROKEN_OFF:
                    failed = error
                else:
                    raise
            else:
                self._active = place
                return response
        raise failed or _none_active(standby)

    def _at_datanode(
        self, method: str, place: str, path: str, content: bytes | BinaryIO | None = None
    ) -> httpx.Response:
        """Send a request to the DataNode that a NameNode has named, by the very URL that it gave."""
        node = f"the DataNode {httpx.URL(place).netloc.decode()}"
        try:
            return self._send(method, place, None, node, content)
        except Rejection as error:
            if error.kind != STANDBY:
                raise
            # A NameNode that is standby names DataNodes all the same; only what those then ask of it is rejected.
            standby = self.address.namenodes[self._active]
            self._active = (self._active + 1) % len(self.address.namenodes)
            raise _none_active([standby]) from None

    def _send(
        self, method: str, url: str, query: Mapping[str, str] | None, who: str, content: bytes | BinaryIO | None = None
    ) -> httpx.Response:
        headers = {} if method != "PUT" else {"Content-Type": "application/octet-stream"}
        if isinstance(content, bytes | None):
            body: bytes | Iterator[bytes] | None = content
        else:
            headers["Content-Length"] = str(content.seek(0, os.SEEK_END))
            content.seek(0)
            body = iter(functools.partial(content.read, _BLOCK), b"")
        try:
            response = self._connected().request(method, url, params=query, content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Rejection(UNREACHED, f"{who} does not answer ({_reason(error)})") from error
        except httpx.TransportError as error:
            raise Rejection(BROKEN_OFF, f"{who} broke the connection off ({_reason(error)})") from error
        if response.is_success:
            return response
        rejection = rejection_of(response.status_code, response.text)
        if rejection.may_pass:
            rejection.reason = f"{who} says: {rejection.reason}"
        raise rejection

    def _connected(self) -> httpx.Client:
        if (
            self._http is None or self._pid != os.getpid()
        ):  # a connection must not be shared with the process that forked this one
            secure = self.address.namenodes[0].startswith(
                "https:"
            )  # reading the certificates of this machine takes 0.1 s
            self._http = httpx.Client(
                timeout=_TIMEOUT, verify=self.access.verify if secure else False, follow_redirects=False
            )
            self._pid = os.getpid()
            weakref.finalize(self, self._http.close).atexit = False
        return self._http


_BLOCK = 1 << 20


def _none_active(standby: list[str]) -> Rejection:
    return Rejection(NONE_ACTIVE, f"standby is {' and '.join(standby)}, and no other NameNode is active")


def _status(path: str, entry: Mapping[str, Any]) -> RemoteStatus:
    modified_ns = int(entry["modificationTime"]) * 1_000_000
    return RemoteStatus(path, int(entry["length"]), modified_ns, is_folder=entry["type"] == "DIRECTORY")


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


@functools.lru_cache(maxsize=32)
def shared_client(address: Address, access: Access, patience: float = PATIENCE_SECONDS) -> WebHdfsClient:
    """Return the one client of an HDFS in this process, whose connections stay open."""
    return WebHdfsClient(address, access, patience)

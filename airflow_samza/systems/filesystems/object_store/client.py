"""Client of a bucket: requests, counted, and tried again while that can help; rejections become our errors.

Every try is a single request of obstore (decision 80): so a create knows whether one before it may have been done.
"""

from __future__ import annotations

import functools
import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

import obstore
from obstore.exceptions import AlreadyExistsError, BaseError
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from airflow_samza.errors import StorageUnavailable
from airflow_samza.systems.filesystems.contents import RangeReader, WrittenAgain
from airflow_samza.systems.filesystems.filesystem import DELETED_MEANWHILE
from airflow_samza.systems.filesystems.object_store import requests
from airflow_samza.systems.filesystems.object_store.access import Access
from airflow_samza.systems.filesystems.object_store.address import Address
from airflow_samza.systems.filesystems.object_store.connections import connect, reject_fork
from airflow_samza.systems.filesystems.object_store.rejections import Rejection, error_of, rejection_of
from airflow_samza.systems.filesystems.pace import CHARGED
from airflow_samza.systems.filesystems.remote import RemoteStatus, temporary_key

if TYPE_CHECKING:
    import pyarrow as pa
    from obstore import ObjectMeta

PATIENCE_SECONDS = 40.0
"""Time for which what may pass is tried again."""
CREDENTIALS_PATIENCE_SECONDS = 5.0
"""The same for the service that gives an instance its credentials; where there is none, the caller should know soon."""
TIMEOUT_SECONDS = 60.0
"""Time that one request may take; the largest carries 32 MiB."""

READ_WHOLE = 1 << 20
"""A file that is not longer comes in one request; of a longer one its end does, where formats keep their footer."""

PART_BYTES = 16 << 20
ONE_REQUEST = 2 * PART_BYTES
"""A file that is not longer goes in one request."""

_PAGE, _S3_DELETES, _AZURE_DELETES = 1000, 1000, 256
_GCS_DELETES = 100  # single requests, several at once
_CONFLICTS = 20
_LONGEST_LINK_SECONDS = 7 * 24 * 3600.0
_WRITER = "writer"
"""Name of the metadata that says which call has created an object."""

_Result = TypeVar("_Result")


class Content(NamedTuple):
    """Bytes of an object from an offset on, and the size and tag of the whole object."""

    data: bytes
    begin: int
    size: int
    tag: str | None = None


class ObjectClient:
    """Client of one bucket with one identity. Threads may share it; a forked process may not.

    A file that must not exist yet is one conditional request: the store decides which writer is the first.
    """

    pace = CHARGED
    has_folders = False

    def __init__(
        self,
        address: Address,
        access: Access,
        patience: float = PATIENCE_SECONDS,
        timeout: float = TIMEOUT_SECONDS,
    ) -> None:
        self.address = address
        self.access = access
        self._patience = patience
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connections: dict[bool, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        # In another process it connects anew.
        return shared_client, (self.address, self.access, self._patience, self._timeout)

    def put_new(self, key: str, content: bytes | BinaryIO, *, durable: bool = True) -> bool:
        """Write an object that does not exist yet; False when one exists.

        S3 takes no condition for parts through this client. A large file is therefore uploaded under a temporary name,
        which nobody else knows, and copied within the store to its own name on the condition that nothing is there.
        """
        whole = _in_one_request(content)
        if isinstance(whole, bytes):
            return self.create(key, whole)
        temporary = temporary_key(key)
        self.upload(temporary, whole)
        try:
            self.copy(temporary, key, overwrite=False)
        except FileExistsError:
            return self._same(temporary, key)
        finally:
            self.delete([temporary])
        return True

    def _same(self, one: str, other: str) -> bool:
        """Return whether two objects hold the same bytes: the other is then the copy whose answer was lost."""
        first, second = self.status(one), self.status(other)
        if first is None or second is None or first.size != second.size:
            return False
        return all(
            self.read_range(one, offset, length) == self.read_range(other, offset, length)
            for offset in range(0, first.size, PART_BYTES)
            for length in (min(PART_BYTES, first.size - offset),)
        )

    def create(self, key: str, data: bytes) -> bool:
        """Write an object that does not exist yet; False when one exists.

        The caller knows its own: an answer that was lost on the way leaves an object with the mark of this call.
        """
        writer = uuid.uuid4().hex

        def send() -> bool:
            try:
                obstore.put(self._store(), key, data, attributes={_WRITER: writer}, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
            return True

        for _ in range(_CONFLICTS):
            if self._persist("PUT", send, "write", key):
                return True
            former = self._writer_of(key)
            if former is not None:
                return former == writer
            # The store has reported a conflict, and nothing is there: another create failed, or somebody has deleted.
        raise StorageUnavailable(
            f"The storage did not write {self.address.url(key)}: it is created and deleted again and again.",
            hint=DELETED_MEANWHILE,
            path=self.address.url(key),
        )

    def _writer_of(self, key: str) -> str | None:
        """Return the mark of the call that has created an object, "" without one; None when there is no object."""
        try:
            answer = self._persist(
                "HEAD", lambda: obstore.get(self._store(), key, options={"head": True}).attributes, "read", key
            )
        except FileNotFoundError:
            return None
        return str(answer.get(_WRITER, ""))

    def put(self, key: str, data: bytes) -> str:
        """Write an object, in place of one that exists; return its version, "" where the bucket of S3 keeps none."""
        answer = self._persist("PUT", lambda: obstore.put(self._store(), key, data, use_multipart=False), "write", key)
        version = answer["version"] or ""
        return version if self.address.store == "s3" and version != "null" else ""

    def write(self, key: str, content: BinaryIO) -> None:
        """Write an object, in place of one that exists; it appears as a whole."""
        whole = _in_one_request(content)
        if isinstance(whole, bytes):
            self.put(key, whole)
        else:
            self.upload(key, whole)

    def upload(self, key: str, content: BinaryIO) -> None:
        """Write a large object in parts, in place of one that exists; it appears as a whole when the last is there."""
        requests.count("PUT", -(-content.seek(0, os.SEEK_END) // PART_BYTES) + 1)

        def send() -> None:
            content.seek(0)
            obstore.put(
                self._store(retries=True),
                key,
                content,
                use_multipart=True,
                chunk_size=PART_BYTES,
                max_concurrency=4,
            )

        self._persist("PUT", send, "write", key)

    def read(self, key: str) -> bytes:
        """Return the bytes of an object."""
        return bytes(self._persist("GET", lambda: obstore.get(self._store(), key).bytes(), "read", key))

    def open(self, key: str, tag: str | None = None) -> pa.NativeFile:
        """Return an object to read at any place: a small one comes whole, of a large one the end first.

        All bytes are of one version, which is that of the ``tag``, if one is given; else there is
        :class:`~airflow_samza.systems.filesystems.contents.WrittenAgain`.
        """
        import pyarrow as pa

        end = self.read_end(key, READ_WHOLE, tag)
        if len(end.data) == end.size:
            return pa.BufferReader(end.data)
        reader = RangeReader(
            end.size,
            lambda offset, length: self.read_range(key, offset, length, end.tag),
            kept=(end.begin, end.data),
        )
        return pa.PythonFile(reader, mode="r")

    def read_range(self, key: str, offset: int, length: int, tag: str | None = None) -> bytes:
        """Return bytes of an object, which it must have.

        :class:`~airflow_samza.systems.filesystems.contents.WrittenAgain` when it has another tag than this.
        """

        def send() -> Content:
            answer = obstore.get(self._store(), key, options={"range": (offset, offset + length)})
            return Content(bytes(answer.bytes()), offset, answer.meta["size"], answer.meta["e_tag"])

        return self._of_tag(self._persist("GET", send, "read", key), key, tag).data

    def _of_tag(self, content: Content, key: str, tag: str | None) -> Content:
        """Return a content if it is of the object with this tag, or one of both has none.

        The answers are compared, instead of asking with If-Match, which not every store heeds.
        """
        if tag is not None and content.tag is not None and content.tag != tag:
            raise WrittenAgain(f"{self.address.url(key)} was written again while it was read")
        return content

    def read_end(self, key: str, length: int, tag: str | None = None) -> Content:
        """Return the end of an object, or its beginning where the store knows no requests from the end (Azure).

        An object that is not longer than ``length`` comes whole. With a ``tag`` as :meth:`read_range`.
        """
        range_: Any = (0, length) if self.address.store == "azure" else {"suffix": length}

        def send() -> Content:
            try:
                answer = obstore.get(self._store(), key, options={"range": range_})
            except (BaseError, OSError) as error:
                if not rejection_of(error).no_range:
                    raise
                requests.count("GET")  # it is empty, or the server takes no ranges
                answer = obstore.get(self._store(), key)
            return Content(bytes(answer.bytes()), answer.range[0], answer.meta["size"], answer.meta["e_tag"])

        return self._of_tag(self._persist("GET", send, "read", key), key, tag)

    def status(self, key: str) -> RemoteStatus | None:
        """Return the status of an object; None when there is none."""
        try:
            return _status(self._persist("HEAD", lambda: obstore.head(self._store(), key), "read", key))
        except FileNotFoundError:
            return None

    def list(self, directory: str) -> tuple[RemoteStatus, ...]:
        """Return the folders in a folder, and the objects in it."""

        def send() -> Any:
            return obstore.list_with_delimiter(self._store(), directory or None)

        answer = self._persist("LIST", send, "list", directory)
        found = [RemoteStatus(folder, 0, is_folder=True) for folder in answer["common_prefixes"]]
        found += map(_status, answer["objects"])
        requests.count("LIST", len(found) // _PAGE)
        return tuple(each for each in found if each.key != directory)

    def below(self, directory: str, limit: int | None = None) -> tuple[RemoteStatus, ...]:
        """Return the objects in a folder and in those below it; with a limit only the first ones."""
        return self._taken(directory, lambda found: islice(found, limit), chunk_size=limit or _PAGE)

    def in_order(self, directory: str, behind: str, more: Callable[[RemoteStatus], bool]) -> tuple[RemoteStatus, ...]:
        """Return the objects below a folder whose names come behind a text, in order, until one that is no more.

        Azure lists all others, too.
        """
        behind = f"{directory}/{behind}"
        return self._taken(directory, lambda found: takewhile(more, found), offset=behind, chunk_size=_PAGE)

    def _taken(
        self, directory: str, take: Callable[[Iterator[RemoteStatus]], Iterable[RemoteStatus]], **options: Any
    ) -> tuple[RemoteStatus, ...]:
        """Return those objects below a folder that are taken of a list, which is read only so far."""

        def send() -> tuple[RemoteStatus, ...]:
            chunks = obstore.list(self._store(), directory or None, **options)
            return tuple(take(map(_status, chain.from_iterable(chunks))))

        statuses = self._persist("LIST", send, "list", directory)
        requests.count("LIST", len(statuses) // _PAGE)
        return statuses

    def delete(self, keys: Sequence[str], *, recursive: bool = False) -> None:
        """Delete objects, or those below folders; one that does not exist is fine."""
        if recursive:
            keys = [each.key for key in keys for each in self.below(key) or [RemoteStatus(key, 0)]]
        batch = {"s3": _S3_DELETES, "azure": _AZURE_DELETES, "gcs": _GCS_DELETES}[self.address.store]
        for first in range(0, len(keys), batch):
            some = list(keys[first : first + batch])

            def send(some: list[str] = some) -> None:
                if self.address.store == "gcs":
                    requests.count("DELETE", len(some) - 1)
                try:
                    obstore.delete(self._store(), some if len(some) > 1 else some[0])
                except FileNotFoundError as error:
                    if len(some) > 1 or not rejection_of(error).missing:
                        raise

            try:
                self._persist("DELETE", send, "delete", some[0])
            except FileNotFoundError:  # one of them; what became of the others is not known
                for key in some:
                    self.delete([key])

    def copy(self, source: str, target: str, *, overwrite: bool = True) -> None:
        """Copy an object within the bucket.

        Without ``overwrite`` one that exists at the target raises FileExistsError; after a lost answer that may be the
        copy itself.
        """

        def send() -> bool:
            try:
                obstore.copy(self._store(), source, target, overwrite=overwrite)
            except AlreadyExistsError:
                return False
            return True

        if not self._persist("COPY", send, "copy", source):
            raise FileExistsError(17, "File exists", self.address.url(target))

    def move(self, source: str, target: str) -> None:
        """Copy an object, or each one below a folder, and delete the source; readers may see both, or half a folder."""
        try:
            self.copy(source, target)
            moved = [source]
        except FileNotFoundError:
            moved = [each.key for each in self.below(source)]
            if not moved:
                raise
            for key in moved:
                self.copy(key, f"{target}{key[len(source) :]}")
        self.delete(moved)

    def make_dirs(self, folder: str) -> None:
        """Do nothing: a folder is there with the first object in it."""

    def link(self, key: str, seconds: float) -> str:
        """Return a signed URL with which anybody reads one object, for this long."""
        until = timedelta(seconds=min(seconds, _LONGEST_LINK_SECONDS))
        try:
            return str(obstore.sign(self._store(), "GET", key, until))
        except (BaseError, OSError) as error:  # of the credentials: the store itself is not asked
            raise error_of(rejection_of(error), "sign a link to", key, self.address, self.access) from error

    def _store(self, *, retries: bool = False) -> Any:
        reject_fork(self.address)
        with self._lock:
            if retries not in self._connections:
                self._connections[retries] = connect(self.address, self.access, self._timeout, retries=retries)
            return self._connections[retries]

    def _persist(self, kind: str, send: Callable[[], _Result], doing: str, key: str) -> _Result:
        """Send a request until it succeeds, is rejected for good, or patience has run out."""

        def counted() -> _Result:
            requests.count(kind)
            try:
                return send()
            except (BaseError, OSError) as error:
                rejection = rejection_of(error)
                if rejection.throttled:
                    requests.count(requests.THROTTLED)
                raise rejection from error

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, Rejection) and error.may_pass),
            wait=wait_random_exponential(multiplier=0.1, max=5.0),
            stop=self._stop,
            before_sleep=lambda _: requests.count(requests.RETRIED),
            reraise=True,
        )
        try:
            return retrying(counted)
        except Rejection as rejection:
            raise error_of(rejection, doing, key, self.address, self.access) from rejection.__cause__

    def _stop(self, state: RetryCallState) -> bool:
        error = state.outcome.exception() if state.outcome is not None else None
        patience = self._patience
        if isinstance(error, Rejection) and error.no_credentials:
            patience = min(patience, CREDENTIALS_PATIENCE_SECONDS)
        return state.attempt_number > 1 and stop_after_delay(patience)(state)  # a silent server takes all of it at once


def _status(meta: ObjectMeta) -> RemoteStatus:
    return RemoteStatus(
        meta["path"], meta["size"], int(meta["last_modified"].timestamp() * 1_000_000_000), meta["e_tag"]
    )


def _in_one_request(content: bytes | BinaryIO) -> bytes | BinaryIO:
    """Return the bytes of a file that goes in one request, another one as it is."""
    if isinstance(content, bytes) or content.seek(0, os.SEEK_END) > ONE_REQUEST:
        return content
    content.seek(0)
    return content.read()


@functools.lru_cache(maxsize=32)
def shared_client(
    address: Address, access: Access, patience: float = PATIENCE_SECONDS, timeout: float = TIMEOUT_SECONDS
) -> ObjectClient:
    """Return the one client of a bucket and an identity in this process, whose connections stay open."""
    return ObjectClient(address, access, patience, timeout)

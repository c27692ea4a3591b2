"""Answers of HDFS that reject a request, as our errors: each names the path, the reason and the remedy."""

from __future__ import annotations

import json

from airflow_samza.errors import StorageFull, TopicError
from airflow_samza.systems.filesystems.filesystem import NOTHING_LOST, RETRY_IS_SAFE, cannot
from airflow_samza.systems.filesystems.webhdfs.access import Access

STANDBY = "StandbyException"
"""The kind of what another NameNode may do."""

UNREACHED, BROKEN_OFF, NONE_ACTIVE = "Unreached", "BrokenOff", "NoneActive"
"""Kinds where there is no answer: the request was not sent, it may have been done, or no NameNode does it."""

_DOWN = f"Is HDFS running, and is this the HTTP address of its NameNode? {NOTHING_LOST} when it is back."
_MAY_PASS = {
    UNREACHED: _DOWN,
    BROKEN_OFF: _DOWN,
    NONE_ACTIVE: "Wait for the failover, or name all NameNodes: webhdfs://nn1:9870,nn2:9870/path.",
    "SafeModeException": "HDFS leaves safe mode by itself when enough DataNodes have reported; hdfs dfsadmin "
    "-safemode get shows it.",
    "RetriableException": "The NameNode is starting; try again.",
    "NotReplicatedYetException": "The DataNodes are behind; try again.",
    "LeaseExpiredException": "Another attempt wrote the same file; try again.",
    "NoDataNode": "Are DataNodes running, and have they room? hdfs dfsadmin -report shows it.",
    "Unavailable": f"{NOTHING_LOST}.",
}
"""Kinds of rejections that may pass, and the remedy when they do not."""

_FULL = frozenset(
    {
        "QuotaExceededException",
        "DSQuotaExceededException",
        "NSQuotaExceededException",
        "QuotaByStorageTypeExceededException",
    }
)
_NOT_LET_IN = frozenset({"SecurityException", "AuthenticationException", "InvalidToken", "Unauthorized"})


class Rejection(Exception):
    """An answer other than yes, or none.

    The server's kind of exception (``FileNotFoundException``) and the first line of its message.
    """

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(kind, reason)
        self.kind, self.reason = kind, reason

    @property
    def may_pass(self) -> bool:
        """Return whether asking again can help."""
        return self.kind in _MAY_PASS

    @property
    def hint(self) -> str:
        """Remedy for one that may pass."""
        return _MAY_PASS[self.kind]


def rejection_of(code: int, text: str) -> Rejection:
    """Return the rejection that an answer with an HTTP status holds."""
    try:
        remote = json.loads(text)["RemoteException"]
        kind, message = str(remote["exception"]), str(remote.get("message") or "")
    except (ValueError, KeyError, TypeError):
        kind = "Unauthorized" if code == 401 else "Unavailable" if code >= 500 else "Unknown"
        return Rejection(kind, f"HTTP status {code}")
    reason = message.strip().partition("\n")[0].rstrip(".") or kind
    if "could only be written to 0 of the" in reason or reason.startswith("Failed to find datanode"):
        kind = "NoDataNode"
    return Rejection(kind, reason)


def error_of(rejection: Rejection, doing: str, path: str, location: str, access: Access) -> Exception:
    """Return the error for a rejection of what was to be done to a path."""
    below_a_file = doing == "list" and rejection.reason.endswith("(is not a directory)")
    if rejection.kind == "FileNotFoundException" or below_a_file:
        return FileNotFoundError(2, "No such file or directory", location)
    if rejection.kind == "FileAlreadyExistsException":
        return FileExistsError(17, "File exists", location)
    if rejection.kind in _FULL:
        return StorageFull(
            f"There is no room left to {doing} {location}: {rejection.reason}.",
            hint="Free space under the root (airflow-samza gc), or have the directory's quota raised; then try again.",
            path=location,
        )
    hint = f"Check the path and HDFS's own logs; {RETRY_IS_SAFE}."
    if rejection.kind == "AccessControlException":
        hint = (
            f"This was asked by {access.name}: set HADOOP_USER_NAME, or the connection's login, or have the path's "
            "rights changed."
        )
    elif rejection.kind in _NOT_LET_IN:
        hint = (
            "Give a delegation token (HADOOP_TOKEN_FILE_LOCATION, or the connection's password), or a fresh one if "
            "it has expired."
        )
    return TopicError(cannot(doing, location, rejection.reason), hint=hint, path=location, kind=rejection.kind)

"""Answers of object stores that reject a request, as our errors: each names the object, the reason and the remedy."""

from __future__ import annotations

import re

from airflow_samza.errors import StorageUnavailable, TopicError
from airflow_samza.systems.filesystems.filesystem import NOTHING_LOST, cannot, did_not
from airflow_samza.systems.filesystems.object_store.access import Access
from airflow_samza.systems.filesystems.object_store.address import Address

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]+)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]+)</Message>|\"message\": *\"([^\"]+)\"")
_DETAIL = re.compile(r"<AuthenticationErrorDetail>([^<]+)")
_REQUEST = re.compile(r"Error performing \w+ \w+://([^/\s]+)")
_UNDELETED = re.compile(r"request failed for key .*: (.+?) \(code: (\w+)\)")
_HTTP = re.compile(r"kind: (Timeout|Connect|Request|Interrupted|Decode|Unknown)\b")

_NO_RANGE, _IGNORED_RANGE = "NotPartial", "non-partial response when range requested"

_METADATA_HOSTS = ("169.254.169.254", "169.254.170.2", "metadata.google.internal", "metadata")
"""Hosts that give an instance, container or pod its credentials."""

_BROKEN = {
    "Timeout": "no answer came in time",
    "Connect": "no connection was accepted",
    "Request": "the connection was broken off",
    "Interrupted": "the connection was broken off",
    "Decode": "the answer was broken off",
    "Unknown": "the connection was broken off",
}
"""Kinds of errors of the HTTP client, and what each means."""

_THROTTLED = frozenset(
    {"SlowDown", "ServerBusy", "Throttling", "ThrottlingException", "TooManyRequests", "RequestLimitExceeded"}
)
_MISSING_BUCKET = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})
_EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidAuthenticationInfo"})
_AZURE_EXPIRED = "Signature not valid in the specified time frame"
_AZURE_SKEWED = "Request date header too old"
_SKEWED = frozenset({"RequestTimeTooSkewed", "RequestExpired"})
_UNKNOWN_IDENTITY = frozenset({"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "AuthenticationFailed"})
_MAY_PASS = frozenset(
    {
        "RequestTimeout",
        "ConditionalRequestConflict",
        "OperationAborted",
        "InternalError",
        "ServiceUnavailable",
        *_BROKEN,
    }
)


class Rejection(Exception):
    """An answer other than yes: the HTTP status (0: there was no answer), the store's code, and its message."""

    def __init__(self, status: int, code: str, reason: str) -> None:
        super().__init__(status, code, reason)
        self.status, self.code, self.reason = status, code, reason

    @property
    def throttled(self) -> bool:
        """Return whether the store asks for fewer requests."""
        return self.status == 429 or self.code in _THROTTLED

    @property
    def may_pass(self) -> bool:
        """Return whether asking again can help."""
        return (
            self.status in (408, 429, 500, 502, 503, 504)
            or self.throttled
            or self.code in _MAY_PASS
            or self.no_credentials
        )

    @property
    def missing(self) -> bool:
        """Return whether there is no such object."""
        return self.status == 404 and self.code not in _MISSING_BUCKET

    @property
    def no_range(self) -> bool:
        """Return whether a range was asked for that the object does not have, or the store does not give."""
        return self.status == 416 or self.code == _NO_RANGE

    @property
    def no_credentials(self) -> bool:
        """Return whether the client found no credentials."""
        return self.code == "NoCredentials"


def rejection_of(error: BaseException) -> Rejection:
    """Return the rejection in an error of obstore, whose text holds the store's answer."""
    text = str(error)
    brief = text.partition("\n\nDebug source:")[0]
    host = _REQUEST.search(brief)
    status = _STATUS.search(brief)
    if host and host[1].partition(":")[0] in _METADATA_HOSTS:
        return Rejection(0, "NoCredentials", "no credentials were found")
    if status is None:
        if isinstance(error, FileNotFoundError):
            return Rejection(404, "", "Not found")
        undeleted = _UNDELETED.search(brief)
        if undeleted is not None:
            return Rejection(403 if undeleted[2] == "AccessDenied" else 0, undeleted[2], undeleted[1].rstrip("."))
        broken = _HTTP.search(text)
        server = f" by {host[1]}" if host else ""
        if broken is not None:
            return Rejection(0, broken[1], _BROKEN[broken[1]] + server)
        last = brief.strip().partition("\n")[0].rpartition(": ")[2].rstrip(".")  # without the addresses before it
        return Rejection(0, _NO_RANGE if _IGNORED_RANGE in brief else type(error).__name__, last)
    code = _CODE.search(brief)
    said = _DETAIL.search(brief) or _MESSAGE.search(brief)
    reason = said[said.lastindex or 0].strip().partition("\n")[0].rstrip(".") if said else ""
    return Rejection(int(status[1]), code[1] if code else "", reason or f"HTTP status {status[1]}")


def error_of(rejection: Rejection, doing: str, key: str, address: Address, access: Access) -> Exception:
    """Return the error for a rejection of what was to be done to an object."""
    location = address.url(key)
    if rejection.missing:
        return FileNotFoundError(2, "No such file or directory", location)
    shown = rejection.reason if not rejection.code else f"{rejection.reason} ({rejection.code})"
    facts: dict[str, object] = {
        "path": location,
        "kind": rejection.code or f"HTTP status {rejection.status}",
        "status": rejection.status,
    }
    if rejection.may_pass and not rejection.no_credentials:
        hint = (
            "The store asks for fewer requests at a time: run fewer tasks at once, or try again later."
            if rejection.throttled
            else f"Is the store reachable from this host, and is its endpoint right? {NOTHING_LOST}."
        )
        return StorageUnavailable(did_not(doing, location, shown), hint=hint, **facts)
    if rejection.code in _MISSING_BUCKET:
        return TopicError(
            cannot(doing, location, f"there is no {address.name} ({rejection.code})"),
            hint="Create it, or correct the root; a run never creates it.",
            **facts,
        )
    hint = f"Look at the store's own logs; this was asked with {access.name}."
    if rejection.no_credentials:
        hint = "Set them in the environment, give the instance or pod a role, or name an Airflow connection."
    elif rejection.code in _SKEWED or rejection.reason.startswith(_AZURE_SKEWED):
        hint = "The clock of this host differs too much from the store's: set it by NTP, and try again."
    elif rejection.code in _EXPIRED or rejection.reason.startswith(_AZURE_EXPIRED):
        hint = f"Give fresh credentials in place of {access.name}; a role renews them by itself."
    elif rejection.code in _UNKNOWN_IDENTITY or rejection.status == 401:
        hint = f"The store does not accept {access.name}: correct them; is this the store that they are for?"
    elif rejection.status == 403:
        facts["denied"] = True
        hint = f"Give {access.name} the right to create, read, list and delete objects there."
    elif rejection.status == 501:
        hint = "The store lacks what a root needs: a PUT with If-None-Match, ranges, and lists by a delimiter."
    return TopicError(cannot(doing, location, shown), hint=hint, **facts)

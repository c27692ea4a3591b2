"""A proxy before an object store that answers 503, is silent, loses answers, or changes them, as a test asks."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit


class Asked(NamedTuple):
    """A request as the proxy sees it; ``number`` counts from 1, ``token`` is that of a session of S3."""

    number: int
    method: str
    path: str
    conditional: bool
    token: str = ""


REJECTIONS = {
    "slow": (503, "SlowDown", "Please reduce your request rate."),
    "busy": (429, "TooManyRequests", "Too many requests"),
    "error": (500, "InternalError", "We encountered an internal error. Please try again."),
    "skewed": (
        403,
        "RequestTimeTooSkewed",
        "The difference between the request time and the current time is too large.",
    ),
    "denied": (403, "AccessDenied", "Access Denied"),
    "expired": (400, "ExpiredToken", "The provided token has expired."),
    "unknown": (403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records."),
    "unlike": (403, "SignatureDoesNotMatch", "The request signature we calculated does not match yours."),
    "conflict": (409, "ConditionalRequestConflict", "A conflicting operation occurred during the upload."),
    "bucketless": (404, "NoSuchBucket", "The specified bucket does not exist"),
    "lacking": (501, "NotImplemented", "A header you provided implies functionality that is not implemented."),
}
"""Answers that the proxy gives in place of the store: HTTP status, the store's code, and its message."""

FAULTS = (*REJECTIONS, "lost", "error after", "broken", "silent", "unconditional", "torn", "undeleted")
"""Beside those: the answer is lost after the store did the work, or becomes a 500; the connection is broken before it
did anything; nothing answers (until :meth:`FaultyStore.close`); the condition is left out; the body ends early;
a bulk deletion deletes nothing."""


_CONDITIONS = ("if-none-match", "x-goog-if-generation-match")


class FaultyStore:
    """The proxy. ``fault`` is asked for every request: one of :data:`FAULTS`, or None for an honest answer."""

    def __init__(self, upstream: str, fault: Callable[[Asked], str | None] = lambda asked: None) -> None:
        self.fault = fault
        self.asked: list[Asked] = []
        self._upstream = urlsplit(upstream).netloc
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FaultyStore:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _note(self, method: str, path: str, conditional: bool, token: str) -> Asked:
        with self._lock:
            asked = Asked(len(self.asked) + 1, method, path, conditional, token)
            self.asked.append(asked)
        return asked

    def _handler(proxy) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, format: str, *args: object) -> None: ...

            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):  # the client has gone
                    super().handle()

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                conditional = any(name in self.headers for name in _CONDITIONS)
                asked = proxy._note(self.command, self.path, conditional, self.headers.get("x-amz-security-token", ""))
                fault = proxy.fault(asked)
                if fault == "undeleted":
                    self._reply(200, {"content-type": "application/xml"}, _undeleted(body))
                elif fault in REJECTIONS:
                    status, code, message = REJECTIONS[fault]
                    text = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
                    self._reply(status, {"content-type": "application/xml"}, text.encode())
                elif fault == "broken":
                    self._break_off()
                elif fault == "silent":
                    proxy._end.wait()
                    self.close_connection = True
                else:
                    self._pass_on(body, fault)

            def _pass_on(self, body: bytes, fault: str | None) -> None:
                left_out = {"host", "connection", *(_CONDITIONS if fault == "unconditional" else ())}
                headers = {name: value for name, value in self.headers.items() if name.lower() not in left_out}
                with contextlib.closing(http.client.HTTPConnection(proxy._upstream, timeout=60)) as upstream:
                    upstream.request(self.command, self.path, body, headers)
                    answer = upstream.getresponse()
                    content = answer.read()
                if fault == "lost":
                    self._break_off()
                elif fault == "error after":
                    self._reply(500, {}, b"<Error><Code>InternalError</Code></Error>")
                else:
                    sent = {name.lower(): value for name, value in answer.getheaders()}
                    self._reply(answer.status, sent, content, torn=fault == "torn")

            def _reply(self, status: int, headers: dict[str, str], content: bytes, *, torn: bool = False) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    if name not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                length = headers.get("content-length", "0") if self.command == "HEAD" else len(content)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content[: len(content) // 2] if torn else content)
                if torn:
                    self._break_off()

            def _break_off(self) -> None:
                self.close_connection = True
                self.wfile.flush()
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

        return Handler


def _undeleted(body: bytes) -> bytes:
    """The answer to a bulk deletion that deletes nothing."""
    error = "<Error><Key>{}</Key><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
    errors = "".join(error.format(key) for key in re.findall("<Key>(.*?)</Key>", body.decode()))
    return f"<DeleteResult>{errors}</DeleteResult>".encode()


def at(fault: str, *numbers: int, method: str = "") -> Callable[[Asked], str | None]:
    """Return a plan: this fault at the n-th requests (of a method), honest answers else; no number is every request."""
    seen = 0
    lock = threading.Lock()

    def plan(asked: Asked) -> str | None:
        nonlocal seen
        if method and asked.method != method:
            return None
        with lock:
            seen += 1
            return fault if not numbers or seen in numbers else None

    return plan

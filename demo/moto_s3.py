"""An S3 by moto that decides conditional requests one after the other, as S3 does: ``moto_s3.py PORT [gcs]``.

moto looks whether a key exists and writes it without a lock, so that two creates at the same moment may both win. The
tables of its Glue, too, are updated as Glue does. With
``gcs`` it speaks the XML API of Google Cloud Storage, which is S3's with other headers and other preconditions.
"""

from __future__ import annotations

import io
import itertools
import sys
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

Environment = dict[str, Any]


class OneWriteAtATime:
    """An application whose requests that change something wait for each other."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environment: Environment, start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        if environment["REQUEST_METHOD"] in ("GET", "HEAD"):
            answer: Iterable[bytes] = self._application(environment, start_response)
            return answer
        # Of a body in chunks nobody says how long it is: it ends by itself.
        length = -1 if environment.get("wsgi.input_terminated") else int(environment.get("CONTENT_LENGTH") or 0)
        environment["wsgi.input"] = io.BytesIO(environment["wsgi.input"].read(length))  # a slow client keeps nobody
        with self._lock:
            return list(self._application(environment, start_response))


def check_versions_of_tables() -> None:
    """Have Glue update a table only from the version that a request names, as it does; moto looks at none."""
    update = GlueResponse.update_table

    def checked(self: GlueResponse) -> Any:
        asked = self.parameters
        table = self.glue_backend.get_table(asked["DatabaseName"], asked["TableInput"]["Name"])
        if asked.get("VersionId") not in (None, str(table._current_version)):
            raise GlueClientError("ConcurrentModificationException", "the table has another version")
        return update(self)

    GlueResponse.update_table = checked  # type: ignore[method-assign]


class GoogleDialect:
    """S3 under the headers of Google's XML API; a precondition of generation 0 holds where there is no object.

    https://cloud.google.com/storage/docs/xml-api/reference-headers
    """

    _SIGNED = "AWS4-HMAC-SHA256 Credential=tests/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"

    def __init__(self, application: Any) -> None:
        self._application = application
        self._generations = itertools.count(1)

    def __call__(self, environment: Environment, start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        asked = {name.replace("HTTP_X_GOOG_", "HTTP_X_AMZ_"): value for name, value in environment.items()}
        asked["HTTP_AUTHORIZATION"] = self._SIGNED
        # Google's clients encode slashes and hyphens, too, and moto takes a path as it was sent.
        path = quote(environment["PATH_INFO"].encode("latin-1"), safe="/-._~")
        asked["RAW_URI"] = asked["REQUEST_URI"] = f"{path}?{environment['QUERY_STRING']}".rstrip("?")
        created = asked.pop("HTTP_X_AMZ_IF_GENERATION_MATCH", None) == "0"
        if created and self._exists(asked):
            return _rejected(start_response, "412 Precondition Failed", "PreconditionFailed")
        if asked["REQUEST_METHOD"] == "DELETE" and not asked["QUERY_STRING"] and not self._exists(asked):
            return _rejected(start_response, "404 Not Found", "NoSuchKey")

        def answer(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            said = [(name.lower().replace("x-amz-", "x-goog-"), value) for name, value in headers]
            return start_response(status, [*said, ("x-goog-generation", str(next(self._generations)))], *more)

        return list(self._application(asked, answer))

    def _exists(self, asked: Environment) -> bool:
        found: list[str] = []
        head = {
            **asked,
            "REQUEST_METHOD": "HEAD",
            "QUERY_STRING": "",
            "CONTENT_LENGTH": "0",
            "wsgi.input": io.BytesIO(),
        }
        head.pop("HTTP_X_AMZ_COPY_SOURCE", None)
        list(self._application(head, lambda status, headers, *more: found.append(status)))
        return found[0].startswith("200")


def _rejected(start_response: Any, status: str, code: str) -> list[bytes]:
    start_response(status, [("content-type", "application/xml")])
    return [f"<Error><Code>{code}</Code><Message>{status[4:]}</Message></Error>".encode()]


if __name__ == "__main__":
    port, *dialect = sys.argv[1:]
    check_versions_of_tables()
    moto = DomainDispatcherApplication(create_backend_app)
    run_simple(
        "127.0.0.1",
        int(port),
        OneWriteAtATime(GoogleDialect(moto) if dialect else moto),
        threaded=True,
        request_handler=MotoRequestHandler,
    )

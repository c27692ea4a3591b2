"""An OAuth endpoint with unsigned tokens, for a broker that accepts them."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from typing_extensions import Self


class TokenEndpoint:
    """Tokens of a user that live for ``seconds``; ``is_open`` False: nobody gets one any more.

    ``over`` is when the newest token has expired, as ``time.time()`` counts.
    """

    def __init__(self, user: str, seconds: float) -> None:
        self.given = 0
        self.over = 0.0
        self.is_open = True
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                if endpoint.is_open:
                    endpoint.given += 1
                    endpoint.over = time.time() + seconds
                answer = {"access_token": token(user, seconds), "token_type": "Bearer", "expires_in": int(seconds)}
                body = json.dumps(answer if endpoint.is_open else {"error": "invalid_client"}).encode()
                self.send_response(200 if endpoint.is_open else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def settings(self) -> dict[str, str]:
        """Settings with which a client asks here for tokens."""
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "samza",
            "sasl.oauthbearer.client.secret": "hunter2",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{self._server.server_address[1]}/token",
        }

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


def token(user: str, seconds: float) -> str:
    """A token without a signature."""
    now = time.time()
    parts = ({"alg": "none", "typ": "JWT"}, {"sub": user, "iat": int(now), "exp": int(now + seconds)})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."

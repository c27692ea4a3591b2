"""The DNS of the cluster: addresses of services and of their pods, from the API server; every other name is unknown.

``python dns.py API TOKEN_FILE AUTHORITY ADDRESS``. The service of a Spark driver has no address but the pod's.
"""

from __future__ import annotations

import json
import socket
import socketserver
import ssl
import struct
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

SECONDS = 5
ANSWER, NO_SUCH_NAME, FAILED = 0, 3, 2
ADDRESS_RECORD = 1


class Services:
    """The services of a cluster, as the API server has them now."""

    def __init__(self, api: str, token: str, authority: str) -> None:
        self._api = api
        self._token = token
        self._context = ssl.create_default_context(cafile=authority)

    def addresses(self, name: str) -> list[str] | None:
        """Return the addresses of ``SERVICE.NAMESPACE.svc``, or of a pod of it by name; None of another name."""
        labels = name.lower().removesuffix(".").removesuffix(".cluster.local").split(".")
        if len(labels) < 3 or labels[-1] != "svc":
            return None
        *pod, service, namespace, _ = labels
        place = f"/api/v1/namespaces/{namespace}"
        described = self._get(f"{place}/services/{service}")
        if described is None:
            return None
        address = described["spec"].get("clusterIP")
        if address not in (None, "None") and not pod:
            return [address]
        subsets = (self._get(f"{place}/endpoints/{service}") or {}).get("subsets") or []
        ends = [end for one in subsets for key in ("addresses", "notReadyAddresses") for end in one.get(key) or []]
        return [end["ip"] for end in ends if not pod or end.get("hostname") == pod[0]]

    def _get(self, path: str) -> dict[str, Any] | None:
        request = urllib.request.Request(self._api + path, headers={"Authorization": f"Bearer {self._token}"})
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise
        return found


def answer_to(query: bytes, services: Services) -> bytes:
    """Return the answer to a query of one question."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode())
        at += 1 + query[at]
    question, (kind,) = query[12 : at + 5], struct.unpack("!H", query[at + 1 : at + 3])
    try:
        found = services.addresses(".".join(labels))
        code = NO_SUCH_NAME if found is None else ANSWER
    except (OSError, ValueError) as error:
        print(f"{'.'.join(labels)}: {error}", flush=True)
        found, code = None, FAILED
    shown = (found or []) if kind == ADDRESS_RECORD else []
    header = struct.pack("!HHIH", ADDRESS_RECORD, 1, 5, 4)
    records = b"".join(b"\xc0\x0c" + header + socket.inet_aton(address) for address in shown)
    return query[:2] + struct.pack("!HHHHH", 0x8580 | code, 1, len(shown), 0, 0) + question + records


def serve(services: Services, address: str) -> None:
    """Answer queries until the process ends."""

    class Query(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            query, channel = self.request
            channel.sendto(answer_to(query, services), self.client_address)

    class Server(socketserver.ThreadingUDPServer):
        allow_reuse_address = True

    Server((address, 53), Query).serve_forever()


if __name__ == "__main__":
    api, token_file, authority, address = sys.argv[1:]
    serve(Services(api, Path(token_file).read_text().strip(), authority), address)

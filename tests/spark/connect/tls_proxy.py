"""TLS before a Spark Connect server, which has none of its own: what a load balancer does."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"  # a name may have two addresses: each would get a port of its own


@dataclass(frozen=True)
class TlsProxy:
    """The proxy's port on `HOST`, and the file with the certificate that a client has to trust."""

    port: int
    certificate: Path


@contextmanager
def tls_proxy(folder: Path, to_port: int) -> Iterator[TlsProxy]:
    """Passes bytes on to a port of this machine, in both directions."""
    certificate = write_certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    context.set_alpn_protocols(["h2"])  # gRPC takes no other
    loop = asyncio.new_event_loop()
    open_ends: list[asyncio.StreamWriter] = []

    async def passed_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        finally:
            target.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("localhost", to_port)
        open_ends.extend((writer, back))
        await asyncio.gather(passed_on(reader, back), passed_on(there, writer), return_exceptions=True)

    server = loop.run_until_complete(asyncio.start_server(connected, HOST, 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield TlsProxy(server.sockets[0].getsockname()[1], certificate)
    finally:
        asyncio.run_coroutine_threadsafe(_ended(server, open_ends), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _ended(server: asyncio.Server, open_ends: list[asyncio.StreamWriter]) -> None:
    server.close()
    for end in open_ends:
        with contextlib.suppress(AttributeError):  # CPython's SSL transport, when its connection has ended already
            end.transport.abort()
    for end in open_ends:
        with contextlib.suppress(OSError, ssl.SSLError):
            await end.wait_closed()
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    await asyncio.gather(*tasks, return_exceptions=True)


def write_certificate(folder: Path) -> Path:
    """A certificate for this machine, and its key, in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    path = folder / "localhost.pem"
    path.write_bytes(
        certificate.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return path

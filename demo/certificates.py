"""Certificates for servers on this machine: those of an authority, and those of a broker and its clients."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAYS = datetime.timedelta(days=30)


class Certificates:
    """PEM files in a folder; a file of a certificate holds its key, too, as Kafka reads them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signs the others."""
        return self.folder / "authority.pem"

    @property
    def broker(self) -> Path:
        """The broker's key and certificate, which is valid for 127.0.0.1 and for no name."""
        return self.folder / "broker.pem"

    def client(self, name: str) -> Path:
        """The key and certificate of the client of this name, made when it is asked for first."""
        file = self.folder / f"client-{name}.pem"
        if not file.exists():
            self._sign(file, name, ())
        return file

    def make(self) -> None:
        """Makes the authority and the broker's certificate."""
        self.folder.mkdir(parents=True)
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate("authority", key, key, is_authority=True)
        self.authority.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self._key_of_authority.write_bytes(pem(key))
        self._sign(self.broker, "broker", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])

    @property
    def _key_of_authority(self) -> Path:
        return self.folder / "authority.key"

    def _sign(self, file: Path, name: str, names: Sequence[x509.GeneralName]) -> None:
        signing = serialization.load_pem_private_key(self._key_of_authority.read_bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        key = ec.generate_private_key(ec.SECP256R1())
        made = certificate(name, key, signing, names)
        file.write_bytes(pem(key) + made.public_bytes(serialization.Encoding.PEM))


def certificate(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    signing: ec.EllipticCurvePrivateKey,
    names: Sequence[x509.GeneralName] = (),
    *,
    is_authority: bool = False,
) -> x509.Certificate:
    """Return the certificate of a key, valid for ``names``, that the authority signs with its own key."""
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name("authority"))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAYS)
        .not_valid_after(now + _DAYS)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signing, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return a private key as PEM, without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )

"""A certificate authority of the broker's own: TLS for tests and development without a word about certificates.

    tls/ca.pem       the authority's certificate, which clients are given as ssl.ca.location
    tls/ca.key       its private key, readable by the owner alone
    tls/broker.pem   the broker's private key and certificate, readable by the owner alone

The authority stays the same as long as its files are there. The broker's certificate is made anew when it lacks a host
or ends soon.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.wire.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, Name

_DAY = datetime.timedelta(days=1)
_AUTHORITY_LASTS, _CERTIFICATE_LASTS, _RENEWED_BEFORE = 3650 * _DAY, 825 * _DAY, 30 * _DAY
_NAME = "Equipoise's own authority"
LOCAL_HOSTS = "localhost", "127.0.0.1", "::1"


class OwnAuthority:
    """Its files stand in `directory`. UsageError: the package cryptography is missing."""

    def __init__(self, directory: Path) -> None:
        try:
            import cryptography  # noqa: F401
        except ImportError:
            raise UsageError(
                "a certificate authority needs the package cryptography: pip install 'equipoise[tls]'"
            ) from None
        self._directory = directory
        self.ca_file = directory / "ca.pem"
        self.keystore = directory / "broker.pem"
        self._ca_key = directory / "ca.key"

    def prepare(self, hosts: Iterable[str]) -> None:
        """Makes what is missing: the authority, and a certificate of the broker for all hosts."""
        wanted = list(dict.fromkeys([*hosts, *LOCAL_HOSTS]))
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not self._ca_key.exists() or not self.ca_file.exists():
                self._make_authority()
            if not self._covers(wanted):
                self._issue(wanted)
        except (OSError, ValueError) as error:
            raise UsageError(f"{self._directory}: no certificate can be made: {error}") from None

    def _make_authority(self) -> None:
        from cryptography import x509

        key, builder = _begin(_NAME, _AUTHORITY_LASTS)
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(usage, critical=True)
        certificate = _signed(builder, key)
        _write(self._ca_key, _key_text(key))
        _write(self.ca_file, _certificate_text(certificate), 0o644)

    def _issue(self, hosts: list[str]) -> None:
        """A certificate for servers and for clients: a broker may connect to itself."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
        from cryptography.x509 import oid

        ca_key = load_pem_private_key(self._ca_key.read_bytes(), None)
        if not isinstance(ca_key, ec.EllipticCurvePrivateKey):
            raise ValueError(f"{self._ca_key} is not ours: remove it, and {self.ca_file}")
        key, builder = _begin(hosts[0], _CERTIFICATE_LASTS)
        usages = x509.ExtendedKeyUsage([oid.ExtendedKeyUsageOID.SERVER_AUTH, oid.ExtendedKeyUsageOID.CLIENT_AUTH])
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False).add_extension(usages, critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        certificate = _signed(builder, ca_key)
        _write(self.keystore, _key_text(key) + _certificate_text(certificate))

    def _covers(self, hosts: list[str]) -> bool:
        from cryptography import x509

        if not self.keystore.exists():
            return False
        found = x509.load_pem_x509_certificate(self.keystore.read_bytes())
        ends_soon = found.not_valid_after_utc - datetime.datetime.now(datetime.UTC) < _RENEWED_BEFORE
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return not ends_soon and {_general_name(host) for host in hosts} <= set(names)


def _begin(name: str, lasts: datetime.timedelta) -> tuple[EllipticCurvePrivateKey, CertificateBuilder]:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_x509_name(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return key, builder


def _signed(builder: CertificateBuilder, ca_key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = builder.issuer_name(_x509_name(_NAME)).add_extension(identifier, critical=False)
    return builder.sign(ca_key, hashes.SHA256())


def _x509_name(common_name: str) -> Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name[:64])])


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_text(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_text(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _write(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Whole or not at all, and never readable by others for a moment."""
    unfinished = path.with_name(path.name + ".new")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    unfinished.replace(path)

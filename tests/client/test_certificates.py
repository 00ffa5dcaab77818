"""Certificates that must not be believed, on real connections: by our client, and by our broker."""

from __future__ import annotations

import asyncio
import datetime
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from equipoise.broker import Broker
from equipoise.client.net.blocking import Connection
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import KafkaConnectionError, TlsError
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.parsing import security_from_keywords
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse

METADATA = MetadataRequest(topics=[])
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
Reach = Callable[[int, str, SecurityConfig], None]
Case = tuple[Callable[[], "Made"], str]
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Made:
    """A certificate, its key and those that have signed it."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    chain: tuple[x509.Certificate, ...] = ()

    def write(self, path: Path, *, with_key: bool = True) -> str:
        pem = serialization.Encoding.PEM
        text = b"".join(one.public_bytes(pem) for one in (self.certificate, *self.chain))
        if with_key:
            plain = serialization.NoEncryption()
            text += self.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        path.write_bytes(text)
        return str(path)


def make(
    *names: str,
    issuer: Made | None = None,
    common_name: str = "x",
    is_ca: bool = False,
    purpose: x509.ObjectIdentifier | None = None,
    days: int = 1,
) -> Made:
    """`days` below 0: it has expired so long ago."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days * _DAY - 30 * _DAY)
        .not_valid_after(now + days * _DAY)
        .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
    )
    if names:
        found = [x509.IPAddress(ip_address(one)) if one[0].isdigit() else x509.DNSName(one) for one in names]
        builder = builder.add_extension(x509.SubjectAlternativeName(found), critical=False)
    if purpose is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    signed = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    return Made(signed, key, (issuer.certificate, *issuer.chain) if issuer else ())


@cache
def authority() -> Made:
    return make(common_name="authority", is_ca=True)


def _blocking(port: int, host: str, security: SecurityConfig) -> None:
    with Connection(host, port, security=security, timeout=20) as connection:
        assert connection.send(METADATA, MetadataResponse).brokers


def _on_loop(port: int, host: str, security: SecurityConfig) -> None:
    async def run() -> None:
        connection = await AsyncConnection.connect(host, port, security=security, timeout=20)
        try:
            assert (await connection.send(METADATA, MetadataResponse, 20)).brokers
        finally:
            connection.close()

    asyncio.run(run())


REACH = pytest.mark.parametrize("reach", [_blocking, _on_loop])


def settings(place: Path, broker: Made, **more: object) -> dict[str, object]:
    return {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": broker.write(place / "broker.pem"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def trusting(place: Path, *trusted: Made, **more: str) -> SecurityConfig:
    text = b"".join(one.certificate.public_bytes(serialization.Encoding.PEM) for one in trusted or (authority(),))
    (place / "trust.pem").write_bytes(text)
    return security_from_keywords(security_protocol="SSL", ssl_ca_location=str(place / "trust.pem"), **more)


def no_authority() -> Made:
    """Signed by a certificate of the authority that may not sign."""
    return make("localhost", issuer=make("localhost", issuer=authority(), common_name="no authority"))


REFUSED: dict[str, Case] = {
    "expired": (lambda: make("localhost", issuer=authority(), days=-3), r"has expired \("),
    "another host": (lambda: make("b1.example.org", issuer=authority()), "not for localhost, it is for b1.example.org"),
    "wildcard of another level": (lambda: make("*.localhost", issuer=authority()), r"it is for \*\.localhost"),
    "common name alone": (lambda: make(issuer=authority(), common_name="localhost"), "it is for no name"),
    "self-signed": (lambda: make("localhost"), "does not trust"),
    "no authority between": (no_authority, "is refused: invalid CA certificate"),
    "purpose": (lambda: make("localhost", issuer=authority(), purpose=CLIENT), "is refused: un(suitable|supported)"),
}


@REACH
@pytest.mark.parametrize("case", REFUSED)
def test_our_client_refuses(tmp_path: Path, reach: Reach, case: str) -> None:
    made, why = REFUSED[case]
    with Broker(settings(tmp_path, made())) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        with pytest.raises(TlsError, match=why):
            reach(port, "localhost", trusting(tmp_path))


@REACH
def test_our_client_accepts_what_is_right(tmp_path: Path, reach: Reach) -> None:
    with Broker(settings(tmp_path, make("localhost", issuer=authority(), purpose=SERVER))) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        reach(port, "localhost", trusting(tmp_path))


def test_a_trusted_certificate_that_is_no_authority_vouches_for_itself_alone(tmp_path: Path) -> None:
    """As in a truststore of Java: the certificate itself is believed, and not what it has signed."""
    alone = make("localhost", common_name="alone")
    with Broker(settings(tmp_path, alone)) as broker:
        _blocking(int(broker.bootstrap_servers.rpartition(":")[2]), "localhost", trusting(tmp_path, alone))
    with Broker(settings(tmp_path, make("localhost", issuer=alone))) as broker, pytest.raises(TlsError, match="CA"):
        _blocking(int(broker.bootstrap_servers.rpartition(":")[2]), "localhost", trusting(tmp_path, alone))


@pytest.mark.parametrize("name", ["a.b.example.org", "example.org", "xexample.org"])
def test_a_wildcard_covers_one_level(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.create_connection
    monkeypatch.setattr(
        socket, "create_connection", lambda at, *args, **more: real(("127.0.0.1", at[1]), *args, **more)
    )
    with Broker(settings(tmp_path, make("*.example.org", issuer=authority()))) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        _blocking(port, "b1.example.org", trusting(tmp_path))
        with pytest.raises(TlsError, match=rf"not for {name}, it is for \*\.example\.org"):
            _blocking(port, name, trusting(tmp_path))


REFUSED_BY_BROKER: dict[str, Case] = {
    "expired": (lambda: make("app", issuer=authority(), days=-3), "has expired"),
    "self-signed": (lambda: make("app"), "self"),
    "no authority between": (no_authority, "invalid CA certificate"),
    "purpose": (lambda: make("app", issuer=authority(), purpose=SERVER), "un(suitable|supported) certificate purpose"),
}


@REACH
@pytest.mark.parametrize("case", REFUSED_BY_BROKER)
def test_our_broker_refuses(tmp_path: Path, reach: Reach, case: str, caplog: pytest.LogCaptureFixture) -> None:
    made, why = REFUSED_BY_BROKER[case]
    trust = authority().write(tmp_path / "ca.pem", with_key=False)
    mine = made().write(tmp_path / "client.pem")
    mutual = {"ssl_client_auth": "required", "ssl_truststore_location": trust}
    with Broker(settings(tmp_path, make("localhost", issuer=authority()), **mutual)) as broker:
        port = int(broker.bootstrap_servers.rpartition(":")[2])
        security = trusting(tmp_path, ssl_certificate_location=mine, ssl_key_location=mine)
        with pytest.raises(KafkaConnectionError):
            reach(port, "localhost", security)
        good = make("app", issuer=authority(), purpose=CLIENT).write(tmp_path / "good.pem")
        _blocking(port, "localhost", trusting(tmp_path, ssl_certificate_location=good, ssl_key_location=good))
    assert re.search(f"client's certificate is refused: .*{why}", caplog.text), caplog.text

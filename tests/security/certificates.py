"""Certificates for tests, and stores of Java's keytool."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12

PASSWORD = "changeit"
_QUICKLY = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-J-XX:-UsePerfData")  # it lives for half a second


@cache
def authority() -> trustme.CA:
    """Made once: a key takes time."""
    return trustme.CA()


@cache
def stranger() -> trustme.CA:
    """An authority that nobody trusts."""
    return trustme.CA()


def ca_pem(ca: trustme.CA) -> str:
    return ca.cert_pem.bytes().decode()


def chain_pem(leaf: trustme.LeafCert) -> str:
    return "".join(blob.bytes().decode() for blob in leaf.cert_chain_pems)


def key_pem(leaf: trustme.LeafCert, password: str | None = None) -> str:
    """As PKCS8, encrypted if there is a password."""
    if password is None:
        return leaf.private_key_pem.bytes().decode()
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    how = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def p12(leaf: trustme.LeafCert | None, cas: list[trustme.CA], password: str | None = PASSWORD) -> bytes:
    """A PKCS12 store as OpenSSL and other tools write it."""
    how = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    key, cert = None, None
    if leaf is not None:
        loaded = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
        key = loaded
        cert = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
    others = [x509.load_pem_x509_certificate(ca.cert_pem.bytes()) for ca in cas]
    return pkcs12.serialize_key_and_certificates(b"x", key, cert, others, how)  # type: ignore[arg-type]


def crl(ca: trustme.CA, revoked: list[trustme.LeafCert]) -> str:
    """The authority's list of revoked certificates."""
    import datetime

    certificate = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now - datetime.timedelta(days=1))
        .next_update(now + datetime.timedelta(days=1))
    )
    for leaf in revoked:
        number = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes()).serial_number
        entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    key = serialization.load_pem_private_key(ca.private_key_pem.bytes(), None)
    signed = builder.sign(key, hashes.SHA256())  # type: ignore[arg-type]
    return signed.public_bytes(serialization.Encoding.PEM).decode()


def keytool(*arguments: object) -> None:
    """Java's own tool. Skips the test where there is none."""
    found = shutil.which("keytool")
    if found is None:
        pytest.skip("keytool of Java is not here")
    done = subprocess.run([found, *_QUICKLY, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def java_truststore(directory: Path, kind: str, *cas: trustme.CA) -> Path:
    """A truststore with these authorities, made by keytool."""
    return Path(write(directory / f"trust.{kind.lower()}", _java_truststore(kind, *cas)))


@cache
def _java_truststore(kind: str, *cas: trustme.CA) -> bytes:
    """Made once: each certificate takes a JVM."""
    with TemporaryDirectory() as place:
        store = Path(place) / "trust"
        for number, ca in enumerate(cas):
            file = write(Path(place) / f"ca{number}.pem", ca.cert_pem.bytes())
            keytool(
                "-importcert", "-noprompt", "-alias", f"ca-{number}-é", "-file", file,
                "-keystore", store, "-storetype", kind, "-storepass", PASSWORD,
            )  # fmt: skip
        return store.read_bytes()


def java_keystore(directory: Path, kind: str) -> Path:
    """A keystore with a key of Java's own, made by keytool."""
    store = directory / f"key.{kind.lower()}"
    keytool(
        "-genkeypair", "-alias", "me", "-keyalg", "EC", "-dname", "CN=me", "-keystore", store,
        "-storetype", kind, "-storepass", PASSWORD, "-keypass", PASSWORD,
    )  # fmt: skip
    return store


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> ssl.SSLObject:
    """A TLS handshake in memory. Returns the client's side; raises what either side raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    mine = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [mine, theirs]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not waiting
    theirs.write(b"hello")
    assert mine.read(5) == b"hello"  # with TLS 1.3 a refused client certificate shows only here
    return mine


def server_context(leaf: trustme.LeafCert, clients: trustme.CA | None = None) -> ssl.SSLContext:
    """A server's side; with `clients` it wants their certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    if clients is not None:
        clients.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context

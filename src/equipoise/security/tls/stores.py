"""Truststores and keystores as Java and Spark users have them: PEM, PKCS12, JKS. Bytes in, PEM text out.

The bytes say which format it is, not the name of the file nor ssl.truststore.type: since Java 9 keytool writes PKCS12
into files called .jks, and Java reads either (DualFormatJKS).

JKS, big-endian: 0xFEEDFEED, version, count of entries; per entry a tag (1 key, 2 certificate), alias, time in ms, and
for a certificate its type (from version 2 on) and DER bytes. SHA-1 of password, "Mighty Aphrodite" and all before ends
the file (sun.security.provider.JavaKeyStore.engineLoad). Certificates are not encrypted; keys are, by a cipher of
Sun's own, and are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from enum import StrEnum
from typing import NamedTuple

from equipoise.security.secrets import Secret
from equipoise.security.tls.pem import certificate_text, certificates, private_keys
from equipoise.wire.errors import UsageError

_JKS, _JCEKS = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce"
_DER_SEQUENCE = b"\x30"
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_DIGEST_SIZE = 20
_DIGEST_WORDS = b"Mighty Aphrodite"


class StoreType(StrEnum):
    """The formats that can be told apart."""

    PEM = "PEM"
    PKCS12 = "PKCS12"
    JKS = "JKS"
    JCEKS = "JCEKS"


class KeyMaterial(NamedTuple):
    """A private key and its certificate chain as PEM. A key of a PEM store may be encrypted."""

    key: Secret
    chain: str


class KeyStore(NamedTuple):
    """A file's content, its password, and for messages the settings that name both."""

    data: bytes
    password: Secret
    location: str  # for instance ssl.truststore.location=/etc/kafka/trust.jks
    password_setting: str  # for instance ssl.truststore.password


def type_of(data: bytes) -> StoreType | None:
    """The format of a store; None: it is none of them."""
    if data.startswith(_JKS):
        return StoreType.JKS
    if data.startswith(_JCEKS):
        return StoreType.JCEKS
    if data.startswith(_DER_SEQUENCE):
        return StoreType.PKCS12
    return StoreType.PEM if b"-----BEGIN " in data else None


def trusted_certificates(store: KeyStore) -> str:
    """All certificates of a truststore. UsageError names the setting at fault."""
    match _known_type(store):
        case StoreType.PEM:
            found = certificates(_text(store))
        case StoreType.PKCS12:
            found = _pkcs12(store).chain
        case StoreType.JKS:
            found = "".join(map(certificate_text, _jks_certificates(store)))
        case _:
            raise UsageError(f"{store.location}: a JCEKS store cannot be read: {_conversion('-cacerts -nokeys')}")
    if not found:
        raise UsageError(f"{store.location}: there is no certificate in this file")
    return found


def key_material(store: KeyStore) -> KeyMaterial:
    """The private key of a keystore with its chain. UsageError names the setting at fault."""
    match _known_type(store):
        case StoreType.PEM:
            found = _pem_key(store)
        case StoreType.PKCS12:
            found = _pkcs12(store)
        case kind:
            raise UsageError(
                f"{store.location}: the private keys of a {kind} store are under a cipher of Java's own: "
                f"{_conversion('-nodes')}"
            )
    if not found.key or not found.chain:
        missing = "certificate" if found.key else "private key"
        raise UsageError(f"{store.location}: there is no {missing} in this file")
    return found


def _conversion(what: str) -> str:
    return (
        "convert it with `keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype PKCS12`, "
        f"or that file to PEM with `openssl pkcs12 -in STORE.p12 {what} -out STORE.pem`"
    )


def _known_type(store: KeyStore) -> StoreType:
    kind = type_of(store.data)
    if kind is None:
        raise UsageError(f"{store.location}: this file is no PEM, PKCS12 or JKS store")
    return kind


# -- PEM


def _text(store: KeyStore) -> str:
    return store.data.decode("utf-8", "replace")


def _pem_key(store: KeyStore) -> KeyMaterial:
    """One key and its chain in one file (DefaultSslEngineFactory.FileBasedPemStore)."""
    keys = private_keys(_text(store))
    if len(keys) > 1:
        raise UsageError(f"{store.location}: {len(keys)} private keys are in this file: leave one")
    return KeyMaterial(Secret("".join(keys)), certificates(_text(store)))


# -- PKCS12


def _pkcs12(store: KeyStore) -> KeyMaterial:
    """Of a truststore all certificates count, also those without Java's mark of a trusted certificate."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise UsageError(
            f"{store.location}: a PKCS12 store needs the package cryptography: pip install 'equipoise[keystores]'"
        ) from None
    password = store.password.reveal().encode() if store.password else None
    try:
        found = pkcs12.load_pkcs12(store.data, password)
    except ValueError:
        raise UsageError(
            f"{store.location}: the PKCS12 store does not open: {_suspect(store)} or the file is damaged"
        ) from None
    all_certificates = [found.cert] if found.cert else []
    chain = [
        one.certificate.public_bytes(serialization.Encoding.DER) for one in [*all_certificates, *found.additional_certs]
    ]
    if found.key is None:
        key = b""
    else:
        key = found.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    return KeyMaterial(Secret(key.decode()), "".join(map(certificate_text, chain)))


def _suspect(store: KeyStore) -> str:
    return f"{store.password_setting} is {'wrong' if store.password else 'missing'},"


# -- JKS


def _jks_certificates(store: KeyStore) -> list[bytes]:
    """The trusted certificates. Entries with a private key are no trust anchors, and are passed over."""
    _check_integrity(store)
    reader = _JksReader(store.data[:-_DIGEST_SIZE])
    found = []
    try:
        _, version, count = reader.take(">4sII")
        for _ in range(count):
            (tag,) = reader.take(">I")
            reader.piece(">H")  # the alias
            reader.take(">Q")
            if tag == _KEY_ENTRY:
                reader.piece(">I")
                (chain,) = reader.take(">I")
                for _ in range(chain):
                    reader.certificate(version)
            elif tag == _CERTIFICATE_ENTRY:
                found.append(reader.certificate(version))
            else:
                raise UsageError(f"{store.location}: the JKS store has an entry of unknown kind {tag}")
    except (struct.error, EOFError):
        raise UsageError(f"{store.location}: the JKS store is damaged: it ends too early") from None
    return found


def _check_integrity(store: KeyStore) -> None:
    """Only with a password, as Java does."""
    if not store.password:
        return
    password = store.password.reveal().encode("utf-16-be")
    digest = hashlib.sha1(password + _DIGEST_WORDS + store.data[:-_DIGEST_SIZE], usedforsecurity=False).digest()
    if not hmac.compare_digest(digest, store.data[-_DIGEST_SIZE:]):
        raise UsageError(f"{store.location}: {store.password_setting} is wrong, or the file is damaged")


class _JksReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    def take(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._data, self._pos)
        self._pos += struct.calcsize(form)
        return found

    def piece(self, length: str) -> bytes:
        (size,) = self.take(length)
        if len(self._data) - self._pos < size:
            raise EOFError
        self._pos += size
        return self._data[self._pos - size : self._pos]

    def certificate(self, version: int) -> bytes:
        if version > 1:
            self.piece(">H")  # "X.509"
        return self.piece(">I")

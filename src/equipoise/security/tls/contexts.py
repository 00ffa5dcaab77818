"""What both sides load into a context of TLS: trusted certificates, the own key and chain, versions, ciphers.

Python's ssl takes keys from files only. PEM text passes through a file in memory, which nobody else can open.
"""

from __future__ import annotations

import logging
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

from equipoise.security.secrets import NO_SECRET, Secret
from equipoise.security.tls.ciphers import openssl_names
from equipoise.security.tls.pem import certificates, private_keys
from equipoise.security.tls.stores import KeyStore, StoreType, key_material, trusted_certificates, type_of
from equipoise.wire.errors import UsageError

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CERTIFICATE_FILES = ("*.pem", "*.crt", "*.cer")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """The settings ssl.* of one side."""

    ca_location: str = ""
    ca_pem: str = ""
    truststore_location: str = ""
    truststore_type: str = "JKS"
    truststore_password: Secret = NO_SECRET
    certificate_location: str = ""
    certificate_pem: str = ""
    key_location: str = ""
    key_pem: Secret = NO_SECRET
    key_password: Secret = NO_SECRET
    keystore_location: str = ""
    keystore_type: str = "JKS"
    keystore_password: Secret = NO_SECRET
    verifies: bool = True
    checks_hostname: bool = True
    crl_location: str = ""
    ciphers: str = ""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    context: object = None  # the application's own, instead of all others

    @classmethod
    def from_settings(cls, table: object, **more: Any) -> Self:
        """What a table of settings has under the names of the fields: `ssl_ca_location` and so on; and `more`."""
        given = {one.name: getattr(table, f"ssl_{one.name}", None) for one in fields(cls)}
        return cls(**{name: value for name, value in given.items() if value is not None} | more)

    @property
    def has_trust(self) -> bool:
        """Whether CA certificates are named."""
        return bool(self.ca_location or self.ca_pem or self.truststore_location)

    @property
    def has_key(self) -> bool:
        """Whether there is a certificate of our own."""
        return bool(self.certificate_location or self.certificate_pem or self.keystore_location)

    @property
    def files(self) -> tuple[str, ...]:
        """All files and directories that a context is made from."""
        named = (self.ca_location, self.truststore_location, self.certificate_location, self.key_location)
        return tuple(path for path in (*named, self.keystore_location, self.crl_location) if path)


DEFAULT_TLS = TlsConfig()


def check_pairs(tls: TlsConfig) -> None:
    """UsageError: two sources are given for one thing, or half of a pair (DefaultSslEngineFactory)."""
    _one_of(tls, "ca_pem", "ca_location", "truststore_location")
    _one_of(tls, "certificate_pem", "certificate_location", "keystore_location")
    _one_of(tls, "key_pem", "key_location", "keystore_location")
    if (tls.key_pem or tls.key_location) and not tls.has_key:
        raise UsageError(f"{_given(tls, 'key_pem', 'key_location')[0]} needs ssl.certificate.location or .pem")
    if tls.certificate_pem and not (tls.key_pem or tls.key_location):
        raise UsageError("ssl.certificate.pem needs ssl.key.pem or ssl.key.location")


def _one_of(tls: TlsConfig, *attributes: str) -> None:
    given = _given(tls, *attributes)
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} are given: leave all but one out")


def _given(tls: TlsConfig, *attributes: str) -> list[str]:
    return ["ssl." + name.replace("_", ".") for name in attributes if getattr(tls, name)]


# -- versions and ciphers


def set_versions(context: ssl.SSLContext, names: tuple[str, ...]) -> None:
    """ssl.enabled.protocols: the oldest and the newest of them."""
    versions = sorted(_VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def set_ciphers(context: ssl.SSLContext, text: str) -> None:
    """ssl.cipher.suites, of TLS 1.2. UsageError: a name is unknown."""
    suites, newest, unknown = openssl_names(text)
    if unknown:
        raise UsageError(f"ssl.cipher.suites: {unknown[0]} is unknown: write OpenSSL's name of it")
    if newest:
        log.warning("ssl.cipher.suites: %s has no effect: suites of TLS 1.3 cannot be chosen", ", ".join(newest))
    if suites:
        try:
            context.set_ciphers(suites)
        except ssl.SSLError:
            raise UsageError(f"ssl.cipher.suites={text}: OpenSSL knows none of these") from None


# -- trust


def load_trust(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """The CA certificates that are named, and no others. Each of them is an anchor, as for Java, also one that is not
    signed by itself."""
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if tls.ca_pem:
        load_ca_text(context, tls.ca_pem, "ssl.ca.pem")
    elif tls.ca_location:
        load_ca_location(context, tls.ca_location, "ssl.ca.location")
    else:
        context.load_verify_locations(cadata=trusted_certificates(truststore(tls)))
    if tls.crl_location:
        load_crl(context, tls.crl_location)


def load_ca_text(context: ssl.SSLContext, text: str, setting: str) -> None:
    """CA certificates as PEM text."""
    found = certificates(text)
    if not found:
        raise UsageError(f"{setting}: there is no certificate in this text: it begins with -----BEGIN CERTIFICATE-----")
    with _readable(setting):
        context.load_verify_locations(cadata=found)


def load_ca_location(context: ssl.SSLContext, location: str, setting: str) -> None:
    """CA certificates of a file, or of a directory: those under OpenSSL's hashed names, and all PEM files."""
    path = Path(location)
    if not path.is_dir():
        load_ca_text(context, read(location, setting).decode("utf-8", "replace"), f"{setting}={location}")
        return
    context.load_verify_locations(capath=location)
    for pattern in _CERTIFICATE_FILES:
        for file in sorted(path.glob(pattern)):
            found = certificates(file.read_text(encoding="utf-8", errors="replace"))
            if found:
                context.load_verify_locations(cadata=found)


def load_crl(context: ssl.SSLContext, location: str) -> None:
    """ssl.crl.location: the broker's own certificate must not be on the list, which its CA has signed."""
    read(location, "ssl.crl.location")
    with _readable(f"ssl.crl.location={location}"):
        context.load_verify_locations(cafile=location)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def truststore(tls: TlsConfig) -> KeyStore:
    """The truststore's content."""
    return _store(tls.truststore_location, tls.truststore_type, tls.truststore_password, "truststore")


def _store(location: str, declared: str, password: Secret, which: str) -> KeyStore:
    data = read(location, f"ssl.{which}.location")
    kind = type_of(data)
    if kind is not None and declared not in ("JKS", kind):
        log.warning("ssl.%s.type=%s: %s is a %s store, and is read as one", which, declared, location, kind)
    if kind is StoreType.PEM and password:
        log.warning("ssl.%s.password has no effect: %s is PEM", which, location)
    return KeyStore(data, password, f"ssl.{which}.location={location}", f"ssl.{which}.password")


# -- the own key


class _KeyFiles(NamedTuple):
    chain: str
    key: str
    shown: str  # where they come from, for messages


def load_key(context: ssl.SSLContext, tls: TlsConfig) -> None:
    """The own certificate chain and its private key. UsageError names the setting at fault; nothing prompts."""
    with _key_files(tls) as (chain, key, shown):
        try:
            context.load_cert_chain(chain, key, _password(tls, shown))
        except ssl.SSLError as error:
            raise UsageError(f"{shown}: {_why_no_key(error, tls)}") from None


def _password(tls: TlsConfig, shown: str) -> Callable[[], str]:
    def password() -> str:
        """Called for an encrypted key only. Without it OpenSSL would ask at the terminal."""
        if not tls.key_password:
            raise UsageError(f"{shown}: the private key is encrypted: ssl.key.password is needed")
        return tls.key_password.reveal()

    return password


def _why_no_key(error: ssl.SSLError, tls: TlsConfig) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the private key does not belong to the certificate"
    if tls.key_password and error.reason in ("BAD_DECRYPT", "BAD_PASSWORD_READ", None):
        return "ssl.key.password does not open the private key"
    return f"certificate and private key cannot be used: {error.reason or 'no PEM'}"


@contextmanager
def _key_files(tls: TlsConfig) -> Iterator[_KeyFiles]:
    if tls.keystore_location:
        store = _store(tls.keystore_location, tls.keystore_type, tls.keystore_password, "keystore")
        found = key_material(store)
        with as_file(found.chain) as chain, as_file(found.key.reveal()) as key:
            yield _KeyFiles(chain, key, store.location)
        return
    with _chain_file(tls) as chain, _key_file(tls, chain) as key:
        yield _KeyFiles(chain, key, _shown(tls))


def _shown(tls: TlsConfig) -> str:
    chain = (
        f"ssl.certificate.location={tls.certificate_location}" if tls.certificate_location else "ssl.certificate.pem"
    )
    if tls.key_pem:
        return f"{chain}, ssl.key.pem"
    return f"{chain}, ssl.key.location={tls.key_location}" if tls.key_location else chain


@contextmanager
def _chain_file(tls: TlsConfig) -> Iterator[str]:
    if tls.certificate_location:
        read(tls.certificate_location, "ssl.certificate.location")
        yield tls.certificate_location
        return
    chain = certificates(tls.certificate_pem)
    if not chain:
        raise UsageError("ssl.certificate.pem: there is no certificate in this text")
    with as_file(chain) as path:
        yield path


@contextmanager
def _key_file(tls: TlsConfig, chain: str) -> Iterator[str]:
    if tls.key_location:
        read(tls.key_location, "ssl.key.location")
        yield tls.key_location
    elif tls.key_pem:
        keys = private_keys(tls.key_pem.reveal())
        if len(keys) != 1:
            raise UsageError(f"ssl.key.pem: one private key is needed, and this text has {len(keys)}")
        with as_file(keys[0]) as path:
            yield path
    else:
        yield chain


# -- files


def read(location: str, setting: str) -> bytes:
    """A file's content. UsageError names the setting."""
    try:
        return Path(location).read_bytes()
    except OSError as error:
        raise UsageError(f"{setting}={location}: {error.strerror}") from None


@contextmanager
def _readable(shown: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError as error:
        raise UsageError(f"{shown}: OpenSSL cannot read it: {error.reason}") from None


@contextmanager
def as_file(text: str) -> Iterator[str]:
    """A path from which this process, and no other, can read the text. Nothing is left behind."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("equipoise")
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:  # mode 0600
        file.write(text)
        file.flush()
        yield file.name

"""Truststores and keystores, as keytool and other tools write them. The bytes decide the format."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from equipoise.security.secrets import NO_SECRET, Secret
from equipoise.security.tls.stores import KeyStore, StoreType, key_material, trusted_certificates, type_of
from equipoise.wire.errors import UsageError
from tests.security.certificates import (
    PASSWORD,
    authority,
    ca_pem,
    chain_pem,
    java_keystore,
    java_truststore,
    key_pem,
    keytool,
    p12,
    stranger,
)

LOCATION = "ssl.truststore.location=trust"


def store(data: bytes, password: str = PASSWORD) -> KeyStore:
    return KeyStore(data, Secret(password), LOCATION, "ssl.truststore.password")


def subjects(pem: str) -> set[str]:
    return {one.subject.rfc4514_string() for one in x509.load_pem_x509_certificates(pem.encode())}


def refusal(data: bytes, password: str = PASSWORD, *, key: bool = False) -> str:
    with pytest.raises(UsageError) as raised:
        (key_material if key else trusted_certificates)(store(data, password))
    said = str(raised.value)
    assert said.startswith(LOCATION)
    assert password == "" or password not in said
    return said


BOTH = {*subjects(ca_pem(authority())), *subjects(ca_pem(stranger()))}


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_truststore_of_keytool(tmp_path: Path, kind: str) -> None:
    data = java_truststore(tmp_path, kind, authority(), stranger()).read_bytes()
    assert type_of(data) == kind
    assert subjects(trusted_certificates(store(data))) == BOTH
    assert "ssl.truststore.password is wrong" in refusal(data, "not-it")


def test_a_jks_truststore_without_a_password_is_read_unchecked(tmp_path: Path) -> None:
    data = java_truststore(tmp_path, "JKS", authority()).read_bytes()
    assert subjects(trusted_certificates(KeyStore(data, NO_SECRET, LOCATION, "x"))) == subjects(ca_pem(authority()))


def test_a_damaged_jks_truststore(tmp_path: Path) -> None:
    data = java_truststore(tmp_path, "JKS", authority()).read_bytes()
    changed = data[:200] + bytes([data[200] ^ 1]) + data[201:]
    assert "or the file is damaged" in refusal(changed)
    for size in (5, 11, 20, 40, 100, len(data) - 21):
        with pytest.raises(UsageError, match="it ends too early"):
            trusted_certificates(KeyStore(data[:size], NO_SECRET, LOCATION, "x"))
    tag = data[:12] + b"\0\0\0\x07" + data[16:]
    with pytest.raises(UsageError, match="an entry of unknown kind 7"):
        trusted_certificates(KeyStore(tag, NO_SECRET, LOCATION, "x"))


def test_entries_with_a_key_are_passed_over_in_a_jks_truststore(tmp_path: Path) -> None:
    path = java_keystore(tmp_path, "JKS")
    assert "there is no certificate in this file" in refusal(path.read_bytes())
    ca = tmp_path / "ca.pem"
    ca.write_text(ca_pem(authority()))
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", ca, "-keystore", path, "-storepass", PASSWORD)
    assert subjects(trusted_certificates(store(path.read_bytes()))) == subjects(ca_pem(authority()))


@pytest.mark.parametrize("kind", ["JKS", "JCEKS"])
def test_keys_of_java_s_own_cipher_are_refused_with_the_commands_that_convert(tmp_path: Path, kind: str) -> None:
    said = refusal(java_keystore(tmp_path, kind).read_bytes(), key=True)
    assert "keytool -importkeystore" in said
    assert "openssl pkcs12" in said


def test_a_jceks_truststore_is_refused_with_the_commands_that_convert(tmp_path: Path) -> None:
    data = java_truststore(tmp_path, "JCEKS", authority()).read_bytes()
    assert type_of(data) is StoreType.JCEKS
    assert "keytool -importkeystore" in refusal(data)


def test_a_pkcs12_keystore_of_keytool(tmp_path: Path) -> None:
    found = key_material(store(java_keystore(tmp_path, "PKCS12").read_bytes()))
    assert subjects(found.chain) == {"CN=me"}
    assert "PRIVATE KEY" in found.key.reveal()
    assert "PRIVATE KEY" not in repr(found)


def test_a_pkcs12_keystore_of_other_tools() -> None:
    leaf = authority().issue_cert("client@example.com")
    found = key_material(store(p12(leaf, [authority()])))
    assert found.chain.count("BEGIN CERTIFICATE") == 2
    assert found.chain.startswith(chain_pem(leaf).strip()[:200])  # the own certificate comes first
    assert key_material(store(p12(leaf, [], None), "")).key == found.key


def test_what_a_pkcs12_store_does_not_have() -> None:
    assert "there is no private key" in refusal(p12(None, [authority()]), key=True)
    assert "ssl.truststore.password is missing" in refusal(p12(None, [authority()]), "")
    assert "ssl.truststore.password is wrong" in refusal(p12(None, [authority()]), "not-it")


def test_pem_stores() -> None:
    leaf = authority().issue_cert("client@example.com")
    both = (key_pem(leaf) + chain_pem(leaf)).encode()
    assert type_of(both) is StoreType.PEM
    assert key_material(store(both)).chain == trusted_certificates(store(both))
    assert "there is no certificate" in refusal(key_pem(leaf).encode(), key=True)
    assert "there is no private key" in refusal(chain_pem(leaf).encode(), key=True)
    assert "2 private keys are in this file" in refusal(both + both, key=True)


@pytest.mark.parametrize("data", [b"", b"hello", b"\xca\xfe\xba\xbe"])
def test_no_store_at_all(data: bytes) -> None:
    assert "no PEM, PKCS12 or JKS store" in refusal(data)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    data, importing = p12(None, [authority()]), builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return importing(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'equipoise[keystores]'" in refusal(data)

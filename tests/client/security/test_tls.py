"""Contexts of TLS from settings, proved by handshakes in memory."""

from __future__ import annotations

import logging
import os
import pickle
import ssl
from pathlib import Path

import pytest

from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.parsing import parse_security
from equipoise.client.security.tls import make_context, trusts_nobody
from equipoise.security.tls.contexts import TlsConfig, as_file
from equipoise.wire.errors import UsageError
from tests.security.certificates import (
    PASSWORD,
    authority,
    ca_pem,
    chain_pem,
    crl,
    handshake,
    java_truststore,
    key_pem,
    p12,
    server_context,
    stranger,
    write,
)

SERVER = authority().issue_cert("localhost", "127.0.0.1")
CLIENT = authority().issue_cert("client@example.com")
OTHER = authority().issue_cert("other@example.com")


def secured(**settings: object) -> SecurityConfig:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    return parse_security({"security.protocol": "SSL", **named})


def context(**settings: object) -> ssl.SSLContext:
    made = secured(**settings).ssl_context()
    assert made is not None
    return made


def refusal(**settings: object) -> str:
    with pytest.raises(UsageError) as raised:
        context(**settings)
    said = str(raised.value)
    assert PASSWORD not in said
    assert "PRIVATE" not in said
    return said


@pytest.fixture
def ca_file(tmp_path: Path) -> str:
    return write(tmp_path / "ca.pem", ca_pem(authority()))


# -- trust


def test_the_authority_from_a_file_a_directory_a_text_and_a_store(tmp_path: Path, ca_file: str) -> None:
    for settings in (
        {"ssl_ca_location": ca_file},
        {"ssl_ca_location": str(tmp_path)},
        {"ssl_ca_pem": ca_pem(authority())},
        {"ssl_truststore_certificates": ca_pem(authority()).replace("\n", " ")},
        {"ssl_ca_pem": ca_pem(authority()).replace("\n", "\\n")},
        {"ssl_truststore_location": ca_file, "ssl_truststore_type": "PEM"},
        {"ssl_cafile": ca_file},
    ):
        assert handshake(context(**settings), server_context(SERVER)).version() == "TLSv1.3"


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_the_authority_from_a_store_of_java(tmp_path: Path, kind: str) -> None:
    store = java_truststore(tmp_path, kind, stranger(), authority())
    handshake(
        context(ssl_truststore_location=store, ssl_truststore_password=PASSWORD, ssl_truststore_type=kind),
        server_context(SERVER),
    )


def test_a_stranger_is_refused() -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        handshake(context(ssl_ca_pem=ca_pem(stranger())), server_context(SERVER))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context(), server_context(SERVER))  # the system's authorities do not know it either


def test_the_broker_s_own_certificate_may_be_the_anchor() -> None:
    """As in a truststore of Java, where any certificate is an anchor."""
    leaf = chain_pem(SERVER).partition("-----END CERTIFICATE-----\n")
    handshake(context(ssl_ca_pem=leaf[0] + leaf[1]), server_context(SERVER))


def test_the_host_name_is_checked_unless_it_is_switched_off(ca_file: str) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(context(ssl_ca_location=ca_file), server_context(SERVER), "elsewhere")
    for off in ("", "none", "NONE"):
        settings = {"ssl_ca_location": ca_file, "ssl_endpoint_identification_algorithm": off}
        handshake(context(**settings), server_context(SERVER), "elsewhere")
    handshake(context(ssl_ca_location=ca_file, ssl_check_hostname=False), server_context(SERVER), "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context(ssl_ca_pem=ca_pem(stranger()), ssl_check_hostname="false"), server_context(SERVER))


def test_verification_switched_off_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        made = make_context(TlsConfig(verifies=False))
    assert "enable.ssl.certificate.verification=false" in caplog.text
    handshake(made, server_context(SERVER), "elsewhere")
    assert secured(enable_ssl_certificate_verification="false").tls.verifies is False


def test_a_revoked_certificate_is_refused(tmp_path: Path, ca_file: str) -> None:
    clean = write(tmp_path / "clean.crl", crl(authority(), []))
    handshake(context(ssl_ca_location=ca_file, ssl_crl_location=clean), server_context(SERVER))
    revoked = write(tmp_path / "revoked.crl", crl(authority(), [SERVER]))
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate revoked"):
        handshake(context(ssl_ca_location=ca_file, ssl_crlfile=revoked), server_context(SERVER))


def test_places_without_certificates(tmp_path: Path) -> None:
    nothing = write(tmp_path / "empty.pem", "nothing")
    assert refusal(ssl_ca_location=nothing).startswith(f"ssl.ca.location={nothing}: there is no certificate")
    assert refusal(ssl_ca_pem="nothing").startswith("ssl.ca.pem: there is no certificate")
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
    assert refusal(ssl_ca_pem=broken).startswith("ssl.ca.pem: OpenSSL cannot read it")
    for name in ("ssl.ca.location", "ssl.truststore.location", "ssl.keystore.location", "ssl.crl.location"):
        settings = {name.replace(".", "_"): "/no/such/file"}
        if name == "ssl.crl.location":
            settings["ssl_ca_pem"] = ca_pem(authority())
        assert refusal(**settings) == f"{name}=/no/such/file: No such file or directory"


def test_the_system_s_authorities_are_the_default() -> None:
    made = context()
    assert made.verify_mode is ssl.CERT_REQUIRED
    assert made.check_hostname
    assert context(ssl_ca_location="probe").verify_mode is ssl.CERT_REQUIRED
    assert trusts_nobody(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)) is (ssl.get_default_verify_paths().capath is None)


# -- the client's certificate


def peer(**settings: object) -> ssl.SSLContext:
    return context(ssl_ca_pem=ca_pem(authority()), **settings)


def test_the_client_s_certificate_from_files_texts_and_stores(tmp_path: Path) -> None:
    wanting = server_context(SERVER, authority())
    chain, key = write(tmp_path / "c.pem", chain_pem(CLIENT)), write(tmp_path / "k.pem", key_pem(CLIENT))
    both = write(tmp_path / "both.pem", key_pem(CLIENT) + chain_pem(CLIENT))
    store = write(tmp_path / "c.p12", p12(CLIENT, [authority()]))
    for settings in (
        {"ssl_certificate_location": chain, "ssl_key_location": key},
        {"ssl_certfile": chain, "ssl_keyfile": key},
        {"ssl_certificate_location": both},
        {"ssl_certificate_pem": chain_pem(CLIENT), "ssl_key_pem": key_pem(CLIENT)},
        {"ssl_certificate_pem": chain_pem(CLIENT), "ssl_key_location": key},
        {"ssl_keystore_certificate_chain": chain_pem(CLIENT), "ssl_keystore_key": key_pem(CLIENT).replace("\n", " ")},
        {"ssl_keystore_location": both, "ssl_keystore_type": "PEM"},
        {"ssl_keystore_location": store, "ssl_keystore_password": PASSWORD},
    ):
        handshake(peer(**settings), wanting)
    with pytest.raises(ssl.SSLError, match="peer did not return a certificate"):
        handshake(peer(), wanting)


def test_an_encrypted_key_needs_its_password_and_never_prompts(tmp_path: Path) -> None:
    wanting = server_context(SERVER, authority())
    chain = write(tmp_path / "c.pem", chain_pem(CLIENT))
    key = write(tmp_path / "k.pem", key_pem(CLIENT, PASSWORD))
    store = write(tmp_path / "both.pem", key_pem(CLIENT, PASSWORD) + chain_pem(CLIENT))
    for settings in (
        {"ssl_certificate_location": chain, "ssl_key_location": key},
        {"ssl_certificate_pem": chain_pem(CLIENT), "ssl_key_pem": key_pem(CLIENT, PASSWORD)},
        {"ssl_keystore_location": store},
    ):
        handshake(peer(**settings, ssl_key_password=PASSWORD), wanting)
        assert "the private key is encrypted: ssl.key.password is needed" in refusal(**settings)
        assert "ssl.key.password does not open the private key" in refusal(**settings, ssl_password="not-it")


def test_a_key_of_another_certificate(tmp_path: Path) -> None:
    settings = {"ssl_certificate_pem": chain_pem(CLIENT), "ssl_key_pem": key_pem(OTHER)}
    assert refusal(**settings) == (
        "ssl.certificate.pem, ssl.key.pem: the private key does not belong to the certificate"
    )
    assert "one private key is needed, and this text has 0" in refusal(
        ssl_certificate_pem=chain_pem(CLIENT), ssl_key_pem="nothing"
    )
    assert "there is no certificate in this text" in refusal(ssl_certificate_pem="x", ssl_key_pem=key_pem(OTHER))


def test_text_passes_through_memory_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(os.listdir("/proc/self/fd"))
    peer(ssl_certificate_pem=chain_pem(CLIENT), ssl_key_pem=key_pem(CLIENT))
    assert set(os.listdir("/proc/self/fd")) == before
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with as_file("text") as path:
        assert Path(path).read_text() == "text"
        assert Path(path).stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.iterdir())


# -- versions and ciphers


def test_versions(ca_file: str) -> None:
    made = context(ssl_ca_location=ca_file, ssl_enabled_protocols="TLSv1.2")
    assert handshake(made, server_context(SERVER)).version() == "TLSv1.2"
    assert context(ssl_ca_location=ca_file).minimum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(UsageError, match=r"ssl\.enabled\.protocols=TLSv1: must be one or more of TLSv1\.2, TLSv1\.3"):
        secured(ssl_enabled_protocols="TLSv1")


@pytest.mark.parametrize(
    "names",
    ["ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256"],
)
def test_ciphers_under_openssl_s_names_and_iana_s(ca_file: str, names: str) -> None:
    made = context(ssl_ca_location=ca_file, ssl_enabled_protocols="TLSv1.2", ssl_cipher_suites=names)
    chosen = handshake(made, server_context(SERVER)).cipher()
    assert chosen is not None
    assert chosen[0] == "ECDHE-ECDSA-AES128-GCM-SHA256"


def test_ciphers_that_cannot_be_chosen(caplog: pytest.LogCaptureFixture) -> None:
    assert "TLS_NONSENSE is unknown" in refusal(ssl_cipher_suites="TLS_NONSENSE")
    assert refusal(ssl_cipher_suites="NONSENSE") == "ssl.cipher.suites=NONSENSE: OpenSSL knows none of these"
    with caplog.at_level(logging.WARNING):
        context(ssl_cipher_suites="TLS_AES_128_GCM_SHA256")
    assert "suites of TLS 1.3 cannot be chosen" in caplog.text


# -- the store of contexts


def test_equal_settings_share_one_context_and_a_pickle_finds_it_again(ca_file: str) -> None:
    config = secured(ssl_ca_location=ca_file)
    assert config.ssl_context() is secured(ssl_ca_location=ca_file).ssl_context()
    assert pickle.loads(pickle.dumps(config)).ssl_context() is config.ssl_context()
    assert parse_security({}).ssl_context() is None
    assert parse_security({"security.protocol": "PLAINTEXT"}).ssl_context() is None


def test_a_context_of_the_application() -> None:
    own = ssl.create_default_context()
    assert secured(ssl_context=own).ssl_context() is own
    with pytest.raises(UsageError, match=r"leave ssl\.ca\.location out"):
        secured(ssl_context=own, ssl_cafile="x")


def test_renewed_certificates_are_used_by_the_next_connection(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "ca.pem"
    write(file, ca_pem(stranger()))
    config = secured(ssl_ca_location=file)
    first = config.ssl_context()
    write(file, "half of ")
    os.utime(file, ns=(1, 1))
    with caplog.at_level(logging.WARNING):
        assert config.ssl_context() is first
    assert "the old ones go on" in caplog.text
    write(file, ca_pem(authority()))
    os.utime(file, ns=(2, 2))
    renewed = config.ssl_context()
    assert renewed is not None
    handshake(renewed, server_context(SERVER))

"""TLS listeners: handshakes, what is refused, principals of mutual TLS, renewed certificates, large answers."""

from __future__ import annotations

import datetime
import socket
import ssl
from pathlib import Path

import pytest
import trustme

from equipoise.broker import Broker
from equipoise.broker.net.tls_connection import PIECE
from equipoise.broker.security.quick import Security
from equipoise.wire.apis.k03_metadata import MetadataRequest
from equipoise.wire.errors import ErrorCode, UsageError
from tests.broker.calls import append, create_topic, fetch, stored
from tests.broker.conftest import Connect, StandingClock, Start, advance, eventually
from tests.broker.rawclient import request_frame
from tests.broker.secured import ALICE, ScramClient, authority, context, principals, stranger, tls_settings

METADATA = MetadataRequest(topics=[])


@pytest.fixture
def secured(start: Start, tmp_path: Path) -> Broker:
    return start(tls_settings(tmp_path))


def test_a_client_that_trusts_the_authority_is_served(secured: Broker, connect: Connect) -> None:
    assert connect(secured, tls=context()).call(METADATA).brokers
    assert principals(secured) == ["User:ANONYMOUS"]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_sasl_goes_over_tls(start: Start, connect: Connect, tmp_path: Path, mechanism: str) -> None:
    broker = start(tls_settings(tmp_path, "SASL_SSL"))
    client = connect(broker, tls=context())
    is_plain = mechanism == "PLAIN"
    answer = client.authenticate("PLAIN", ALICE) if is_plain else ScramClient(mechanism=mechanism).run(client)
    assert answer.error_code == ErrorCode.NONE
    assert client.call(METADATA).brokers
    assert principals(broker) == ["User:alice"]


def test_an_answer_larger_than_a_piece_comes_whole(secured: Broker, connect: Connect) -> None:
    client = connect(secured, tls=context())
    create_topic(client)
    payload = bytes(range(256)) * 3000
    for _ in range(6):
        append(client, payload)
    records = stored(fetch(client, max_bytes=50_000_000, partition_max_bytes=50_000_000))
    assert len(records) > 4 * PIECE
    assert records.count(payload) == 6


# -- what is no TLS


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (request_frame(METADATA, 12), "plain text; this listener speaks TLS: set security.protocol=SSL or SASL_SSL"),
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "an HTTP request"),
    ],
)
def test_plain_text_is_told_what_the_port_speaks(
    secured: Broker, connect: Connect, caplog: pytest.LogCaptureFixture, data: bytes, advice: str
) -> None:
    client = connect(secured)
    client.send_bytes(data)
    client.wait_closed()
    assert caplog.text.count(advice) == 1
    assert "Traceback" not in caplog.text
    assert connect(secured, tls=context()).call(METADATA).brokers


def test_plain_text_is_answered_with_an_alert(secured: Broker) -> None:
    host, _, port = secured.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        plain.sendall(request_frame(METADATA, 12))
        assert plain.recv(2) == b"\x15\x03"


def test_old_versions_are_refused(secured: Broker, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    old = context()
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(secured, tls=old)
    eventually(lambda: "too old" in caplog.text, "the log says why")


@pytest.mark.parametrize("ciphers", ["eNULL", "aNULL"], ids=["no secrecy", "no certificate"])
def test_weak_ciphers_are_refused(
    secured: Broker, connect: Connect, caplog: pytest.LogCaptureFixture, ciphers: str
) -> None:
    """OpenSSL no longer knows those of the export laws; these are the weakest that it still has."""
    weak = context()
    weak.maximum_version = ssl.TLSVersion.TLSv1_2
    weak.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(secured, tls=weak)
    eventually(lambda: "no cipher in common" in caplog.text, "the log says why")


def test_a_client_that_says_nothing_is_closed_at_the_deadline(start: Start, connect: Connect, tmp_path: Path) -> None:
    clock = StandingClock()
    broker = start(tls_settings(tmp_path, request_receive_timeout_ms=300), clock=clock)
    silent = [connect(broker) for _ in range(50)]
    begun = connect(broker)
    begun.send_bytes(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello

    def handshakes() -> int:
        return broker.call(lambda server: len(server.listeners.all[0].handshakes))

    eventually(lambda: handshakes() == 51, "all have begun")
    assert connect(broker, tls=context()).call(METADATA).brokers
    advance(broker, clock, 299)
    assert handshakes() == 51
    advance(broker, clock, 1)
    for client in (*silent, begun):
        client.wait_closed()
    eventually(lambda: not handshakes(), "no handshake is left")


def test_handshakes_count_as_connections(start: Start, connect: Connect, tmp_path: Path) -> None:
    broker = start(tls_settings(tmp_path, max_connections_per_ip=3))
    silent = [connect(broker) for _ in range(3)]
    eventually(lambda: broker.call(lambda server: len(server.listeners.all[0].handshakes)) == 3, "all three wait")
    connect(broker).wait_closed()
    for client in silent:
        client.close()

    def is_served() -> bool:
        try:
            return bool(connect(broker, tls=context()).call(METADATA).brokers)
        except (OSError, ssl.SSLError):
            return False

    eventually(is_served, "their places are free again")


# -- who is refused


def expired() -> trustme.LeafCert:
    now = datetime.datetime.now(datetime.UTC)
    return authority().issue_cert("app", not_before=now - datetime.timedelta(9), not_after=now - datetime.timedelta(1))


@pytest.mark.parametrize("which", ["none", "expired", "stranger"])
def test_mutual_tls_lets_nobody_in_without_a_good_certificate(
    start: Start, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture, which: str
) -> None:
    broker = start(tls_settings(tmp_path, ssl_client_auth="required"))
    leaf = None if which == "none" else expired() if which == "expired" else stranger().issue_cert("app")
    alert = {"none": "CERTIFICATE_REQUIRED", "expired": "CERTIFICATE_EXPIRED", "stranger": "UNKNOWN_CA"}[which]
    with pytest.raises(ssl.SSLError, match=f"ALERT_{alert}"):
        connect(broker, tls=context(leaf)).call(METADATA)
    words = {"none": "showed no certificate", "expired": "has expired", "stranger": "certificate is refused"}[which]
    eventually(lambda: words in caplog.text, "the log says why")


@pytest.mark.parametrize(("auth", "has_one"), [("required", True), ("requested", True), ("requested", False)])
def test_the_principal_of_mutual_tls_is_the_subject(
    start: Start, connect: Connect, tmp_path: Path, auth: str, has_one: bool
) -> None:
    broker = start(tls_settings(tmp_path, ssl_client_auth=auth))
    leaf = authority().issue_cert("app", organization_name="Org, Inc", organization_unit_name="U", common_name="app")
    assert connect(broker, tls=context(leaf if has_one else None)).call(METADATA).brokers
    assert principals(broker) == ["User:CN=app,OU=U,O=Org\\, Inc" if has_one else "User:ANONYMOUS"]


def test_rules_map_the_subject_and_who_fits_none_is_not_let_in(
    start: Start, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rules = "RULE:^CN=(app.*?),.*$/$1/U"
    broker = start(tls_settings(tmp_path, ssl_client_auth="required", ssl_principal_mapping_rules=rules))
    assert connect(broker, tls=context(authority().issue_cert("x", common_name="app1"))).call(METADATA).brokers
    assert principals(broker) == ["User:APP1"]
    other = connect(broker, tls=context(authority().issue_cert("x", common_name="other")))
    with pytest.raises((ssl.SSLError, ConnectionError)):
        other.call(METADATA)
    eventually(lambda: "no rule of ssl.principal.mapping.rules applies" in caplog.text, "the log says why")


def test_on_a_sasl_listener_the_certificate_is_not_the_principal(
    start: Start, connect: Connect, tmp_path: Path
) -> None:
    settings = tls_settings(tmp_path, "SASL_SSL") | {"listener.name.sasl_ssl.ssl.client.auth": "required"}
    broker = start(settings)
    client = connect(broker, tls=context(authority().issue_cert("app", common_name="app")))
    client.authenticate("PLAIN", ALICE)
    assert principals(broker) == ["User:alice"]


# -- certificates


def number(broker: Broker) -> int:
    """The serial number of the certificate that new connections see."""
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=60) as plain,
        context().wrap_socket(plain, server_hostname=host) as tls,
    ):
        found = tls.getpeercert()
    assert found is not None
    return int(str(found["serialNumber"]), 16)


def reload(broker: Broker) -> None:
    broker.call(lambda server: server.listeners.reload())


def test_a_renewed_certificate_serves_new_connections_and_a_half_written_pair_does_not(
    start: Start, connect: Connect, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = tls_settings(tmp_path)
    del settings["ssl.keystore.location"]
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"

    def write(leaf: trustme.LeafCert, *, only_chain: bool = False) -> None:
        leaf.cert_chain_pems[0].write_to_path(chain)
        if not only_chain:
            leaf.private_key_pem.write_to_path(key)

    write(authority().issue_cert("127.0.0.1"))
    broker = start(settings | {"ssl.certificate.location": chain, "ssl.key.location": key})
    before, old = number(broker), connect(broker, tls=context())
    old.call(METADATA)
    renewed = authority().issue_cert("127.0.0.1")
    write(renewed, only_chain=True)
    reload(broker)
    assert number(broker) == before
    assert "the certificates stay as they were" in caplog.text
    write(renewed)
    reload(broker)
    assert number(broker) != before
    assert old.call(METADATA).brokers


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"ssl_keystore_location": ""}, "TLS needs a key and a certificate"),
        ({"ssl_keystore_location": "/nowhere.pem"}, "No such file"),
        ({"ssl_client_auth": "required", "ssl_truststore_location": ""}, "needs the CA certificates of clients"),
    ],
)
def test_what_is_missing_is_a_start_error(start: Start, tmp_path: Path, more: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        start(tls_settings(tmp_path, "SSL", **more))


# -- in one line


def test_a_broker_with_an_authority_of_its_own(tmp_path: Path, connect: Connect) -> None:
    with Broker(security="SASL_SSL", users={"alice": "alice-secret"}, data=tmp_path / "data") as broker:
        assert broker.ca_file == tmp_path / "data" / "tls" / "ca.pem"
        own = ssl.create_default_context(cafile=str(broker.ca_file))
        assert connect(broker, tls=own).authenticate("PLAIN", ALICE).error_code == ErrorCode.NONE
        first = broker.ca_file.read_bytes()
        for name in ("ca.key", "broker.pem"):
            assert (tmp_path / "data" / "tls" / name).stat().st_mode & 0o777 == 0o600
        assert "alice-secret" not in repr(broker.call(lambda server: server.config))
    with Broker(security="SSL", data=tmp_path / "data") as broker:
        assert broker.ca_file.read_bytes() == first
        assert connect(broker, tls=own).call(METADATA).brokers


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"security": "TLS"}, "must be one of"),
        ({"security": "SASL_SSL"}, "users="),
        ({"security": "SSL", "users": {"a": "b"}}, "users="),
        ({"security": "SSL", "settings": {"listeners": "PLAINTEXT://:1"}}, "leave --listen"),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        Broker(**options)  # type: ignore[arg-type]


def test_the_command_takes_listeners_from_the_settings() -> None:
    given = {"listeners": "INSIDE://127.0.0.1:9092"}
    assert Security.from_command(None, tls=False, users=None).settings(given, None) == given
    with pytest.raises(UsageError, match="leave --listen"):
        Security.from_command(None, tls=False, users=None).settings(given, "127.0.0.1:9093")
    with pytest.raises(UsageError, match="leave --listen"):
        Security.from_command(None, tls=True, users=None).settings(given, None)

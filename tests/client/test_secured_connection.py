"""Both connections behind TLS and SASL: what is sent in which order, and what each failure says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import uvloop

from equipoise.client.net.blocking import Connection
from equipoise.client.net.connection import AsyncConnection
from equipoise.client.net.errors import AuthenticationError, KafkaConnectionError, RefusedTokenError, TlsError, is_final
from equipoise.client.net.tls_failure import server_name
from equipoise.client.security.config import SecurityConfig
from equipoise.client.security.login import login_of
from equipoise.client.security.parsing import security_from_keywords
from equipoise.security.sasl.scram import salted_password
from equipoise.wire.apis.k03_metadata import MetadataRequest, MetadataResponse
from equipoise.wire.errors import EquipoiseError, UsageError
from tests.client.secured import MECHANISMS, SecuredBroker, authority, ca_file, other_authority, server_context

Reach = Callable[..., None]
METADATA = MetadataRequest(topics=[])
SASL = {"sasl_username": "alice", "sasl_password": "alice-secret"}
LIFE_S = 3600  # of a session


def _blocking(
    port: int, security: SecurityConfig, requests: int = 1, *, host: str = "127.0.0.1", timeout: float = 10
) -> None:
    with Connection(host, port, security=security, timeout=timeout) as connection:
        asked = [connection.ask(METADATA) for _ in range(requests)]
        for one in asked:
            assert connection.answer(one, MetadataResponse).cluster_id == "secured"
        assert connection.is_quiet
        assert connection.send(METADATA, MetadataResponse).cluster_id == "secured"


async def _on_loop(
    port: int, security: SecurityConfig, requests: int = 1, *, host: str = "127.0.0.1", timeout: float = 10
) -> None:
    connection = await AsyncConnection.connect(host, port, security=security, timeout=timeout)
    try:
        answers = await asyncio.gather(*(connection.send(METADATA, MetadataResponse, 10) for _ in range(requests + 1)))
        assert {answer.cluster_id for answer in answers} == {"secured"}
    finally:
        connection.close()


@pytest.fixture(params=["blocking", "asyncio", "uvloop"])
def reach(request: pytest.FixtureRequest) -> Reach:
    if request.param == "blocking":
        return _blocking
    factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop

    def run(*args: Any, **options: Any) -> None:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(_on_loop(*args, **options))

    return run


@pytest.fixture(autouse=True)
def _no_kept_logins() -> None:
    login_of.cache_clear()


def trusting(directory: Path, protocol: str = "SSL", **settings: Any) -> SecurityConfig:
    return security_from_keywords(
        security_protocol=protocol, ssl_ca_location=ca_file(directory, authority()), **settings
    )


def secured(*names: str, **options: Any) -> ssl.SSLContext:
    return server_context(authority().issue_cert(*(names or ("127.0.0.1",)), **options))


# -- TLS


def test_tls(reach: Reach, tmp_path: Path) -> None:
    with SecuredBroker(secured("localhost")) as broker:
        reach(broker.port, trusting(tmp_path), 50, host="localhost")
    assert broker.log == [[18] + [3] * 51]
    assert server_name("kafka.example.org.") == "kafka.example.org"


def test_mutual_tls(reach: Reach, tmp_path: Path) -> None:
    mine = other_authority().issue_cert("client@example.org")
    path = tmp_path / "client.pem"
    mine.private_key_and_cert_chain_pem.write_to_path(path)
    context = server_context(authority().issue_cert("127.0.0.1"), other_authority())
    with SecuredBroker(context) as broker:
        reach(broker.port, trusting(tmp_path, ssl_certificate_location=str(path), ssl_key_location=str(path)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_missing_client_certificate_is_named(reach: Reach, tmp_path: Path, version: ssl.TLSVersion) -> None:
    context = server_context(authority().issue_cert("127.0.0.1"), other_authority())
    context.minimum_version = context.maximum_version = version
    with SecuredBroker(context) as broker:
        failure = fails(reach, broker.port, trusting(tmp_path), TlsError)
    assert "wants a client certificate" in failure


def test_a_client_certificate_of_another_authority(reach: Reach, tmp_path: Path) -> None:
    path = tmp_path / "client.pem"
    authority().issue_cert("client@example.org").private_key_and_cert_chain_pem.write_to_path(path)
    context = server_context(authority().issue_cert("127.0.0.1"), other_authority())
    with SecuredBroker(context) as broker:
        security = trusting(tmp_path, ssl_certificate_location=str(path), ssl_key_location=str(path))
        assert "does not accept this client's certificate" in fails(reach, broker.port, security, TlsError)


def test_another_authority(reach: Reach, tmp_path: Path) -> None:
    security = security_from_keywords(security_protocol="SSL", ssl_ca_location=ca_file(tmp_path, other_authority()))
    with SecuredBroker(secured()) as broker:
        assert "authority that this client does not trust" in fails(reach, broker.port, security, TlsError)
    assert broker.log == []


def test_an_expired_certificate_names_the_date(reach: Reach, tmp_path: Path) -> None:
    context = secured(not_after=datetime(2020, 5, 4, tzinfo=UTC), not_before=datetime(2019, 1, 1, tzinfo=UTC))
    with SecuredBroker(context) as broker:
        assert "has expired (May  4 00:00:00 2020 GMT)" in fails(reach, broker.port, trusting(tmp_path), TlsError)


def test_a_certificate_that_is_not_valid_yet(reach: Reach, tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(days=3)
    with SecuredBroker(secured(not_before=soon, not_after=soon + timedelta(days=1))) as broker:
        assert "is not yet valid" in fails(reach, broker.port, trusting(tmp_path), TlsError)


@pytest.mark.parametrize("names", [("kafka.example.org", "b2.example.org"), ("*.example.org",), ("10.0.0.1",)])
def test_another_host_name_lists_those_of_the_certificate(reach: Reach, tmp_path: Path, names: tuple[str, ...]) -> None:
    with SecuredBroker(secured(*names)) as broker:
        failure = fails(reach, broker.port, trusting(tmp_path), TlsError)
        assert f"is not for 127.0.0.1, it is for {', '.join(names)}" in failure
        reach(broker.port, trusting(tmp_path, ssl_endpoint_identification_algorithm="none"))


def test_tls_on_a_plain_port_says_so(reach: Reach, tmp_path: Path) -> None:
    with SecuredBroker() as broker:
        assert "speaks plain text, and this client speaks TLS" in fails(
            reach, broker.port, trusting(tmp_path), TlsError
        )


def test_plain_text_on_a_tls_port_says_so(reach: Reach) -> None:
    with SecuredBroker(secured()) as broker:
        assert "speaks TLS, and this client speaks plain text" in fails(reach, broker.port, SecurityConfig(), TlsError)


def test_a_handshake_that_hangs_is_named(reach: Reach, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        failure = fails(reach, port, trusting(tmp_path), KafkaConnectionError, timeout=0.3)
    assert "did not end the TLS handshake within 0.3 s" in failure


def test_connections_that_are_reset_before_their_handshake(tmp_path: Path) -> None:
    """Each fails at once: uvloop begins no handshake on a transport that has closed, and ends none."""
    security, told = trusting(tmp_path), []

    async def connect_all(port: int) -> list[Any]:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        connects = (AsyncConnection.connect("127.0.0.1", port, security=security, timeout=5) for _ in range(40))
        return await asyncio.wait_for(asyncio.gather(*connects, return_exceptions=True), 20)

    with resetting() as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        failures = runner.run(connect_all(port))
    assert all(isinstance(failure, KafkaConnectionError) for failure in failures)  # of the handshake, or of connecting
    assert "within" not in str(failures), "it waited for its deadline"
    assert not told


@contextmanager
def resetting() -> Iterator[int]:
    """A port that resets each connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listening:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted, _ = listening.accept()
                    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    accepted.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_one_time_limit_covers_all_steps(reach: Reach, tmp_path: Path) -> None:
    with SecuredBroker(secured(), MECHANISMS, silent_at=36) as broker:
        security = trusting(tmp_path, "SASL_SSL", sasl_mechanism="PLAIN", **SASL)
        failure = fails(reach, broker.port, security, KafkaConnectionError, timeout=3.0)
    assert "SaslAuthenticate" in failure
    assert "during SASL with PLAIN" in failure


# -- SASL


def sasl(mechanism: str, **settings: Any) -> SecurityConfig:
    if mechanism == "OAUTHBEARER":
        given: dict[str, Any] = {"sasl_oauthbearer_callback": lambda config: ("good-token", 4e9), **settings}
    else:
        given = {**SASL, **settings}
    return security_from_keywords(security_protocol="SASL_PLAINTEXT", sasl_mechanism=mechanism, **given)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_mechanism(reach: Reach, tmp_path: Path, mechanism: str) -> None:
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        reach(broker.port, sasl(mechanism), 5)
    steps = 2 if mechanism.startswith("SCRAM") else 1
    assert broker.log == [[18, 17] + [36] * steps + [3] * 6]
    assert broker.principals == ["bearer" if mechanism == "OAUTHBEARER" else "alice"]


def test_tls_and_scram_together(reach: Reach, tmp_path: Path) -> None:
    with SecuredBroker(secured(), MECHANISMS) as broker:
        reach(broker.port, trusting(tmp_path, "SASL_SSL", sasl_mechanism="SCRAM-SHA-512", **SASL))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("name", ["a=b,c", "User:x", "*", "x" * 300])
def test_odd_names(reach: Reach, mechanism: str, name: str) -> None:
    with SecuredBroker(mechanisms=MECHANISMS, users={name: "p,=ä\u2168"}) as broker:
        reach(broker.port, sasl(mechanism, sasl_username=name, sasl_password="p,=ä\u2168"))
    assert broker.principals == [name]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_final_and_is_not_shown(reach: Reach, mechanism: str) -> None:
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        failure = fails(reach, broker.port, sasl(mechanism, sasl_password="wrong-secret"), AuthenticationError)
    assert f"refuses the login with {mechanism}: Authentication failed" in failure
    assert "Check sasl.username and sasl.password" in failure
    assert "wrong-secret" not in failure


def test_an_unknown_mechanism_lists_those_that_are_offered(reach: Reach) -> None:
    with SecuredBroker(mechanisms=("PLAIN", "SCRAM-SHA-512")) as broker:
        failure = fails(reach, broker.port, sasl("SCRAM-SHA-256"), AuthenticationError)
    assert "does not offer SCRAM-SHA-256, it offers PLAIN, SCRAM-SHA-512" in failure


def test_a_port_without_sasl(reach: Reach) -> None:
    with SecuredBroker() as broker:
        assert "expects no SASL on this port" in fails(reach, broker.port, sasl("PLAIN"), AuthenticationError)


@pytest.mark.parametrize("newest", [{17: -1}, {17: 0}])
def test_a_broker_that_is_too_old(reach: Reach, newest: dict[int, int]) -> None:
    with SecuredBroker(mechanisms=MECHANISMS, newest=newest) as broker:
        failure = fails(reach, broker.port, sasl("PLAIN"), AuthenticationError)
    assert "offers no SASL" in failure or "older than Kafka 1.0" in failure


def test_a_broker_that_closes_in_the_middle(reach: Reach) -> None:
    with SecuredBroker(mechanisms=MECHANISMS, closes_at=36) as broker:
        failure = fails(reach, broker.port, sasl("PLAIN"), KafkaConnectionError)
    assert "closed the connection" in failure
    assert "during SASL with PLAIN" in failure


def test_plain_login_where_sasl_is_wanted_is_closed_by_the_broker(reach: Reach) -> None:
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        fails(reach, broker.port, SecurityConfig(), KafkaConnectionError)
    assert broker.log == [[18, 3]]


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        (lambda first: first.replace(b"i=4096", b"i=1"), "could be guessed"),
        (lambda first: first.replace(b"i=4096", b"i=1000000000"), "is the most"),
        (lambda first: b"r=other" + first[first.index(b",s=") :], "nonce"),
        (lambda first: b"m=x," + first, "mandatory"),
        (lambda first: b"", "server-first"),
    ],
)
def test_a_hostile_broker_gets_no_proof(reach: Reach, lie: Callable[[bytes], bytes], why: str) -> None:
    with SecuredBroker(mechanisms=MECHANISMS, tamper_first=lie) as broker:
        assert why in fails(reach, broker.port, sasl("SCRAM-SHA-256"), AuthenticationError)
    assert broker.log == [[18, 17, 36]]


@pytest.mark.parametrize("lie", [b"v=AAAA", b"", b"e=no"])
def test_a_broker_that_does_not_know_the_password_is_not_spoken_to(reach: Reach, lie: bytes) -> None:
    with SecuredBroker(mechanisms=MECHANISMS, tamper_final=lambda _: lie) as broker:
        fails(reach, broker.port, sasl("SCRAM-SHA-256"), AuthenticationError)
    assert broker.log == [[18, 17, 36, 36]]


@pytest.fixture
def salting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The threads on which passwords were salted."""
    threads: list[int] = []

    def salted(mechanism: str, password: bytes, salt: bytes, iterations: int) -> bytes:
        threads.append(threading.get_ident())
        return salted_password(mechanism, password, salt, iterations)

    monkeypatch.setattr("equipoise.client.security.login.salted_password", salted)
    return threads


def test_a_password_is_salted_once(salting: list[int]) -> None:
    with SecuredBroker(mechanisms=MECHANISMS, iterations=20_000) as broker:
        for _ in range(3):
            _blocking(broker.port, sasl("SCRAM-SHA-512"))
    assert len(salting) == 1


def test_a_long_hash_does_not_hold_up_the_loop(salting: list[int]) -> None:
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        asyncio.run(_on_loop(broker.port, sasl("SCRAM-SHA-512")))
    assert len(salting) == 1
    assert threading.get_ident() not in salting


def test_gssapi_is_refused_with_advice(reach: Reach) -> None:
    security = security_from_keywords(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")
    with pytest.raises(UsageError, match=r"GSSAPI .* is not offered: set sasl.mechanism to SCRAM-SHA-512"):
        reach(1, security)


# -- OAUTHBEARER


def test_a_refused_token_is_fetched_anew_once(reach: Reach) -> None:
    given = iter(["withdrawn", "good-token"])
    security = sasl("OAUTHBEARER", sasl_oauthbearer_callback=lambda config: (next(given), 4e9))
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        if reach is not _blocking:  # the pool connects again
            fails(reach, broker.port, security, RefusedTokenError)
        reach(broker.port, security)
    assert broker.log[-2:] == [[18, 17, 36, 36], [18, 17, 36, 3, 3]]


def test_a_token_that_is_refused_again_is_final(reach: Reach) -> None:
    security = sasl("OAUTHBEARER", sasl_oauthbearer_callback=lambda config: ("bad", 4e9))
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        if reach is not _blocking:
            assert not is_final(_failure(reach, broker.port, security))
        assert "status=invalid_token" in fails(reach, broker.port, security, AuthenticationError)
    assert len(broker.log) == 2


def test_extensions_reach_the_broker(reach: Reach) -> None:
    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        security = sasl("OAUTHBEARER", sasl_oauthbearer_extensions="logicalCluster=lkc-1,identityPoolId=pool-2")
        reach(broker.port, security)
    assert broker.extensions == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}


def test_a_coroutine_gives_tokens(reach: Reach) -> None:
    async def token(config: str) -> tuple[str, float]:
        await asyncio.sleep(0)
        return "good-token", 4e9

    with SecuredBroker(mechanisms=MECHANISMS) as broker:
        security = sasl("OAUTHBEARER", sasl_oauthbearer_callback=token)
        reach(broker.port, security)
        reach(broker.port, security)


# -- another login on the same connection


def test_a_session_is_renewed_before_it_ends(reach: Reach) -> None:
    with (
        SecuredBroker(mechanisms=MECHANISMS, lifetime_ms=LIFE_S * 1000) as broker,
        renewing(reach, broker, sasl("SCRAM-SHA-256")) as (send, pass_a_life),
    ):
        send(3)
        pass_a_life()
        send(4)
        pass_a_life()
        send(1)
    login = [17, 36, 36]
    assert broker.log == [[18, *login, 3, 3, 3, *login, 3, 3, 3, 3, *login, 3]]
    assert broker.principals == ["alice"] * 3


def test_requests_under_way_are_answered_before_a_renewal(reach: Reach) -> None:
    with (
        SecuredBroker(mechanisms=MECHANISMS, lifetime_ms=LIFE_S * 1000, delay_s=0.3) as broker,
        renewing(reach, broker, sasl("PLAIN")) as (send, pass_a_life),
        ThreadPoolExecutor() as other,
    ):

        def pass_one_meanwhile() -> None:
            end = time.monotonic() + 30
            while broker.log[0].count(3) < 2:
                assert time.monotonic() < end
                time.sleep(0.01)
            pass_a_life()

        passed = other.submit(pass_one_meanwhile)
        send(6, apart_s=0.25)
        passed.result(30)
        send(1)  # on a slow machine the session ends only now
    assert [asked.count(3) for asked in broker.log] == [7]
    assert broker.log[0].count(17) == 2


def test_a_renewal_that_fails_ends_the_connection_alone(reach: Reach) -> None:
    with (
        SecuredBroker(mechanisms=MECHANISMS, lifetime_ms=LIFE_S * 1000) as broker,
        renewing(reach, broker, sasl("PLAIN")) as (send, pass_a_life),
    ):
        send(1)
        broker.users["alice"] = "changed"
        pass_a_life()
        with pytest.raises(KafkaConnectionError, match="could not be renewed"):
            send(1)
    assert broker.log == [[18, 17, 36, 3, 17, 36]]


# -- tools


def pass_a_life(connection: Any, now: Callable[[], float]) -> None:
    """The renewal, which is due before the session ends, is due now."""
    assert 0.8 * LIFE_S < connection._renew_at - now() < 0.96 * LIFE_S  # 85 to 95 %, less the time since the login
    connection._renew_at = now()


@contextmanager
def renewing(
    reach: Reach, broker: SecuredBroker, security: SecurityConfig
) -> Iterator[tuple[Callable[..., None], Callable[[], None]]]:
    """One connection that stays open, on any kind of loop: sends requests, and lets a session come to its end."""
    if reach is _blocking:
        with Connection("127.0.0.1", broker.port, security=security) as connection:

            def send(count: int, apart_s: float = 0) -> None:
                asked = []
                for _ in range(count):
                    asked.append(connection.ask(METADATA))
                    threading.Event().wait(apart_s)
                for one in asked:
                    connection.answer(one, MetadataResponse)

            yield send, lambda: pass_a_life(connection, time.monotonic)
        return
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        open_one = AsyncConnection.connect("127.0.0.1", broker.port, security=security)
        on_loop = runner.run(open_one)

        async def send_all(count: int, apart_s: float) -> None:
            asked = []
            for _ in range(count):
                asked.append(asyncio.create_task(on_loop.send(METADATA, MetadataResponse, 10)))
                await asyncio.sleep(apart_s)
            await asyncio.gather(*asked)

        yield (
            lambda count, apart_s=0: runner.run(send_all(count, apart_s)),
            lambda: pass_a_life(on_loop, runner.get_loop().time),
        )
        on_loop.close()


def fails(reach: Reach, port: int, security: SecurityConfig, kind: type[EquipoiseError], **options: Any) -> str:
    error = _failure(reach, port, security, **options)
    assert type(error) is kind, error
    assert is_final(error) == (kind in (TlsError, AuthenticationError))
    return str(error)


def _failure(reach: Reach, port: int, security: SecurityConfig, **options: Any) -> EquipoiseError:
    with pytest.raises(EquipoiseError) as raised:
        reach(port, security, **options)
    return raised.value

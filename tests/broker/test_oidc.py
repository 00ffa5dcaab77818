"""OIDC from end to end: clients exchange their credentials for signed tokens, and the broker verifies them by the
issuer's keys. Our clients and confluent-kafka do it; a token that ends is replaced under load."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import confluent_kafka
import pytest

from equipoise import Consumer, Producer
from equipoise.broker import Broker
from equipoise.errors import AuthenticationError
from tests.broker.secured import authority, principals, tls_settings
from tests.security.tokens import Issuer, claims

CREDENTIALS = {"alice": "alice-secret", "bob": "bob-secret"}


class Provider(ThreadingHTTPServer):
    """An issuer: its token endpoint, and its keys. `life_s`: of the tokens that it gives."""

    def __init__(self) -> None:
        self.issuer, self.life_s = Issuer(), 600.0
        self.given: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(handler) -> None:
                self.answer(handler, 200, self.issuer.key_set())

            def do_POST(handler) -> None:
                handler.rfile.read(int(handler.headers["Content-Length"]))
                name = self.user_of(handler.headers["Authorization"])
                if name is None:
                    self.answer(handler, 401, '{"error": "invalid_client"}')
                else:
                    self.answer(handler, 200, self.token_for(name))

            def log_message(handler, *_: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @staticmethod
    def answer(handler: BaseHTTPRequestHandler, status: int, body: str) -> None:
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body.encode())

    @staticmethod
    def user_of(authorization: str) -> str | None:
        for name, password in CREDENTIALS.items():
            if authorization == "Basic " + b64encode(f"{name}:{password}".encode()).decode():
                return name
        return None

    def token_for(self, name: str) -> str:
        self.given.append(name)
        now = time.time()
        token = self.issuer.token(claims(now, sub=name, exp=now + self.life_s), "ES256")
        return json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": self.life_s})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def broker(provider: Provider, tmp_path: Path) -> Iterator[Broker]:
    settings = tls_settings(tmp_path, "SASL_SSL") | {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "kafka",
        "group.initial.rebalance.delay.ms": 0,
    }
    del settings["sasl.jaas.config"], settings["sasl.oauthbearer.unsecured"]
    with Broker(settings, topics={"t": 1}) as running:
        yield running


def client(broker: Broker, provider: Provider, place: Path, user: str = "alice") -> dict[str, object]:
    """By librdkafka's names, which ours are too."""
    authority().cert_pem.write_to_path(place / "ca.pem")
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(place / "ca.pem"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
        "sasl.oauthbearer.client.id": user,
        "sasl.oauthbearer.client.secret": CREDENTIALS.get(user, "guess-secret"),
    }


def test_ours_and_confluent_kafka_exchange_their_credentials(
    broker: Broker, provider: Provider, tmp_path: Path
) -> None:
    with Producer(client(broker, provider, tmp_path)) as producer:
        producer.send("t", b"by ours").result(20)
        assert set(principals(broker)) == {"User:alice"}
    theirs = confluent_kafka.Producer(client(broker, provider, tmp_path, "bob"))
    theirs.produce("t", b"by librdkafka")
    assert theirs.flush(20) == 0
    assert "User:bob" in principals(broker)
    wanted = {"group.id": "g", "auto.offset.reset": "earliest"}
    with Consumer(client(broker, provider, tmp_path) | wanted) as consumer:
        consumer.subscribe(["t"])
        found: list[bytes | None] = []
        while len(found) < 2:
            found += [record.value for record in consumer.poll(1)]
        consumer.commit()
    assert found == [b"by ours", b"by librdkafka"]
    reader = confluent_kafka.Consumer(client(broker, provider, tmp_path, "bob") | wanted | {"group.id": "h"})
    reader.subscribe(["t"])
    assert [message.value() for message in reader.consume(2, 20)] == found
    reader.close()


def test_credentials_that_the_issuer_refuses_are_a_final_error(
    broker: Broker, provider: Provider, tmp_path: Path
) -> None:
    with pytest.raises(AuthenticationError, match="invalid_client") as raised:
        Producer(client(broker, provider, tmp_path, "mallory")).send("t", b"x").result(20)
    assert "guess-secret" not in str(raised.value)
    assert provider.given == []


def test_tokens_that_end_are_replaced_and_nothing_is_lost(broker: Broker, provider: Provider, tmp_path: Path) -> None:
    """A session ends with its token, here each two seconds; reading and writing go on until each has had a second."""
    provider.life_s = 2.0
    quick = {"sasl.login.refresh.min.period.seconds": 0, "sasl.login.refresh.buffer.seconds": 0}
    settings = client(broker, provider, tmp_path) | quick
    sent, found, deadline = 0, list[int](), time.monotonic() + 120
    with (
        Producer(settings) as producer,
        Consumer(settings | {"group.id": "g", "auto.offset.reset": "earliest"}) as consumer,
    ):
        consumer.subscribe(["t"])
        while len(provider.given) < 6:  # two clients
            assert time.monotonic() < deadline, provider.given
            producer.send("t", str(sent).encode())
            sent += 1
            found += [int(record.value or b"") for record in consumer.poll(0.02)]
        producer.flush()
        while len(found) < sent:
            found += [int(record.value or b"") for record in consumer.poll(1)]
        consumer.commit()
    assert found == list(range(sent))

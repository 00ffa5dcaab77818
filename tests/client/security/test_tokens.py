"""Tokens of OAUTHBEARER: callbacks, a token endpoint, AWS's signer, and when a token is fetched again."""

from __future__ import annotations

import json
import sys
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from equipoise.client.net.errors import AuthenticationError, KafkaConnectionError
from equipoise.client.security.config import AssertionConfig, OAuthConfig
from equipoise.client.security.tokens import Tokens, callback_source, fetch_token, token_from, tokens_of
from equipoise.security.sasl.bearer_tokens import (
    BearerToken,
    RefreshWindow,
    claims_of,
    expiry_of,
    refresh_at,
    unsecured_token,
)
from equipoise.security.secrets import Secret
from equipoise.wire.errors import UsageError

FAR = 4e9
EC_KEY = (
    ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
)


class Endpoint(ThreadingHTTPServer):
    """Answers with the next of `answers`: a status and a body. The last is repeated."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, object]] = []
        self.asked: list[tuple[dict[str, str], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.asked.append((dict(self.headers), body))
        answers = self.server.answers
        status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        if status == 302:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()
        self.wfile.write(answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def oidc(endpoint: Endpoint, **more: Any) -> OAuthConfig:
    given: dict[str, Any] = {
        "client_id": "me",
        "client_secret": Secret("s3cret:/"),
        "retry_backoff_ms": 1,
        "retry_backoff_max_ms": 5,
    }
    return OAuthConfig(method="oidc", token_endpoint_url=endpoint.url, **(given | more))


def test_client_credentials_are_exchanged_for_a_token(endpoint: Endpoint) -> None:
    value = unsecured_token({"exp": 1234})
    endpoint.answers = [(200, {"access_token": value, "expires_in": 10})]
    token = fetch_token(oidc(endpoint, scope="kafka read"))
    assert (token.value.reveal(), token.expires_at) == (value, 1234)
    ((headers, body),) = endpoint.asked
    assert headers["Authorization"] == "Basic bWU6czNjcmV0Oi8="
    assert headers["Accept"] == "application/json"
    assert body == "grant_type=client_credentials&scope=kafka+read"


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_a_signed_assertion_is_exchanged_for_a_token(endpoint: Endpoint, algorithm: str) -> None:
    """The grant jwt-bearer (RFC 7523): the endpoint can verify the signature, and gets no secret."""
    is_rsa = algorithm == "RS256"
    key = rsa.generate_private_key(65537, 2048) if is_rsa else ec.generate_private_key(ec.SECP256R1())
    encryption = BestAvailableEncryption(b"passphrase")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()
    assertion = AssertionConfig(
        algorithm=algorithm,
        private_key_pem=Secret(pem),
        private_key_passphrase=Secret("passphrase"),
        aud="https://issuer",
        iss="me",
        sub="service",
        jti_include=True,
    )
    endpoint.answers = [(200, {"access_token": "opaque", "expires_in": 100})]
    before = time.time()
    token = fetch_token(oidc(endpoint, assertion=assertion, scope="kafka"))
    assert token.value.reveal() == "opaque"
    ((headers, body),) = endpoint.asked
    asked = parse_qs(body)
    assert "Authorization" not in headers
    assert (asked["grant_type"], asked["scope"]) == (["urn:ietf:params:oauth:grant-type:jwt-bearer"], ["kafka"])
    head, claims, signature = asked["assertion"][0].split(".")
    assert _decoded(head) == {"alg": algorithm, "typ": "JWT"}
    found = _decoded(claims)
    assert (found["aud"], found["iss"], found["sub"], len(found["jti"])) == ("https://issuer", "me", "service", 36)
    assert before - 1 <= found["iat"] <= time.time()
    assert (found["exp"] - found["iat"], found["iat"] - found["nbf"]) == (300, 60)
    signed, raw = f"{head}.{claims}".encode(), urlsafe_b64decode(signature + "==")
    public = key.public_key()
    if isinstance(public, rsa.RSAPublicKey):
        public.verify(raw, signed, PKCS1v15(), SHA256())
    else:
        made = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        public.verify(made, signed, ec.ECDSA(SHA256()))


def _decoded(part: str) -> Any:
    return json.loads(urlsafe_b64decode(part + "=="))


def test_an_assertion_of_a_file_is_read_anew_each_time(endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.answers = [(200, {"access_token": "opaque", "expires_in": 100})]
    file = tmp_path / "assertion"
    for text in ("one", "two"):
        file.write_text(text + "\n")
        fetch_token(oidc(endpoint, assertion=AssertionConfig(file=str(file))))
    assert [parse_qs(body)["assertion"] for _, body in endpoint.asked] == [["one"], ["two"]]


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"file": "/nowhere"}, "assertion.file=/nowhere cannot be read: No such file"),
        ({"private_key_file": "/nowhere"}, "private.key.file=/nowhere cannot be read: No such file"),
        ({"private_key_pem": Secret("s3cret")}, "is no PEM key, or .*passphrase is missing or wrong"),
        ({"private_key_pem": Secret(EC_KEY)}, "is no key for RS256"),
    ],
)
def test_an_assertion_that_cannot_be_made(endpoint: Endpoint, given: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why) as raised:
        fetch_token(oidc(endpoint, assertion=AssertionConfig(**given)))
    assert "s3cret" not in str(raised.value)
    assert endpoint.asked == []


def test_names_may_be_url_encoded_and_id_token_is_taken(endpoint: Endpoint) -> None:
    endpoint.answers = [(200, {"id_token": "opaque", "expires_in": 100})]
    token = fetch_token(oidc(endpoint, header_urlencode=True))
    assert endpoint.asked[0][0]["Authorization"] == "Basic bWU6czNjcmV0JTNBJTJG"
    assert token.value.reveal() == "opaque"
    assert token.expires_at is not None


def test_passing_failures_are_tried_again(endpoint: Endpoint) -> None:
    endpoint.answers = [(503, {}), (429, {}), (200, {"access_token": "t"})]
    assert fetch_token(oidc(endpoint)).value.reveal() == "t"
    assert len(endpoint.asked) == 3


def test_a_refusal_is_final_and_shows_no_secret(endpoint: Endpoint) -> None:
    endpoint.answers = [(401, {"error": "invalid_client", "error_description": "no\nsuch client"})]
    with pytest.raises(AuthenticationError, match=r"HTTP status 401 \(invalid_client: no\\nsuch client\)") as raised:
        fetch_token(oidc(endpoint))
    assert "s3cret" not in str(raised.value)
    assert len(endpoint.asked) == 1


@pytest.mark.parametrize("answer", [b"no json", b"[]", b"{}", b'{"access_token": 5}'])
def test_an_answer_without_a_token(endpoint: Endpoint, answer: bytes) -> None:
    endpoint.answers = [(200, answer)]
    with pytest.raises(AuthenticationError, match="neither access_token nor id_token"):
        fetch_token(oidc(endpoint))


def test_no_secret_follows_a_redirect(endpoint: Endpoint) -> None:
    endpoint.answers = [(302, b""), (200, {"access_token": "t"})]
    with pytest.raises(AuthenticationError, match="HTTP status 302"):
        fetch_token(oidc(endpoint))
    assert len(endpoint.asked) == 1


def test_an_endpoint_that_stays_away_is_no_final_failure(endpoint: Endpoint) -> None:
    endpoint.answers = [(500, {})]
    with pytest.raises(KafkaConnectionError, match="gives no token: HTTP status 500"):
        fetch_token(oidc(endpoint, connect_timeout_ms=100, read_timeout_ms=100))


def test_a_file_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first\n")
    tokens = tokens_of(OAuthConfig(token_endpoint_url=path.as_uri()))
    assert value_of(tokens) == "first"
    path.write_text("second\n")
    assert value_of(tokens) == "second"
    path.unlink()
    with pytest.raises(KafkaConnectionError, match="cannot be read"):
        tokens.get()


def value_of(tokens: Tokens) -> str:
    token = tokens.get()
    assert isinstance(token, BearerToken)
    return token.value.reveal()


# -- callbacks


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (("t", 5), BearerToken(Secret("t"), 5.0)),
        (("t", 5.5, "User:x", {"a": "b"}), BearerToken(Secret("t"), 5.5, (("a", "b"),))),
        ("opaque", BearerToken(Secret("opaque"), None)),
    ],
)
def test_answers_of_a_callback(answer: object, expected: BearerToken) -> None:
    assert token_from(answer) == expected


@pytest.mark.parametrize("answer", [None, 5, ("t",), ("t", "soon"), (b"t", 5), ("t", 5, "p")])
def test_answers_that_are_none(answer: object) -> None:
    with pytest.raises(UsageError, match="the token callback returned"):
        token_from(answer)


def test_a_callback_is_given_its_config_and_an_object_is_asked_for_extensions() -> None:
    asked: list[str] = []
    source = callback_source(lambda config: asked.append(config) or ("t", FAR), Secret("region=x"))  # type: ignore[func-returns-value]
    source()
    assert asked == ["region=x"]

    class Provider:
        def token(self) -> str:
            return unsecured_token({"exp": 99})

        def extensions(self) -> dict[str, str]:
            return {"logicalCluster": "lkc-1"}

    token = callback_source(Provider(), Secret(""))()
    assert isinstance(token, BearerToken)
    assert (token.expires_at, token.extensions) == (99, (("logicalCluster", "lkc-1"),))


def give_token(config: str) -> tuple[str, float]:
    """Named by text, as an executor has it."""
    return f"by name {config}", FAR


def test_a_callback_by_name() -> None:
    token = callback_source(f"{__name__}:give_token", Secret("c"))()
    assert isinstance(token, BearerToken)
    assert token.value.reveal() == "by name c"
    for wrong in ("nonsense:x", f"{__name__}:nothing", "no-colon"):
        with pytest.raises(UsageError, match="cannot be imported"):
            callback_source(wrong, Secret(""))


def test_a_callback_that_fails_may_be_asked_again() -> None:
    def broken(config: str) -> None:
        raise RuntimeError("the vault is closed")

    with pytest.raises(KafkaConnectionError, match="RuntimeError: the vault is closed"):
        callback_source(broken, Secret(""))()


def test_no_source_is_refused_with_advice() -> None:
    with pytest.raises(UsageError, match="give oauth_cb, or"):
        tokens_of(OAuthConfig())


# -- AWS


class Signer:
    """Stands in for AWS's library."""

    @staticmethod
    def generate_auth_token(region: str) -> tuple[str, int]:
        return f"for {region}", 5_000

    @staticmethod
    def generate_auth_token_from_profile(region: str, profile: str) -> tuple[str, int]:
        return f"for {region} {profile}", 5_000

    @staticmethod
    def generate_auth_token_from_role_arn(region: str, role: str, session: str) -> tuple[str, int]:
        return f"for {region} {role} {session}", 5_000


@pytest.mark.parametrize(
    ("config", "value"),
    [
        ("region=eu-west-1", "for eu-west-1"),
        ("region=eu-west-1,profile=p", "for eu-west-1 p"),
        ("region=eu-west-1, role_arn=arn:aws:r, session_name=s", "for eu-west-1 arn:aws:r s"),
    ],
)
def test_aws(monkeypatch: pytest.MonkeyPatch, config: str, value: str) -> None:
    library = ModuleType("aws_msk_iam_sasl_signer")
    library.MSKAuthTokenProvider = Signer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", library)
    token = tokens_of(OAuthConfig(method="aws_msk_iam", config=Secret(config))).get()
    assert token == BearerToken(Secret(value), 5.0)
    with pytest.raises(UsageError, match="needs a region"):
        tokens_of(OAuthConfig(method="aws_msk_iam", config=Secret("profile=p")))


def test_aws_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    with pytest.raises(UsageError, match=r"pip install 'equipoise\[aws\]'"):
        tokens_of(OAuthConfig(method="aws_msk_iam", config=Secret("region=x")))


# -- time


def test_a_token_is_kept_until_it_grows_old_and_used_until_it_ends() -> None:
    now, given = [1000.0], iter(range(10))
    is_broken = False

    def source() -> BearerToken:
        if is_broken:
            raise KafkaConnectionError("away")
        return BearerToken(Secret(f"token {next(given)}"), now[0] + 1000)

    tokens = Tokens(source, RefreshWindow(), lambda: now[0])
    assert [value_of(tokens), value_of(tokens)] == ["token 0"] * 2
    now[0] = 1690  # the buffer of 300 s comes before 80 %
    assert value_of(tokens) == "token 0"
    now[0] = 1701
    is_broken = True
    assert value_of(tokens) == "token 0"
    is_broken = False
    assert value_of(tokens) == "token 1"
    tokens.forget()
    assert value_of(tokens) == "token 2"
    is_broken = True
    now[0] = 3000
    with pytest.raises(KafkaConnectionError):
        tokens.get()


@pytest.mark.parametrize(
    ("lifetime", "chance", "expected"),
    [(3600, 0.0, 2880), (3600, 1.0, 3060), (1000, 0.0, 700), (300, 0.0, 240), (400, 0.0, 100), (100, 1.0, 85)],
)
def test_when_a_token_is_refreshed(lifetime: float, chance: float, expected: float) -> None:
    assert refresh_at(0, lifetime, RefreshWindow(), chance) == pytest.approx(expected)


def test_claims_are_read_without_a_check() -> None:
    token = unsecured_token({"sub": "x", "exp": 7.5})
    assert (claims_of(token)["sub"], expiry_of(token)) == ("x", 7.5)
    for other in (
        "",
        "opaque",
        "a.b.c",
        "..",
        "a.W10.c",
        unsecured_token({"exp": True}),
        unsecured_token({"exp": "1"}),
    ):
        assert expiry_of(other) is None


def test_a_token_does_not_print() -> None:
    assert "t0ken" not in repr(BearerToken(Secret("t0ken"), 1.0))

"""The states of authentication, driven request by request (SaslServerAuthenticator)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from equipoise.security.sasl.authentication import Admission, Authentication, Mechanisms, SaslState
from equipoise.security.sasl.mechanisms import Claims, Mechanism, OAuthBearer, PasswordQuestion, Plain, TokenQuestion
from equipoise.security.session import Session
from equipoise.wire.apis import APIS, UNKNOWN_APIS
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from equipoise.wire.errors import ErrorCode

BEGIN: Mapping[str, Callable[[], Mechanism]] = {"PLAIN": Plain, "OAUTHBEARER": OAuthBearer}
ALICE = b"\0alice\0pw"
BEARER = b"n,,\x01auth=Bearer a.b.c\x01\x01"
OTHERS = sorted(({*APIS, *UNKNOWN_APIS} - {17, 18, 36}) | {-1, 9999, 32767})


def fresh(max_reauth_ms: int = 0) -> Authentication:
    limits = dict.fromkeys(BEGIN, max_reauth_ms)
    return Authentication(Mechanisms(BEGIN, limits), Session(host="10.0.0.1", listener="SASL_SSL"), 0)


def log_in(it: Authentication, now: int = 0, token: bytes = ALICE, right: bool = True) -> SaslAuthenticateResponse:
    assert it.admit(36, now) is Admission.SERVE
    question = it.authenticate(token, now)
    assert isinstance(question, PasswordQuestion)
    response = it.answered(right, now)
    assert isinstance(response, SaslAuthenticateResponse)
    return response


def ready(max_reauth_ms: int = 0) -> Authentication:
    it = fresh(max_reauth_ms)
    it.handshake("PLAIN", 1, 0)
    log_in(it)
    return it


# -- before authentication


@pytest.mark.parametrize("api_key", OTHERS)
def test_no_other_request_is_looked_at_in_any_state(api_key: int) -> None:
    assert fresh().admit(api_key, 0) is Admission.CLOSE
    versioned = fresh()
    versioned.versions_told()
    assert versioned.admit(api_key, 0) is Admission.CLOSE
    chosen = fresh()
    chosen.handshake("PLAIN", 1, 0)
    assert chosen.admit(api_key, 0) is Admission.CLOSE
    assert chosen.state is SaslState.FAILED
    assert ready().admit(api_key, 0) is Admission.SERVE


def test_versions_are_told_once_before_the_handshake() -> None:
    it = fresh()
    assert it.admit(18, 0) is Admission.SERVE
    assert it.admit(18, 0) is Admission.SERVE  # the first was refused: the client may ask in another version
    it.versions_told()
    assert it.admit(18, 0) is Admission.CLOSE
    assert it.admit(17, 0) is Admission.SERVE


def test_a_token_without_a_handshake_is_not_looked_at() -> None:
    assert fresh().admit(36, 0) is Admission.CLOSE


@pytest.mark.parametrize("api_key", [17, 18])
def test_in_the_middle_of_an_exchange_they_are_refused_with_an_answer(api_key: int) -> None:
    it = fresh()
    it.handshake("PLAIN", 1, 0)
    assert it.admit(api_key, 0) is Admission.REFUSE
    assert it.state is SaslState.FAILED


@pytest.mark.parametrize("name", ["", "plain", "SCRAM-SHA-256", "GSSAPI", "x" * 30_000])
def test_a_mechanism_that_is_not_offered_is_refused_with_the_list(name: str) -> None:
    it = fresh()
    response = it.handshake(name, 1, 0)
    assert (response.error_code, response.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, list(BEGIN))
    assert it.state is SaslState.FAILED
    assert len(it.reason) < 200


# -- results


def test_success_makes_the_session() -> None:
    it = fresh()
    assert it.handshake("PLAIN", 1, 0).error_code == ErrorCode.NONE
    response = log_in(it)
    assert (response.error_code, response.session_lifetime_ms) == (ErrorCode.NONE, 0)
    assert it.state is SaslState.READY
    assert it.session == Session("User:alice", "10.0.0.1", "SASL_SSL", "PLAIN", None)


def test_failure_says_little() -> None:
    it = fresh()
    it.handshake("PLAIN", 1, 0)
    response = log_in(it, right=False)
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Authentication failed: Invalid username or password"
    assert it.state is SaslState.FAILED


def test_a_failure_without_words_of_its_own_has_the_general_sentence() -> None:
    it = fresh()
    it.handshake("OAUTHBEARER", 1, 0)
    response = it.authenticate(b"nonsense", 0)
    assert isinstance(response, SaslAuthenticateResponse)
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism OAUTHBEARER"
    )


def test_after_handshake_v0_tokens_are_bare_until_the_end() -> None:
    it = fresh()
    it.handshake("PLAIN", 0, 0)
    assert it.is_raw
    log_in(it)
    assert not it.is_raw


@pytest.mark.parametrize(
    ("max_reauth_ms", "of_token", "told"), [(0, 5000, 5000), (2000, 5000, 2000), (9000, 5000, 5000), (9000, -5, 0)]
)
def test_the_shorter_life_counts(max_reauth_ms: int, of_token: int, told: int) -> None:
    it = fresh(max_reauth_ms)
    it.handshake("OAUTHBEARER", 1, 0)
    assert isinstance(it.authenticate(BEARER, 0), TokenQuestion)
    response = it.answered(Claims("alice", of_token), 100)
    assert isinstance(response, SaslAuthenticateResponse)
    assert response.session_lifetime_ms == told
    assert it.session.expires_at == (100 + told if told else None)


# -- after authentication


def test_a_session_without_expiry_is_never_renewed() -> None:
    it = ready()
    assert it.admit(17, 10**12) is Admission.SERVE
    assert it.handshake("PLAIN", 1, 10**12).error_code == ErrorCode.ILLEGAL_SASL_STATE
    response = it.authenticate(ALICE, 0)
    assert isinstance(response, SaslAuthenticateResponse)
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert it.state is SaslState.READY


def test_a_session_is_renewed_by_the_same_user_and_mechanism() -> None:
    it = ready(2000)
    assert it.session.expires_at == 2000
    assert it.handshake("PLAIN", 1, 1500).error_code == ErrorCode.NONE
    assert it.admit(3, 1500) is Admission.CLOSE
    it = ready(2000)
    it.handshake("PLAIN", 1, 1500)
    log_in(it, 1600)
    assert (it.state, it.session.expires_at) == (SaslState.READY, 3600)


def test_an_expired_session_serves_nothing_but_its_renewal() -> None:
    it = ready(2000)
    assert it.admit(1, 1999) is Admission.SERVE
    assert {it.admit(key, 2000) for key in (1, 3, 12, 18, 36)} == {Admission.EXPIRED}
    assert it.admit(17, 2000) is Admission.SERVE


def test_a_renewal_within_a_second_is_refused_and_after_expiry_ends_the_connection() -> None:
    it = ready(500)
    assert it.handshake("PLAIN", 1, 400).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert it.state is SaslState.READY
    assert it.admit(17, 600) is Admission.EXPIRED
    assert it.admit(17, 1000) is Admission.SERVE


def test_a_renewal_cannot_change_the_user() -> None:
    it = ready(2000)
    it.handshake("PLAIN", 1, 1500)
    response = log_in(it, 1500, b"\0bob\0pw")
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    assert it.state is SaslState.FAILED


def test_a_renewal_cannot_change_the_mechanism() -> None:
    it = ready(2000)
    assert it.handshake("OAUTHBEARER", 1, 1500).error_code == ErrorCode.NONE
    response = it.authenticate(BEARER, 1500)
    assert isinstance(response, SaslAuthenticateResponse)
    assert response.error_message == (
        "SASL mechanism 'OAUTHBEARER' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )
    assert it.state is SaslState.FAILED


def test_a_failed_renewal_says_so() -> None:
    it = ready(2000)
    it.handshake("PLAIN", 1, 1500)
    response = it.authenticate(b"\xff", 1500)
    assert isinstance(response, SaslAuthenticateResponse)
    assert "during re-authentication due" in str(response.error_message)

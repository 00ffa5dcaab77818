"""Authentication of a connection on a SASL listener, as a state machine without socket or clock.

    INITIAL --ApiVersions--> VERSIONED --SaslHandshake--> AUTHENTICATE --tokens--> READY
       '---------------SaslHandshake--------------------------^            FAILED <--'

Nothing but ApiVersions, SaslHandshake and SaslAuthenticate is looked at before READY (SaslServerAuthenticator). A
session that expires goes from READY through AUTHENTICATE to READY again (KIP-368).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from equipoise.security.sasl.mechanisms import (
    Answer,
    Challenge,
    Failure,
    Mechanism,
    PasswordQuestion,
    Question,
    Step,
    Success,
    TokenQuestion,
)
from equipoise.security.session import Session
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeResponse
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from equipoise.wire.errors import ErrorCode

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
_REAUTHENTICATION_MIN_MS = 1_000  # between two begins (KafkaChannel)


class SaslState(Enum):
    """How far the client has come."""

    INITIAL = "initial"
    VERSIONED = "versioned"
    AUTHENTICATE = "authenticate"
    READY = "ready"
    FAILED = "failed"


class Admission(Enum):
    """What becomes of a request."""

    SERVE = "serve"
    REFUSE = "refuse"  # with ILLEGAL_SASL_STATE, and the connection is closed
    CLOSE = "close"  # without an answer
    EXPIRED = "expired"  # the same, because the session has expired


@dataclass(frozen=True, slots=True)
class Mechanisms:
    """What a listener offers: a new exchange of each mechanism, and how long a session lasts after it."""

    begin: Mapping[str, Callable[[], Mechanism]]
    max_reauth_ms: Mapping[str, int]  # connections.max.reauth.ms; 0: for ever


class Authentication:
    """One connection's. `session` is as whom it is served, once the state is READY."""

    def __init__(self, mechanisms: Mechanisms, session: Session, now: int) -> None:
        self.state = SaslState.INITIAL
        self.session = session
        self.is_raw = False  # after SaslHandshake v0: frames are bare tokens
        self.reason = ""  # of a failure, for the log
        self._mechanisms = mechanisms
        self._name = ""
        self._mechanism: Mechanism | None = None
        self._began = now
        self._is_again = False  # this is a re-authentication
        self._wrong_mechanism = ""  # asked for at a re-authentication

    # -- which requests are looked at

    def admit(self, api_key: int, now: int) -> Admission:
        """Whether a request is served. Only its API key has been read."""
        if self.state is SaslState.READY:
            return self._admit_ready(api_key, now)
        if self.state is SaslState.AUTHENTICATE:
            return self._admit_token(api_key)
        is_early = self.state is SaslState.INITIAL and api_key == API_VERSIONS
        return Admission.SERVE if is_early or api_key == SASL_HANDSHAKE else Admission.CLOSE

    def _admit_token(self, api_key: int) -> Admission:
        """Two requests can be answered with an error; all others would have to be decoded first, and are not."""
        if api_key == SASL_AUTHENTICATE:
            return Admission.SERVE
        self._fail(f"a request with API key {api_key} in the middle of an exchange")
        return Admission.REFUSE if api_key in (SASL_HANDSHAKE, API_VERSIONS) else Admission.CLOSE

    def _admit_ready(self, api_key: int, now: int) -> Admission:
        """A session that has expired can only be renewed (Processor)."""
        if not self.session.is_expired(now) or (api_key == SASL_HANDSHAKE and self._may_begin_again(now)):
            return Admission.SERVE
        return Admission.EXPIRED

    def _may_begin_again(self, now: int) -> bool:
        return self.session.expires_at is not None and now - self._began >= _REAUTHENTICATION_MIN_MS

    def versions_told(self) -> None:
        """ApiVersions was answered without an error; a second one is not accepted."""
        if self.state is SaslState.INITIAL:
            self.state = SaslState.VERSIONED

    # -- SaslHandshake

    def handshake(self, name: str, version: int, now: int) -> SaslHandshakeResponse:
        """Chooses the mechanism (SaslServerAuthenticator)."""
        offered = list(self._mechanisms.begin)
        if self.state is SaslState.READY:
            if not self._may_begin_again(now):
                return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
            self._is_again = True
            self._began = now
        begin = self._mechanisms.begin.get(name)
        if begin is None:
            self._fail(f"the mechanism {name[:40]!r} is not among {', '.join(offered)}")
            return SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=offered)
        self._wrong_mechanism = name if self._is_again and name != self._name else ""
        self._name = self._name or name
        self._mechanism, self.is_raw, self.state = begin(), version == 0, SaslState.AUTHENTICATE
        return SaslHandshakeResponse(error_code=ErrorCode.NONE, mechanisms=offered)

    # -- tokens

    def authenticate(self, token: bytes, now: int) -> SaslAuthenticateResponse | Question:
        """One step of the exchange. A question is to be answered by `answered`."""
        if self.state is SaslState.READY:
            return SaslAuthenticateResponse(
                error_code=ErrorCode.ILLEGAL_SASL_STATE,
                error_message="SaslAuthenticate request received after successful authentication",
            )
        assert self._mechanism is not None
        if self._wrong_mechanism:
            message = (
                f"SASL mechanism '{self._wrong_mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._name}'"
            )
            return self._fail(message, message)
        return self._advance(self._mechanism.evaluate(token), now)

    def answered(self, answer: Answer, now: int) -> SaslAuthenticateResponse | Question:
        """Goes on with the answer to the last question."""
        assert self._mechanism is not None
        return self._advance(self._mechanism.answered(answer), now)

    def _advance(self, step: Step, now: int) -> SaslAuthenticateResponse | Question:
        if isinstance(step, PasswordQuestion | TokenQuestion):
            return step
        if isinstance(step, Challenge):
            return SaslAuthenticateResponse(error_code=ErrorCode.NONE, auth_bytes=step.data)
        if isinstance(step, Failure):
            return self._fail(step.reason, step.message)
        return self._complete(step, now)

    def _complete(self, success: Success, now: int) -> SaslAuthenticateResponse:
        principal = f"User:{success.username}"
        if self._is_again and principal != self.session.principal:
            old, new = self.session.principal.replace(":", ".", 1), principal.replace(":", ".", 1)
            message = f"Cannot change principals during re-authentication from {old}: {new}"
            return self._fail(message, message)
        lifetime = self._lifetime(success.lifetime_ms)
        self.session = Session(
            principal=principal,
            host=self.session.host,
            listener=self.session.listener,
            mechanism=self._name,
            expires_at=now + lifetime if lifetime else None,
        )
        self.state, self.is_raw, self._mechanism = SaslState.READY, False, None
        return SaslAuthenticateResponse(
            error_code=ErrorCode.NONE, auth_bytes=success.data, session_lifetime_ms=lifetime
        )

    def _lifetime(self, of_credential: int | None) -> int:
        """The shorter of both; 0: for ever (calcCompletionTimesAndReturnSessionLifetimeMs)."""
        limits = [self._mechanisms.max_reauth_ms.get(self._name, 0) or None, of_credential]
        return max(min((limit for limit in limits if limit is not None), default=0), 0)

    def _fail(self, reason: str, message: str | None = None) -> SaslAuthenticateResponse:
        """The client is told little on purpose; the log has the reason (SaslServerAuthenticator)."""
        self.state, self.reason = SaslState.FAILED, reason
        during = "re-authentication" if self._is_again else "authentication"
        general = f"Authentication failed during {during} due to invalid credentials with SASL mechanism {self._name}"
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message or general
        )

"""Runs the authentication of one connection: it admits requests, delays failures, and keeps the deadline.

The rules are in `security/sasl/authentication.py`. Here are the timers, the questions that take time, and the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from equipoise.security.sasl.authentication import Admission, Authentication, SaslState
from equipoise.security.sasl.mechanisms import Answer, Question
from equipoise.wire.apis.k17_sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from equipoise.wire.apis.k18_api_versions import ApiVersionsResponse
from equipoise.wire.apis.k36_sasl_authenticate import SaslAuthenticateResponse
from equipoise.wire.errors import ErrorCode
from equipoise.wire.frames import framed

if TYPE_CHECKING:
    from equipoise.broker.net.connection import Call, Connection
    from equipoise.broker.net.listeners import Listener
    from equipoise.wire.schema import Message

log = logging.getLogger(__name__)

Reply = Callable[[SaslAuthenticateResponse], None]


class Authenticator:
    """Of a connection on a SASL listener, until it is authenticated for good (SaslServerAuthenticator)."""

    def __init__(self, connection: Connection, listener: Listener, began: int) -> None:
        assert listener.mechanisms is not None
        assert listener.logins is not None
        self._connection = connection
        self._server = connection.server
        self._logins = listener.logins
        self._most_bytes = listener.config.sasl_server_max_receive_size
        self._authentication = Authentication(listener.mechanisms, connection.session, began)
        patience = self._server.config.request_receive_timeout_ms - (self._server.clock.now() - began)
        self._deadline = self._server.clock.call_later(max(patience, 0), self._time_out)

    def stop(self) -> None:
        """The connection has ended."""
        self._deadline.cancel()

    def _time_out(self) -> None:
        """However slowly its bytes come: the time is counted from the begin."""
        if self._authentication.state is not SaslState.READY:
            self._connection.warn("connection closed: not authenticated within request.receive.timeout.ms")
            self._connection.abort()

    # -- requests

    def admits(self, frame: bytes | bytearray, now: int) -> bool:
        """Whether a handler gets the request. If not, all is done that is to be done with it."""
        authentication = self._authentication
        if authentication.state is SaslState.FAILED:
            return False
        if authentication.state is not SaslState.READY and len(frame) > self._most_bytes:  # so at each renewal too
            self._connection.refuse(
                f"a frame of {len(frame)} bytes; sasl.server.max.receive.size is {self._most_bytes}"
            )
            return False
        if authentication.is_raw:
            self._take_raw_token(bytes(frame), now)
            return False
        api_key = int.from_bytes(frame[:2], signed=True)
        admission = authentication.admit(api_key, now)
        if admission is Admission.EXPIRED:
            self._server.expired_connections_killed += 1
            self._connection.refuse("its session has expired, and it has not authenticated again (KIP-368)")
        elif admission is Admission.CLOSE:
            self._connection.refuse(f"a request with API key {api_key} before authentication")
        return admission in (Admission.SERVE, Admission.REFUSE)

    def api_versions(self, response: ApiVersionsResponse, call: Call) -> ApiVersionsResponse | None:
        """The answer, or None: it comes later, because it is a failure."""
        if self._has_failed:
            self._fail(call, ApiVersionsResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, api_keys=[]))
            return None
        if response.error_code == ErrorCode.NONE:
            self._authentication.versions_told()
        return response

    def handshake(self, request: SaslHandshakeRequest, call: Call) -> SaslHandshakeResponse | None:
        """The answer, or None: it comes later, because it is a failure."""
        response = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
        if not self._has_failed:
            response = self._authentication.handshake(request.mechanism, call.version, call.now)
        if self._has_failed:
            self._fail(call, response)
            return None
        return response

    def authenticate(self, token: bytes, call: Call) -> SaslAuthenticateResponse | None:
        """The answer, or None: it comes later, because it takes time or is a failure."""
        found = self._resolve(self._authentication.authenticate(token, call.now), lambda late: self._late(late, call))
        return None if found is None else self._settle(found, call)

    def _late(self, response: SaslAuthenticateResponse, call: Call) -> None:
        settled = self._settle(response, call)
        if settled is not None:
            call.reply(settled)

    def _settle(self, response: SaslAuthenticateResponse, call: Call) -> SaslAuthenticateResponse | None:
        if self._has_failed:
            self._fail(call, response)
            return None
        self._adopt()
        return response

    # -- bare tokens, after SaslHandshake v0

    def _take_raw_token(self, token: bytes, now: int) -> None:
        found = self._resolve(self._authentication.authenticate(token, now), self._answer_raw)
        if found is not None:
            self._answer_raw(found)

    def _answer_raw(self, response: SaslAuthenticateResponse) -> None:
        """A failure has no answer in this notation."""
        if self._has_failed:
            self._end_later(lambda: None)
        else:
            self._adopt()
            self._connection.send_bytes(framed(response.auth_bytes))

    # -- results

    @property
    def _has_failed(self) -> bool:
        return self._authentication.state is SaslState.FAILED

    def _resolve(
        self, found: SaslAuthenticateResponse | Question, reply_late: Reply
    ) -> SaslAuthenticateResponse | None:
        """The response. None: the answer to the question takes time, and nothing more is served until it is there."""
        if isinstance(found, SaslAuthenticateResponse):
            return found
        answer = self._logins.answer_now(found)
        if answer is not None:
            return self._answered(answer)
        self._connection.mute()

        def go_on(answer: Answer) -> None:
            if not self._connection.is_closing:
                reply_late(self._answered(answer))
                self._connection.unmute()

        if not self._logins.answer_later(found, go_on):
            self._connection.refuse("too many logins wait")
        return None

    def _answered(self, answer: Answer) -> SaslAuthenticateResponse:
        found = self._authentication.answered(answer, self._server.clock.now())
        assert isinstance(found, SaslAuthenticateResponse), "an answer leads to no further question"
        return found

    def _adopt(self) -> None:
        if self._authentication.state is SaslState.READY:
            self._deadline.cancel()
            self._connection.authenticated(self._authentication.session)

    def _fail(self, call: Call, response: Message) -> None:
        self._end_later(lambda: call.reply(response))

    def _end_later(self, tell: Callable[[], None]) -> None:
        """The answer and the end come later, and nothing is read until then (KIP-306)."""
        self._connection.warn(f"authentication failed: {self._authentication.reason}")
        self._connection.mute()
        self._deadline.cancel()

        def end() -> None:
            if not self._connection.is_closing:
                tell()
                self._connection.close()

        self._server.clock.call_later(self._server.config.connection_failed_authentication_delay_ms, end)

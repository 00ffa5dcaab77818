"""A session: as whom a connection is served, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"  # KafkaPrincipal.ANONYMOUS


@dataclass(frozen=True, slots=True)
class Session:
    """The identity of a connection (KafkaPrincipal, and the host and listener of RequestContext)."""

    principal: str = ANONYMOUS  # "User:name", the text that access rules compare
    host: str = ""  # the peer's IP address as text
    listener: str = "PLAINTEXT"  # the listener's name
    mechanism: str | None = None  # of SASL; None: the listener has none
    expires_at: int | None = None  # on the broker's clock, in ms; None: never (KIP-368)

    def is_expired(self, now: int) -> bool:
        """Whether only a re-authentication is accepted (KafkaChannel.serverAuthenticationSessionExpired)."""
        return self.expires_at is not None and now >= self.expires_at

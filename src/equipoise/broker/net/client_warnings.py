"""Warnings about clients, each once a minute: a client that retries does not fill the log."""

from __future__ import annotations

from collections.abc import Callable

from equipoise.wire.frames import FrameSizeError

MIN_FRAME = 10  # the header of a request without client id
_WINDOW_MS = 60_000
_TEXTS = 20  # different ones about one peer in a window
_PEERS = 1_000


class _Peer:
    __slots__ = ("left_out", "since", "texts")

    def __init__(self, now: int) -> None:
        self.since = now
        self.texts: set[str] = set()
        self.left_out = 0


class ClientWarnings:
    """`now` tells the time in milliseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._peers: dict[str, _Peer] = {}

    def about(self, peer: str, text: str) -> str | None:
        """What is to be logged; None if it, or enough, was said within the last minute."""
        now, known = self._now(), self._peers.get(peer)
        left_out = 0
        if known is None or now - known.since >= _WINDOW_MS:
            left_out = known.left_out if known is not None else 0
            known = self._begin(peer, now)
        if text in known.texts or len(known.texts) >= _TEXTS:
            known.left_out += 1
            return None
        known.texts.add(text)
        return f"{text} ({left_out} more warnings about this client were left out)" if left_out else text

    def _begin(self, peer: str, now: int) -> _Peer:
        self._peers.pop(peer, None)
        if len(self._peers) >= _PEERS:
            del self._peers[next(iter(self._peers))]
        found = self._peers[peer] = _Peer(now)
        return found


def describe_size(error: FrameSizeError, is_authenticating: bool) -> str:
    """What a frame of a size that cannot be is most likely, and what to do."""
    size = error.size
    if size < MIN_FRAME:
        return f"a frame of {size} bytes; the smallest request has {MIN_FRAME}: this is not Kafka's protocol"
    if size >> 24 == 0x16:
        return "a TLS handshake; this listener speaks plain text: set security.protocol=PLAINTEXT"
    setting = "sasl.server.max.receive.size" if is_authenticating else "socket.request.max.bytes"
    return f"a frame of {size} bytes; {setting} is {error.max_size}"

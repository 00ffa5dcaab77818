"""What TLS costs before any broker is in it: OpenSSL encrypts in memory, by Python's ssl."""

from __future__ import annotations

import os
import ssl
import time

from trustme import CA

from equipoise.broker.net.tls_connection import PIECE
from equipoise.server_process import HOST

_PIECES = 1024


def encrypt_alone() -> float:
    """CPU in ms/MB of a program that only encrypts, in pieces as large as the broker's."""
    mine, outgoing = _connected()
    piece = os.urandom(PIECE)
    began = time.process_time()
    for _ in range(_PIECES):
        mine.write(piece)
        outgoing.read()
    return (time.process_time() - began) * 1e9 / (PIECE * _PIECES)


def _connected() -> tuple[ssl.SSLObject, ssl.MemoryBIO]:
    """A server's side of TLS after its handshake, and where its bytes go."""
    authority = CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert(HOST).configure_cert(server)
    authority.configure_trust(client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    mine = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=HOST)
    unfinished = [theirs, mine]
    while unfinished:
        unfinished = [side for side in unfinished if not _advance(side)]
    to_client.read()
    return mine, to_client


def _advance(side: ssl.SSLObject) -> bool:
    """Whether its part of the handshake is over."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

"""What TLS costs before any broker is in it: OpenSSL encrypts and decrypts in memory, by Python's ssl."""

from __future__ import annotations

import os
import ssl
import time

from trustme import CA

from equipoise.broker.net.tls_connection import PIECE
from equipoise.server_process import HOST

_PIECES = 1024
_WRITTEN = 1800  # bytes of a TLS record, by librdkafka: it writes each part of a request by itself


def encrypt_alone() -> float:
    """CPU in ms/MB of a program that only encrypts, in pieces as large as the broker's."""
    mine, _, outgoing = _connected()
    piece = os.urandom(PIECE)
    began = time.process_time()
    for _ in range(_PIECES):
        mine.write(piece)
        outgoing.read()
    return (time.process_time() - began) * 1e9 / (PIECE * _PIECES)


def decrypt_alone() -> float:
    """CPU in ms/MB of a program that only decrypts what librdkafka produces, records of 1 KB one by one."""
    mine, theirs, _ = _connected()
    written, room = os.urandom(_WRITTEN), memoryview(bytearray(PIECE))
    spent, records = 0.0, PIECE // _WRITTEN
    for _ in range(_PIECES // 4):
        for _ in range(records):
            theirs.write(written)
        began, received = time.process_time(), 0
        while received < records * _WRITTEN:
            received += mine.read(PIECE - received, room[received:])  # type: ignore[operator]
        spent += time.process_time() - began
    return spent * 1e9 / (records * _WRITTEN * (_PIECES // 4))


def _connected() -> tuple[ssl.SSLObject, ssl.SSLObject, ssl.MemoryBIO]:
    """Both sides of TLS after their handshake, the server's first, and where its bytes go."""
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
    return mine, theirs, to_client


def _advance(side: ssl.SSLObject) -> bool:
    """Whether its part of the handshake is over."""
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True

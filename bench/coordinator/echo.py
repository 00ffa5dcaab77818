"""The yardstick for heartbeats: the broker's event loop with a protocol that reads nothing and answers "all is well".

No broker on this loop, however quick, can serve more than it on the same machine.
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

from bench.coordinator.members import ALL_IS_WELL
from equipoise.broker.running import new_event_loop


class _Echo(asyncio.BufferedProtocol):
    _buffer = memoryview(bytearray(1 << 16))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, count: int) -> None:
        self._transport.write(ALL_IS_WELL)


async def main() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Echo, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()
    print(f"echo ready on {host}:{port}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # until the bench ends, in whatever way


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())

"""A bookie with all removed but its sockets: what one loop of Python could do at most, the bound of a row of adds.

It reads v2 frames and answers each add at once with OK. It looks at nothing, keeps nothing and makes nothing durable.
Run as `bench_bare.py HOSTS ROOT PORT`; prints a line once clients can find it.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import kazoo.client
import uvloop

_KEY = 20  # bytes of a ledger's key, before an add's entry
_OK = b"\0\0\0\0"
_ANSWER = (24).to_bytes(4)  # version and opcode, the status, the ids of ledger and entry


class Bare(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._kept = b""  # the begin of a frame

    def connection_made(self, transport: Any) -> None:
        self._write = transport.write

    def data_received(self, data: bytes) -> None:
        kept = self._kept
        chunk = kept + data if kept else data
        answers = []
        offset, end = 0, len(chunk)
        while offset + 4 <= end:
            head = offset + 4
            after = head + int.from_bytes(chunk[offset:head])
            if after > end:
                break
            ids = head + 4 + _KEY
            answers += (_ANSWER, chunk[head : head + 4], _OK, chunk[ids : ids + 16])
            offset = after
        self._kept = chunk[offset:]
        if answers:
            self._write(b"".join(answers))


async def serve(hosts: str, root: str, port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port, backlog=4096)
    store = kazoo.client.KazooClient(hosts)
    store.start()
    store.create(f"{root}/available/127.0.0.1:{port}", b"", ephemeral=True)
    print("serves", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))

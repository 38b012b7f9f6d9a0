"""Our client as a program that is told what to do, as the Java judge is: a JSON object a line in, an answer a line out.

It runs as an application would, through `bookie.connect`. `bench_sides.OwnClient` asks it.
"""

from __future__ import annotations

import asyncio
import collections
import functools
import json
import sys
import time
from typing import Any

from bookie.base.ids import EntryId
from bookie.client import Client
from bookie.connect import connect
from bookie.runtime import loop


async def adds(client: Client, question: dict[str, Any]) -> dict[str, Any]:
    """Append until `seconds` are over, at most `window` in flight; latencies are of one append in a hundred."""
    payload = b"x" * question["size"]
    latencies: list[float] = []
    waiting: collections.deque[asyncio.Future[EntryId]] = collections.deque()
    window = question["window"]

    def landed(began_s: float, _: asyncio.Future[EntryId]) -> None:
        latencies.append(time.perf_counter() - began_s)

    async with await client.create(
        ensemble_size=question["ensemble"], write_quorum=question["write"], ack_quorum=question["ack"]
    ) as writer:
        started_s = time.perf_counter()
        end_s = started_s + question["seconds"]
        count = 0
        while time.perf_counter() < end_s:
            while len(waiting) < window:
                future = writer.append_nowait(payload)
                if count % 100 == 0:
                    future.add_done_callback(functools.partial(landed, time.perf_counter()))
                waiting.append(future)
                count += 1
            await waiting[0]
            while waiting and waiting[0].done():
                waiting.popleft().result()
        for future in waiting:
            await future
        elapsed_s = time.perf_counter() - started_s
    latencies.sort()
    return {
        "operations": count,
        "elapsed_s": elapsed_s,
        "p50_us": latencies[len(latencies) // 2] * 1e6,
        "p99_us": latencies[len(latencies) * 99 // 100] * 1e6,
        "p999_us": latencies[len(latencies) * 999 // 1000] * 1e6,
    }


async def serve(uri: str) -> None:
    async with connect(uri) as client:
        while line := await asyncio.to_thread(sys.stdin.readline):
            print(json.dumps(await adds(client, json.loads(line))), flush=True)


if __name__ == "__main__":
    loop.run(serve(sys.argv[1]))

"""What happens to a side while it is under load: one of its bookies is stopped in good order and started again.

The load begins before and ends after, so that its latencies are of the whole: what it was like before, the event, and
what came of it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import bench_swarm
from bench_sides import Side
from bookie import connect
from bookie.base.ids import BookieId
from bookie.client import Client
from bookie.runtime import loop
from java_support import JavaClient

PATIENCE_S = 120.0
LOOK_S = 0.02  # between two looks whether a bookie serves
PROBES = itertools.count(1 << 40)  # ledgers far from ids that a cluster gives, a new one for each look

Seen = dict[str, float]


def under(what: str, question: dict[str, Any], side: Side, client: JavaClient) -> tuple[dict[str, Any], Seen]:
    """Let `what` happen in the middle of a load of `seconds` and as long as it takes; return the load's answer, and of
    `what` the fields of a round."""
    half_s = question.pop("seconds") / 2
    client.ask("bench-begin", **question)
    time.sleep(half_s)
    seen = {"restart": restart}[what](side)
    time.sleep(half_s)
    return client.ask("bench-end"), seen


def restart(side: Side) -> Seen:
    """Stop the side's last bookie and start it again at once."""
    began_s = time.monotonic()
    side.stop_last()
    stop_s = time.monotonic() - began_s
    side.start_last()
    loop.run(_wait_serving(side.uri, side.ports[-1]))
    return {"back_s": time.monotonic() - began_s, "stop_s": stop_s}


async def _wait_serving(uri: str, port: int) -> None:
    """Wait until clients are told of a bookie of this machine as one to write to, and it takes an add."""
    async with connect.connect(uri) as client, asyncio.timeout(PATIENCE_S):
        while not (await _is_writable(client, BookieId(f"127.0.0.1:{port}")) and _acknowledges(port)):  # noqa: ASYNC110
            await asyncio.sleep(LOOK_S)


async def _is_writable(client: Client, bookie_id: BookieId) -> bool:
    return any(each.bookie_id == bookie_id and not each.is_read_only for each in await client.admin.bookies())


def _acknowledges(port: int) -> bool:
    return bench_swarm.acknowledges(port, next(PROBES))

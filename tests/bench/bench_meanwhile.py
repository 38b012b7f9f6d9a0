"""What happens to a side while it is under load: one of its bookies is stopped in good order and started again, or most
ledgers in some entry logs are deleted, and the bookie compacts these; or it scrubs, which it does all the time.

The load begins before and ends after, so that its latencies are of the whole: what it was like before, the event, and
what came of it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import bench_swarm
import wait_support
from bench_sides import Side
from bookie import connect
from bookie.base.ids import BookieId, LedgerId
from bookie.client import Client
from bookie.runtime import loop
from java_support import JavaClient

PATIENCE_S = 120.0
# Ledgers of which every third is kept: a bookie that sorts what it writes by ledger has them in all logs too. So much
# of it lies on the disk when the logs count as written; the rest is in a cache yet.
FILLED = {"load": "adds", "v2": True, "size": 1024, "window": 1000, "ledgers": 50, "count": 200_000}
KEPT_EVERY = 3
ON_DISK_SHARE = 0.6
LOOK_S = 0.02  # between two looks whether a bookie serves
PROBES = itertools.count(1 << 40)  # ledgers far from ids that a cluster gives, a new one for each look

Seen = dict[str, float]


# Happens under load; what it returns are fields of a round.
Event = Callable[[], Seen]


def prepared(what: str, side: Side, client: JavaClient) -> Event:
    """Do what has to be done before, without load."""
    return {"restart": restart, "compaction": compaction, "scrub": scrub}[what](side, client)


def under_load(event: Event, question: dict[str, Any], client: JavaClient) -> tuple[dict[str, Any], Seen]:
    """Let the event happen in the middle of a load of `seconds` and as long as it takes; return the load's answer, and
    what the event did."""
    question = dict(question)
    half_s = question.pop("seconds") / 2
    client.ask("bench-begin", **question)
    time.sleep(half_s)  # here and below: the load's length, which is what is measured; nothing is waited for
    seen = event()
    time.sleep(half_s)
    return client.ask("bench-end"), seen


def restart(side: Side, _: JavaClient) -> Event:
    """Return what stops the side's last bookie and starts it again at once."""
    return lambda: _restart(side)


def compaction(side: Side, client: JavaClient) -> Event:
    """Write entry logs full of several ledgers; return what deletes most of these and waits until the logs are gone."""
    before = _written(side)
    ledgers = client.ask("bench", uri=side.uri, **FILLED)["ledgers"]
    wait_support.wait_until(
        lambda: sum(_new(side, before).values()) > ON_DISK_SHARE * FILLED["count"] * FILLED["size"],
        f"the entry logs of {side.name}",
        timeout_s=PATIENCE_S,
    )
    *full, _ = _new(side, before).items()  # the newest one fills with what comes
    return lambda: _compact(side, dict(full), to_delete(ledgers))


def to_delete(ledgers: Sequence[int]) -> set[int]:
    """Return those of the ledgers in some entry logs that are deleted, so that little of each log is left."""
    return {ledger for number, ledger in enumerate(ledgers) if number % KEPT_EVERY}


def scrub(side: Side, _: JavaClient) -> Event:
    """Return what tells how fast the side has scrubbed since now."""
    began_s, before = time.monotonic(), side.entries_scrubbed()
    return lambda: {"scrubbed_per_s": (side.entries_scrubbed() - before) / (time.monotonic() - began_s)}


def _new(side: Side, before: Mapping[Path, int]) -> dict[Path, int]:
    return {path: size for path, size in _written(side).items() if path not in before}


def _written(side: Side) -> dict[Path, int]:
    """Return the logs that have something; official bookies make the next one before it is needed."""
    return {path: size for path, size in side.entry_logs().items() if size}


def _compact(side: Side, full: Mapping[Path, int], ledgers: Iterable[int]) -> Seen:
    began_s = time.monotonic()
    loop.run(_delete(side.uri, ledgers))
    wait_support.wait_until(
        lambda: not full.keys() & side.entry_logs().keys(),
        f"{side.name} to compact {len(full)} logs",
        timeout_s=PATIENCE_S,
    )
    return {"given_back_mb": sum(full.values()) / 1e6, "given_back_s": time.monotonic() - began_s}


async def _delete(uri: str, ledgers: Iterable[int]) -> None:
    async with connect.connect(uri) as client, asyncio.TaskGroup() as group:
        for ledger in ledgers:
            group.create_task(client.delete(LedgerId(ledger)))


def _restart(side: Side) -> Seen:
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

"""`bookie test`: check that this cluster, or this one bookie, stores and returns entries, and how fast.

It deletes its ledgers at the end, also after an error.
"""

import argparse
import time
from typing import Any

from bookie.base import errors, units
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.cli import bookie_list, ledger, output, where
from bookie.client import Client, LedgerWriter
from bookie.integrity.together import together
from bookie.wire.digest import Digest, DigestType
from bookie.wire.framing import FRAME_LIMIT_BYTES

_NS_PER_S = 1_000_000_000
_SANITY_ENTRIES_MAX = 1_000_000
# Days of writing: what is more was not meant, and would go on until every disk of the cluster is full.
_SPEED_ENTRIES_MAX = 1_000_000_000


def add_verbs(noun: argparse.ArgumentParser) -> None:
    verbs = noun.add_subparsers(metavar="VERB", required=True)
    flags = (ledger.add_shape, where.add_cluster, output.add_json)
    sanity = output.add_verb(
        verbs, "sanity", "write a small ledger, read it back, compare and delete it", *flags, run=run_sanity
    )
    output.add_bookie(sanity, "--bookie", "use this bookie alone")
    sanity.add_argument("--entries", type=output.whole, default=20, metavar="N", help="entries to write (20)")
    speed = output.add_verb(
        verbs,
        "speed",
        "measure entries per second and latencies of this cluster with one client",
        *flags,
        run=run_speed,
    )
    speed.add_argument("--entries", type=output.whole, default=10_000, metavar="N", help="entries to write (10000)")
    speed.add_argument("--size", type=output.whole, default=1024, metavar="BYTES", help="size of an entry (1024)")
    speed.add_argument(
        "--in-flight",
        type=output.within("--in-flight", 1, _SPEED_ENTRIES_MAX),
        default=500,
        metavar="N",
        help="most entries sent and not yet answered (500)",
    )
    sanity.set_defaults(judge=_judge_sanity)
    speed.set_defaults(judge=_judge_speed)
    for verb in (sanity, speed):
        verb.add_argument("--password", type=ledger.password_bytes, default="bookie test", help="the ledger's password")


def _judge_sanity(arguments: argparse.Namespace) -> None:
    ledger.judge_shape(arguments)
    if arguments.entries > _SANITY_ENTRIES_MAX:  # all of them are held in memory
        raise errors.BadInput(
            f"--entries is {arguments.entries}: it must be {_SANITY_ENTRIES_MAX} at most: `test speed` writes more"
        )
    _check_counts(arguments, "entries")  # of no entry nothing is known, and this command says that the cluster works


async def run_sanity(arguments: argparse.Namespace) -> int:
    facts = await _sanity(arguments)
    output.say(arguments, facts, f"{facts['entries']} entries were written, read back and compared: the cluster works")
    return 0


def _judge_speed(arguments: argparse.Namespace) -> None:
    ledger.judge_shape(arguments)
    _check_counts(arguments, "entries", "size")
    if arguments.size > FRAME_LIMIT_BYTES:  # before it takes all memory
        raise errors.BadInput(f"--size is {arguments.size}: an entry must fit a frame of {FRAME_LIMIT_BYTES} bytes")
    if arguments.entries > _SPEED_ENTRIES_MAX:
        raise errors.BadInput(f"--entries is {arguments.entries}: it must be {_SPEED_ENTRIES_MAX} at most")


async def run_speed(arguments: argparse.Namespace) -> int:
    payload = bytes(index % 251 for index in range(arguments.size))
    async with where.client(arguments) as client:
        writer = await client.create(**ledger.shape_of(arguments))
        try:
            writing = await _write(writer, payload, arguments)
            await writer.close()
            reading = await _read(client, writer, arguments)
        finally:
            await client.delete(writer.id)
    facts = {"entries": arguments.entries, "entryBytes": arguments.size, **writing, **reading}
    output.say(arguments, facts, output.facts(facts))
    return 0


def _check_counts(arguments: argparse.Namespace, *names: str) -> None:
    for name in names:
        if getattr(arguments, name) < 1:
            raise errors.BadInput(f"--{name.replace('_', '-')} is {getattr(arguments, name)}: it must be at least 1")


async def _sanity(arguments: argparse.Namespace) -> dict[str, Any]:
    async with where.client(arguments) as client:
        payloads = [f"entry {number} of a sanity test".encode() for number in range(arguments.entries)]
        if arguments.bookie is not None:
            return await _sanity_of_one(client, arguments, payloads)
        async with await client.create(**ledger.shape_of(arguments)) as writer:
            try:
                await writer.append_many(payloads)
                await writer.close()
                await _compare(client, arguments, writer, payloads)
            finally:
                await client.delete(writer.id)
    return {"entries": len(payloads), "ledger": writer.id, "bookies": list(writer.metadata.last_segment.bookies)}


async def _sanity_of_one(client: Client, arguments: argparse.Namespace, payloads: list[bytes]) -> dict[str, Any]:
    """Add and read entries on one bookie directly, in a ledger id that no metadata names: the bookie collects it like a
    deleted one."""
    bookie_id, ledgers = arguments.bookie, client.shared.ledgers
    await bookie_list.check_known(ledgers.store, ledgers.root, bookie_id, "nobody registered by it")
    ledger_id = await client.shared.ledgers.next_id()
    await _store_on_one(client, arguments, ledger_id, payloads)
    return {"entries": len(payloads), "ledger": ledger_id, "bookies": [bookie_id]}


async def _store_on_one(
    client: Client, arguments: argparse.Namespace, ledger_id: LedgerId, payloads: list[bytes]
) -> None:
    bookie_id: BookieId = arguments.bookie
    digest = Digest(DigestType[arguments.digest], arguments.password)
    length = 0
    with output.told_if_slow(f"bookie {bookie_id}"):
        for number, payload in enumerate(payloads):
            length += len(payload)
            head, tail = digest.seal(ledger_id, EntryId(number), number - 1, length, payload)
            await client.bookies.add(
                bookie_id, ledger_id, EntryId(number), bytes(head) + bytes(tail), digest.master_key
            )
        for number, payload in enumerate(payloads):
            body = await client.bookies.read(bookie_id, ledger_id, EntryId(number))
            _, found = digest.open(body, ledger_id, EntryId(number))
            if bytes(found) != payload:
                raise errors.StorageFailed(
                    f"bookie {bookie_id} gave back other bytes of entry {number} than it took: look at its disks"
                )


async def _compare(client: Client, arguments: argparse.Namespace, writer: LedgerWriter, payloads: list[bytes]) -> None:
    async with await client.open(writer.id, arguments.password) as reader:
        found = [entry.payload for entry in await reader.read(0, len(payloads) - 1)]
    if found != payloads:
        raise errors.StorageFailed(
            f"ledger {writer.id} gave back other entries than were written: look at the logs of its bookies"
        )


async def _write(writer: LedgerWriter, payload: bytes, arguments: argparse.Namespace) -> dict[str, Any]:
    latencies_ns: list[int] = []
    left = arguments.entries

    async def keep_writing() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            sent_ns = time.perf_counter_ns()
            await writer.append(payload)
            latencies_ns.append(time.perf_counter_ns() - sent_ns)
            done(1)

    with output.progress("writing", arguments.entries) as done:
        began_ns = time.perf_counter_ns()
        await together(keep_writing() for _ in range(min(arguments.in_flight, arguments.entries)))
        seconds = (time.perf_counter_ns() - began_ns) / _NS_PER_S
    latencies_ns.sort()
    return {
        "addsPerSecond": round(arguments.entries / seconds),
        "writtenPerSecond": units.format_bytes(round(arguments.entries * len(payload) / seconds)),
        "addLatencyMs": {f"p{share}": _percentile_ms(latencies_ns, share) for share in (50, 99)},
    }


async def _read(client: Client, writer: LedgerWriter, arguments: argparse.Namespace) -> dict[str, Any]:
    began_ns = time.perf_counter_ns()
    count = 0
    with output.progress("reading", arguments.entries) as done:
        async with await client.open(writer.id, arguments.password) as reader:
            async for _ in reader.read_stream(0, arguments.entries - 1):
                count += 1
                done(1)
    seconds = (time.perf_counter_ns() - began_ns) / _NS_PER_S
    return {"readsPerSecond": round(count / seconds)}


def _percentile_ms(sorted_ns: list[int], share: int) -> float:
    """Return the latency that `share` percent of all requests did not exceed."""
    index = max(0, -(-len(sorted_ns) * share // 100) - 1)
    return round(sorted_ns[index] / 1e6, 3)

"""Ledgers for tests of the pipeline: whole ones, open ones, and ones that a disk or a stranger has spoilt."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.blocking import BlockingClient
from bookie.client import Client, DigestType
from bookie.metadata.ledger import new_ledger
from bookie.wire.digest import Digest

Spoil = Callable[[int, BookieId, bytes], bytes | None]


def write(client: BlockingClient, count: int, *, size_bytes: int = 20, quorum: int = 2, **options: object) -> LedgerId:
    """A closed ledger of `count` entries that tell ledger and entry apart; return its id."""
    with client.create(ensemble_size=3, write_quorum=quorum, ack_quorum=quorum, **options) as writer:
        if count:
            writer.append_many([payload(writer.id, entry, size_bytes) for entry in range(count)])
    return writer.id


def payload(ledger_id: int, entry_id: int, size_bytes: int = 20) -> bytes:
    return f"ledger {ledger_id} entry {entry_id} ".encode().ljust(size_bytes, b".")


def flip_bit(body: bytes) -> bytes:
    """The same with one bit of its last byte the other way round."""
    return body[:-1] + bytes([body[-1] ^ 0x10])


def plant(client: BlockingClient, bookies: Sequence[BookieId], count: int, spoil: Spoil) -> LedgerId:
    """A closed ledger whose entries were put on each bookie as `spoil(entry, bookie, body)` says; None: not at all.

    What a client would never write: bookies take any bytes, only readers look at digests.
    """
    return client.run(lambda one: _plant(one, tuple(bookies), count, spoil))


async def _plant(client: Client, bookies: tuple[BookieId, ...], count: int, spoil: Spoil) -> LedgerId:
    ledgers = client.shared.ledgers
    size = len(bookies)
    metadata = new_ledger(ensemble_size=size, write_quorum=size, ack_quorum=size, bookies=bookies, ctoken=1)
    ledger_id = await ledgers.create(metadata)
    digest = Digest(DigestType.CRC32C, b"")
    length = 0
    for number in range(count):
        content = payload(ledger_id, number)
        length += len(content)
        sealed = b"".join(digest.seal(ledger_id, EntryId(number), number - 1, length, content))
        for bookie_id in bookies:
            body = spoil(number, bookie_id, sealed)
            if body is not None:
                await client.bookies.add(bookie_id, ledger_id, EntryId(number), body, digest.master_key)
    stored, version = await ledgers.get(ledger_id)
    await ledgers.put(ledger_id, stored.closed(EntryId(count - 1), length), version)
    return ledger_id


def point_at(client: BlockingClient, ledger_id: LedgerId, bookie_id: BookieId) -> None:
    """Let the metadata say that `bookie_id` is in the ledger's ensemble, in the first place."""

    async def change(one: Client) -> None:
        ledgers = one.shared.ledgers
        stored, version = await ledgers.get(ledger_id)
        segments = tuple(
            dataclasses.replace(segment, bookies=(bookie_id, *segment.bookies[1:])) for segment in stored.segments
        )
        await ledgers.put(ledger_id, dataclasses.replace(stored, segments=segments), version)

    client.run(change)

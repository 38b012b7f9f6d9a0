"""Evacuation: bring what bookies hold of ledgers to other bookies, and name those in the metadata instead.

For bookies that are dead for good or that are to leave. What it needs of them is nothing: every entry is read from
whoever has it, verified, and written as a recovery writes; the leaving are asked last. A ledger whose end is not
decided is recovered first. Rules: metadata.md 5, 11.1; LedgerFragmentReplicator. Java re-seals each copy; here the
stored bytes are copied as they are, so that replicas stay equal.

Order: lock, copy, force, ask whether it is the same life still, then one compare-and-set. CRASH: before the last, the
metadata names whom it named, and the copies are surplus; after it every entry stands on disk at the new bookie. It may
be ended at any point and begun again.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.base.ids import BookieId, EntryId, LedgerId, Life
from bookie.base.throttle import Throttle
from bookie.client import recovery
from bookie.client.bookies import BookieClient
from bookie.client.replication_lock import locked
from bookie.client.shared import Shared, digest_of, schedule_of
from bookie.metadata.ledger import LedgerMetadata
from bookie.quorum import leaving as rules
from bookie.quorum.leaving import Fragment
from bookie.wire import digest

log = logging.getLogger(__name__)

# Entries on their way at once, of all ledgers together: at the frame limit 160 MiB.
_CONCURRENCY = 32
# Records asked for at once while looking for ledgers.
_LOOK_BATCH = 256
# How often a fragment is begun again because of what others did meanwhile.
_ATTEMPTS = 20
_TOKEN_BYTES = 8


class LedgerStillOpen(BookieError):
    """It has no end, and nobody allowed to give it one."""


@dataclass(frozen=True, slots=True)
class Named:
    """A ledger that names any of the leaving. `must_end`: it would be closed first. `problem`: its record cannot be
    read, so that it may name them."""

    ledger_id: LedgerId
    must_end: bool = False
    problem: str = ""


class Evacuation:
    """Of the bookies `leaving`. Any number of ledgers may be moved at once.

    `may_end`: ledgers without an end are recovered, which fences off their writers. `entries` and `bytes` count what
    was copied so far, each copy once.
    """

    def __init__(
        self, shared: Shared, leaving: Sequence[BookieId], *, bytes_per_s: int | None = None, may_end: bool = True
    ) -> None:
        self.entries = 0
        self.bytes = 0
        self._shared = shared
        self._bookies = BookieClient(shared.pool)
        self._leaving = frozenset(leaving)
        self._may_end = may_end
        self._throttle = Throttle(bytes_per_s)
        self._room = asyncio.Semaphore(_CONCURRENCY)
        self._holder = f"bookie-evacuation-{shared.world.entropy.token(_TOKEN_BYTES).hex()}"

    # ---- looking -----------------------------------------------------------------------------------------------------

    async def look(self) -> AsyncIterator[Named | None]:
        """Every ledger of the cluster in turn: what is to be done for it, or None."""
        batch: list[LedgerId] = []
        async for ledger_id in self._shared.ledgers.iterate():
            batch.append(ledger_id)
            if len(batch) == _LOOK_BATCH:
                for found in await asyncio.gather(*map(self.look_at, batch)):
                    yield found
                batch = []
        for found in await asyncio.gather(*map(self.look_at, batch)):
            yield found

    async def look_at(self, ledger_id: LedgerId) -> Named | None:
        """The same of one ledger."""
        try:
            metadata, _ = await self._shared.ledgers.get(ledger_id)
        except errors.LedgerMissing:
            return None  # deleted meanwhile
        except errors.BadInput as error:
            return Named(ledger_id, problem=f"its record cannot be read: {error}")
        if not rules.is_named(metadata, self._leaving):
            return None
        return Named(ledger_id, must_end=rules.must_end_first(metadata, self._leaving))

    # ---- moving ------------------------------------------------------------------------------------------------------

    async def move(self, ledger_id: LedgerId) -> None:
        """Let `ledger_id` stand without the leaving; fine if it does already, or is deleted. May be begun again.

        Raises LedgerStillOpen, NotEnoughBookies, QuorumNotReached (an entry could be had from nobody), TooManyRequests
        (another repairs it now), MetadataError, and what recovery raises.
        """
        ledgers = self._shared.ledgers
        failures = 0
        with contextlib.suppress(errors.LedgerMissing):  # deleted meanwhile
            async with locked(ledgers.store, ledgers.root, ledger_id, self._holder):
                while failures < _ATTEMPTS:
                    metadata = await self._ended(ledger_id)
                    fragment = next(rules.fragments(metadata, self._leaving), None)
                    if fragment is None:
                        return
                    failures = 0 if await self._move_fragment(ledger_id, metadata, fragment) else failures + 1
            raise errors.MetadataError(f"ledger {ledger_id}: the metadata changed {_ATTEMPTS} times in a row")

    async def _ended(self, ledger_id: LedgerId) -> LedgerMetadata:
        """The metadata, once all that the leaving hold has an end."""
        metadata, _ = await self._shared.ledgers.get(ledger_id)
        if not rules.must_end_first(metadata, self._leaving):
            return metadata
        if not self._may_end:
            raise LedgerStillOpen(f"ledger {ledger_id} is {metadata.state.name} and was left as it is")
        metadata, _ = await recovery.recover(self._shared, ledger_id)
        return metadata

    async def _move_fragment(self, ledger_id: LedgerId, metadata: LedgerMetadata, fragment: Fragment) -> bool:
        """Copy it and name the new bookies; False when it is to be begun again: somebody else changed its ensemble
        meanwhile, or a new bookie was restarted."""
        schedule = schedule_of(metadata)
        replacements = self._shared.replacements(schedule, fragment.bookies, fragment.slots, without=self._leaving)
        if len(replacements) < len(fragment.slots):
            raise errors.NotEnoughBookies(
                f"ledger {ledger_id}: {len(fragment.slots)} of the bookies {', '.join(fragment.bookies)} are to be"
                f" replaced, and {len(replacements)} writable ones are left for that: start more"
            )
        takers = tuple(dict.fromkeys(replacements.values()))
        lives = await self._lives(takers)
        copies = fragment.copies(schedule, replacements)
        while batch := list(itertools.islice(copies, _CONCURRENCY)):
            problems = await asyncio.gather(*(self._copy(ledger_id, metadata, *copy) for copy in batch))
            for problem in problems:
                if problem is not None:
                    raise problem
        # Bookies that do not journal entries acknowledge before they are on disk; the leaving may have the only others.
        for bookie_id in takers:
            await self._bookies.force(bookie_id, ledger_id)
        if await self._lives(takers) != lives:
            # The next life says yes to the force, and does not know what it lost: no ledger named it (bp46.md, T17).
            log.warning("copied again, a bookie was restarted meanwhile ledger_id=%d bookies=%s", ledger_id, takers)
            return False
        return await self._publish(ledger_id, fragment, replacements)

    async def _lives(self, bookies: Sequence[BookieId]) -> list[Life | None]:
        return [await self._bookies.life(bookie_id) for bookie_id in bookies]

    async def _publish(self, ledger_id: LedgerId, fragment: Fragment, replacements: Mapping[int, BookieId]) -> bool:
        ledgers = self._shared.ledgers
        for _ in range(_ATTEMPTS):
            metadata, version = await ledgers.get(ledger_id)
            changed = rules.replaced(metadata, fragment, replacements)
            if changed is None:
                return False
            try:
                await ledgers.put(ledger_id, changed, version)
            except errors.VersionConflict:
                continue
            log.info(
                "replicas moved ledger_id=%d from_entry=%d slots=%s bookies=%s",
                ledger_id,
                fragment.first,
                ",".join(map(str, fragment.slots)),
                ",".join(replacements[slot] for slot in fragment.slots),
            )
            return True
        return False

    # ---- one entry ---------------------------------------------------------------------------------------------------

    async def _copy(
        self, ledger_id: LedgerId, metadata: LedgerMetadata, entry_id: EntryId, targets: Sequence[BookieId]
    ) -> BookieError | None:
        """Why it could not be done."""
        try:
            async with self._room:
                body = await self._fetch(ledger_id, metadata, entry_id)
                clock = self._shared.world.clock
                await clock.sleep_until(self._throttle.take(len(body) * len(targets), clock.monotonic_ns()))
                for target in targets:
                    await self._store(target, ledger_id, entry_id, body, digest.master_key(metadata.password))
        except BookieError as error:
            return error
        return None

    async def _fetch(self, ledger_id: LedgerId, metadata: LedgerMetadata, entry_id: EntryId) -> bytes:
        """The stored bytes, verified, from whichever bookie has them; the leaving are asked last."""
        said: list[str] = []
        verifier = digest_of(metadata)
        bookies = sorted(self._shared.pool.by_health(metadata.write_set(entry_id)), key=self._leaving.__contains__)
        for bookie_id in bookies:
            try:
                body = await self._bookies.read(bookie_id, ledger_id, entry_id)
                verifier.open(body, ledger_id, entry_id)
            except BookieError as error:
                said.append(f"{bookie_id}: {error}")
                if isinstance(error, errors.BookieUnavailable | errors.RequestTimedOut):
                    self._shared.pool.quarantine(bookie_id, error)  # asked last from now on
                continue
            return body
        raise errors.QuorumNotReached(
            f"ledger {ledger_id} entry {entry_id} could be had from nobody, so its bookies stay: {'; '.join(said)}"
        )

    async def _store(
        self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId, body: bytes, master_key: bytes
    ) -> None:
        try:
            await self._bookies.add(bookie_id, ledger_id, entry_id, body, master_key, is_recovery=True)
        except BookieError as error:
            self._shared.pool.quarantine(bookie_id, error)  # another is drawn when this is begun again
            raise
        self.entries += 1
        self.bytes += len(body)

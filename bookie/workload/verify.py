"""Reads back everything that was acknowledged: through the client as any reader would, then copy by copy.

Ledgers that are still open are recovered, as the reader of a crashed writer's ledger does. The second look asks one
bookie alone, because a reader would never notice a copy that is missing there as long as the other two are well.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.metadata.ledger import LedgerState
from bookie.ports.time_limit import TimeLimit
from bookie.wire.digest import Digest, DigestType
from bookie.workload import check
from bookie.workload.writer import PASSWORD

IN_PARALLEL = 4
BATCH = 100  # entries read at once
LEDGER_TIMEOUT_S = 90.0
REPORT_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class ReplicaCheck:
    """Which copies to look at one by one: those of `bookie_id`, of entries acknowledged before `before_ms`."""

    bookie_id: str
    before_ms: int


async def verify(
    client: Client,
    ledgers: Sequence[check.AcknowledgedLedger],
    *,
    replicas: ReplicaCheck | None,
    report: Callable[[int], None],
) -> check.CheckResult:
    """Read back all `ledgers` and return the verdict; call `report` now and then with the number of ledgers done."""
    verdict = check.CheckResult()
    waiting = iter(ledgers)

    async def worker() -> None:
        for expected in waiting:
            await _verify_ledger(client, expected, verdict, replicas)
            verdict.ledgers += 1

    async def reporter() -> None:
        while True:
            await asyncio.sleep(REPORT_EVERY_S)
            report(verdict.ledgers)

    async with asyncio.TaskGroup() as group:
        talk = group.create_task(reporter())
        workers = [group.create_task(worker()) for _ in range(IN_PARALLEL)]
        await asyncio.wait(workers)
        talk.cancel()
    report(verdict.ledgers)
    return verdict


async def _verify_ledger(
    client: Client, expected: check.AcknowledgedLedger, verdict: check.CheckResult, replicas: ReplicaCheck | None
) -> None:
    verdict.acknowledged += len(expected.acknowledged)
    unread = sorted(expected.acknowledged)
    try:
        async with TimeLimit(LEDGER_TIMEOUT_S):
            ledger_id = LedgerId(expected.ledger_id)
            stored = await client.metadata(ledger_id)
            reader = await client.open(ledger_id, PASSWORD)
            verdict.recovered += stored.state is not LedgerState.CLOSED
            verdict.judge_end(expected, reader.last_entry)
            for first, last in _ranges(reader.last_entry):
                for entry in await reader.read(EntryId(first), EntryId(last)):
                    if entry.entry_id in expected.acknowledged:
                        verdict.judge_entry(expected, entry.entry_id, entry.payload)
                unread = [entry_id for entry_id in unread if entry_id > last]
            await reader.close()
            if replicas is not None:
                await _verify_replicas(client, expected, verdict, replicas)
    except (errors.BookieError, TimeoutError) as error:
        verdict.failed_entries(expected, unread, error)
        return
    verdict.lost_entries(expected, unread, "beyond the end of the ledger")


def _ranges(last_entry: int) -> Iterator[tuple[int, int]]:
    """Yield inclusive ranges of at most BATCH entries from 0 to `last_entry`."""
    for first in range(0, last_entry + 1, BATCH):
        yield first, min(first + BATCH - 1, last_entry)


async def _verify_replicas(
    client: Client, expected: check.AcknowledgedLedger, verdict: check.CheckResult, replicas: ReplicaCheck
) -> None:
    """Read every copy that metadata assigns to the bookie from that bookie alone."""
    bookie_id = BookieId(replicas.bookie_id)
    stored = await client.metadata(LedgerId(expected.ledger_id))
    digest = Digest(DigestType(stored.digest_type), stored.password)
    for entry_id in expected.acknowledged_before(replicas.before_ms):
        if bookie_id not in stored.write_set(EntryId(entry_id)):
            continue
        verdict.replicas_checked += 1
        try:
            sealed = await client.bookies.read(bookie_id, LedgerId(expected.ledger_id), EntryId(entry_id))
            _, body = digest.open(sealed, LedgerId(expected.ledger_id), EntryId(entry_id))
        except errors.BookieError as error:
            wrong: str | None = f"{type(error).__name__}: {error}"
            if not check.proves_loss(error):
                verdict.replicas_unknown += 1
                verdict.problem(f"ledger {expected.ledger_id} entry {entry_id} on {bookie_id} was not read: {wrong}")
                continue
        else:
            wrong = check.difference(expected, entry_id, body)
        if wrong:
            verdict.replicas_missing += 1
            verdict.problem(f"ledger {expected.ledger_id} entry {entry_id} on {bookie_id}: {wrong}")

"""One writer: creates ledgers, appends at a pace, and reports each acknowledgement to the oracle's log.

Plans: `steady` writes one ledger for as long as it lives; `closing` closes every ledger; `leaving` walks away from each
without closing it; `doomed` is `steady` in a process somebody kills. It must never record an entry that was not
acknowledged, and a failed ledger is given up, not retried: its tail is for recovery to decide.
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from bookie.base import errors
from bookie.base.ids import EntryId
from bookie.client import Client, LedgerWriter
from bookie.workload import payload, records

TICK_S = 0.02  # entries due within a tick go out together: pipelined, as a real writer does
WINDOW_MAX = 256  # entries in flight; beyond it the writer waits
RETRY_S = 0.2  # before the next ledger after a failure
PASSWORD = b"oracle"


class Log(Protocol):
    """The log in which a writer records acknowledgements; durable soon, in the order of the calls."""

    def append(self, record: records.Record) -> None: ...


@dataclass(frozen=True, slots=True)
class WriterPlan:
    """What one writer does. The plans closing and leaving use `entries_per_ledger`; steady and doomed ignore it."""

    name: str  # steady | closing | leaving | doomed
    rate_per_s: float
    entries_per_ledger: int
    seed: int

    @property
    def entries_max(self) -> int | None:
        """Return how many entries a ledger of this plan gets; None = as many as the writer lives to append."""
        return self.entries_per_ledger if self.name in ("closing", "leaving") else None

    @property
    def closes(self) -> bool:
        """True when a ledger is closed at its end; the others stay open for recovery."""
        return self.name in ("closing", "steady")


async def write(client: Client, plan: WriterPlan, log: Log, stopping: asyncio.Event) -> None:
    """Write ledger after ledger until `stopping` is set. A failed one is noted and left behind."""
    while not stopping.is_set():
        ledger_id = -1
        try:
            writer = await client.create(ensemble_size=3, write_quorum=3, ack_quorum=2, password=PASSWORD)
            ledger_id = writer.id
            log.append(records.Create(ledger_id, plan.name, plan.seed))
            await _fill(writer, plan, log, stopping)
            if plan.closes:
                await writer.close()
                log.append(records.Close(ledger_id, writer.last_confirmed))
        except errors.BookieError as error:
            log.append(records.Fail(ledger_id, f"{type(error).__name__}: {error}"))
            await asyncio.sleep(RETRY_S)


async def _fill(writer: LedgerWriter, plan: WriterPlan, log: Log, stopping: asyncio.Event) -> None:
    """Append at the plan's pace until the ledger is full or `stopping`; every acknowledgement is in the log on return.

    After a stall the writer does not catch up: the pace is a ceiling, so that a fleet that recovers is not overloaded.
    """
    pending: deque[asyncio.Future[EntryId]] = deque()
    sent, due = 0, 1.0
    try:
        while not stopping.is_set() and sent != plan.entries_max:
            room = WINDOW_MAX - len(pending)
            left = room if plan.entries_max is None else min(room, plan.entries_max - sent)
            for _ in range(min(int(due), left)):
                pending.append(writer.append_nowait(payload.payload(plan.seed, writer.id, sent)))
                sent += 1
            due = due % 1 + plan.rate_per_s * TICK_S
            await asyncio.sleep(TICK_S)
            _harvest(writer.id, plan, pending, log)
        while pending:
            await asyncio.wait([pending[-1]])
            _harvest(writer.id, plan, pending, log)
    finally:
        await asyncio.gather(*pending, return_exceptions=True)  # seen, so that nobody warns about them


def _harvest(ledger_id: int, plan: WriterPlan, pending: deque[asyncio.Future[EntryId]], log: Log) -> None:
    """Record the first entries of `pending` that are acknowledged, in order. Raises the error of a failed add."""
    while pending and pending[0].done():
        entry_id = pending.popleft().result()
        body = payload.payload(plan.seed, ledger_id, entry_id)
        log.append(records.Ack(ledger_id, entry_id, len(body), payload.digest(body)))

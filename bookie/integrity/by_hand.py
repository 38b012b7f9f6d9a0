"""Repairs a stopped bookie's identity for a person:
boots up to the point where the bookie would serve, and stops there.

The marks of phase one are made durable, then the cookie is replaced and the volumes are stamped (BP-46: the fix that a
person can run). Phase two follows when the bookie is started. It is the boot itself that does it, and the grant is
checked like any other, so nothing is allowed here that an operator could not have allowed.
"""

import asyncio

from bookie.base import errors
from bookie.base.errors import BookieError
from bookie.integrity.boot import Boot
from bookie.integrity.together import together
from bookie.ports.admin import Grant, State, Verdict
from bookie.ports.metadata_store import MetadataStore
from bookie.storage.store import EntryStore

# Verdicts in which identity and volumes agree, or nothing is there that could disagree.
NOTHING_TO_FIX = (Verdict.HEALTHY, Verdict.UNCLEAN, Verdict.BOOTSTRAP)
FIXABLE = (Verdict.LOST, Verdict.RESUME)


async def fix(boot: Boot, metadata: MetadataStore, grant: Grant | None) -> None:
    """Repair the identity of the bookie of `boot` (whose options wait for a grant), so that it may be started.

    `grant` None: only to finish what was begun (RESUME). Raises GrantRefused, RefusedToStart, StorageFailed. Cut at any
    point, it may be run again.
    """
    run = _BootByHand()
    store, _ = await together([run.boot(boot, metadata), run.give(boot, grant)])
    assert store is not None
    if run.failure is not None or not await store.close():
        await store.abandon()
        raise errors.StorageFailed("the last flush failed; run the command again") from run.failure
    await boot.ended_well()


class _BootByHand:
    """Runs the boot and, beside it, the task that gives the grant; each waits for the other's progress."""

    def __init__(self) -> None:
        self.failure: BookieError | None = None
        self._news = asyncio.Event()  # the boot waits for somebody, or is over
        self._is_over = False

    async def boot(self, boot: Boot, metadata: MetadataStore) -> EntryStore | None:
        store = await boot.run(metadata, on_state=self._enter, fail=self._fail)
        self._is_over = True
        self._news.set()
        return store

    async def give(self, boot: Boot, grant: Grant | None) -> None:
        """Give the grant once the boot waits for it; raise GrantRefused when the boot waits again afterwards."""
        if grant is not None:
            await self._news.wait()
            if self._is_over:
                return
            await boot.grant(grant)
            # In one step with the acceptance: the boot's next look takes the grant, or drops it and says so.
            self._news.clear()
        await self._news.wait()
        if not self._is_over:
            raise errors.GrantRefused(
                "changed",
                "the evidence changed, so the grant no longer fits: run the command again and read the new report",
            )

    def _enter(self, state: State) -> None:
        if state in (State.WAITING_GRANT, State.HELD):
            self._news.set()

    def _fail(self, error: BookieError) -> None:
        self.failure = self.failure or error

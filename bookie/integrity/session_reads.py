"""Reads the metadata store so that each answer is at least as new as the moment at which this reader was made.

A `sync` precedes the first read of each session: one that was lost and made again may be with a server that is behind,
and a record of before the claim proves nothing (decisions/0021). Waits for a store that does not answer.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from bookie.base.errors import BookieError
from bookie.client.ledgers import LedgerStore
from bookie.integrity.metadata_retry import MetadataRetry

T = TypeVar("T")


class SessionReads:
    """One reader; make it after the claim. Any number of reads at a time."""

    def __init__(self, ledgers: LedgerStore, retry: MetadataRetry) -> None:
        self._ledgers = ledgers
        self._retry = retry
        self._synced: int | None = None  # the session that has seen everything of before this reader

    async def read(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` returns, or raise its refusal, from within one session that began with a sync."""
        while True:
            session = await self.session()
            try:
                answer = await self._retry.read(call)
            except BookieError:
                if self.is_still(session):
                    raise
            else:
                if self.is_still(session):
                    return answer

    async def session(self) -> int:
        """Return the present session, after a sync in it. What is read in it counts while `is_still` is True."""
        store = self._ledgers.store
        while self._synced != (session := store.session_id):
            await self._retry.read(lambda: store.sync(self._ledgers.root))
            if self.is_still(session):
                self._synced = session
        return session

    def is_still(self, session: int) -> bool:
        return self._ledgers.store.session_id == session

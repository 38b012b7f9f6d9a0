"""Each answer is of after a moment: a sync precedes the first read of each session, and no answer spans two."""

from typing import Any

import pytest

from bookie.base import errors
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.session_reads import SessionReads
from story_support import in_a_loop


class Servers:
    """A metadata store whose next session may be with a server that is behind. A session sees what was there at its
    last sync, or at the old time `behind`."""

    root = "/ledgers"

    def __init__(self) -> None:
        self.store = self
        self.session_id = 1
        self.now, self.behind = 10, 3
        self.seen = 3
        self.syncs = 0
        self.refusal: errors.BookieError | None = None
        self.ends_in: list[str] = []  # the session ends in the next call of this kind

    async def sync(self, path: str) -> None:
        self.syncs += 1
        self.seen = self.now
        self._may_end("sync")

    async def look(self) -> int:
        self._may_end("look")
        if self.refusal is not None and self.seen == self.behind:
            raise self.refusal
        return self.seen

    def _may_end(self, call: str) -> None:
        if self.ends_in[:1] == [call]:
            self.ends_in.pop(0)
            self.session_id += 1
            self.seen = self.behind


class Clock:
    def monotonic_ns(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        pass


def reads_of(servers: Servers) -> SessionReads:
    everything: Any = servers
    clock: Any = Clock()
    return SessionReads(everything, MetadataRetry(clock))


@in_a_loop
async def test_one_sync_serves_all_reads_of_a_session() -> None:
    servers = Servers()
    reads = reads_of(servers)

    assert [await reads.read(servers.look) for _ in range(3)] == [10, 10, 10]
    assert servers.syncs == 1


@pytest.mark.parametrize("ends_in", [["look"], ["sync"], ["sync", "look"], ["look", "look", "sync"]])
@in_a_loop
async def test_a_session_that_ends_under_a_read_or_a_sync_voids_both(*, ends_in: list[str]) -> None:
    servers = Servers()
    reads = reads_of(servers)
    servers.ends_in = list(ends_in)

    assert await reads.read(servers.look) == 10
    assert servers.ends_in == []
    assert servers.syncs == 1 + len(ends_in)


@in_a_loop
async def test_a_refusal_of_a_session_that_is_behind_is_asked_again() -> None:
    """ "No such ledger" may be of before it was made."""
    servers = Servers()
    reads = reads_of(servers)
    servers.refusal = errors.LedgerMissing("not here yet")
    servers.ends_in = ["look"]

    assert await reads.read(servers.look) == 10


@in_a_loop
async def test_a_refusal_of_the_present_is_one() -> None:
    servers = Servers()
    servers.behind = servers.now
    servers.refusal = errors.LedgerMissing("gone")

    with pytest.raises(errors.LedgerMissing):
        await reads_of(servers).read(servers.look)


@in_a_loop
async def test_what_was_read_in_a_session_counts_until_it_ends() -> None:
    servers = Servers()
    reads = reads_of(servers)
    session = await reads.session()

    assert reads.is_still(session)
    servers.session_id += 1
    assert not reads.is_still(session)

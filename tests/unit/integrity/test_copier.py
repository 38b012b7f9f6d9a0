"""Copies: verified, from the next peer when one is corrupt or has nothing, and told when nobody has it
(spec/bp46.md#T19)."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import LAST_ENTRY, BookieId, EntryId, LedgerId
from bookie.base.throttle import Throttle
from bookie.base.units import NS_PER_S
from bookie.integrity.copier import Copier, EntriesUnavailable
from bookie.integrity.means import RepairMeans
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.progress import BootProgress
from bookie.metadata.ledger import LedgerMetadata
from bookie.storage.store import LedgerFacts
from bookie.wire.digest import Digest, DigestType

LEDGER = LedgerId(5)
B1, B2 = BookieId("b1"), BookieId("b2")
DIGEST = Digest(DigestType.CRC32C, b"")


def sealed(entry_id: int, *, ledger_id: LedgerId = LEDGER, digest: Digest = DIGEST) -> bytes:
    return b"".join(bytes(part) for part in digest.seal(ledger_id, EntryId(entry_id), -1, 7, b"payload"))


class StillClock:
    def monotonic_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0

    async def sleep_until(self, deadline_ns: int) -> None:
        await asyncio.sleep(0)


class Shelf:
    """The questions that a copier asks of a store."""

    def __init__(self, *held: int, unreadable: tuple[int, ...] = (), bad: tuple[int, ...] = ()) -> None:
        self.held = {EntryId(entry): b"" for entry in held}
        self.bad_entries = self
        self.bad = bad  # that are known to be bad
        self.more: set[LedgerId] = set()
        self.unreadable = unreadable
        self.keys: list[bytes] = []
        self.checked: list[EntryId] = []
        self.refusals = 0

    async def entry_ranges(self, ledger_id: LedgerId) -> list[tuple[EntryId, EntryId]]:
        return [(entry, entry) for entry in sorted(self.held)]

    async def check_entry(self, ledger_id: LedgerId, entry_id: EntryId) -> bool:
        self.checked.append(entry_id)
        return entry_id not in self.unreadable

    def of(self, ledger_id: LedgerId) -> list[EntryId]:
        return [EntryId(entry) for entry in self.bad]

    def facts(self, ledger_id: LedgerId) -> LedgerFacts | None:
        return None

    async def room(self) -> None:
        return

    async def flush(self) -> None:
        self.refusals = 0

    def add_copied(self, ledger_id: LedgerId, entry_id: EntryId, body: bytes, master_key: bytes) -> None:
        if self.refusals:
            raise errors.TooManyRequests("full")
        self.held[entry_id] = body
        self.keys.append(master_key)


Answer = bytes | errors.BookieError
Answers = Callable[[BookieId, EntryId], Answer]


class Peers:
    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.asked: list[tuple[BookieId, EntryId]] = []

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.asked.append((bookie_id, entry_id))
        answer = self.answers(bookie_id, entry_id)
        if isinstance(answer, errors.BookieError):
            raise answer
        return answer


class SlowPeers(Peers):
    """Have every entry of every ledger, and count how many they were asked for at the same time."""

    def __init__(self) -> None:
        super().__init__(lambda bookie, entry: sealed(entry))
        self.under_way = self.most = 0

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0)
        self.under_way -= 1
        return sealed(entry_id, ledger_id=ledger_id)


def copy(shelf: Shelf, answers: Answers, *, verify: bool = False, metadata: LedgerMetadata | None = None) -> int:
    store: Any = shelf
    clock = StillClock()
    progress = BootProgress(clock)
    copier = Copier(store, build.ME, Peers(answers), clock, Throttle(None), progress, concurrency=2, verify=verify)
    copied = asyncio.run(copier.copy(LEDGER, metadata or build.a_ledger().closed(EntryId(3), 28)))
    assert progress.entries_copied == copied
    assert progress.entries_pending == 0
    return copied


def test_what_is_missing_is_fetched_and_kept_under_the_ledgers_key() -> None:
    shelf = Shelf(1)

    assert copy(shelf, lambda bookie, entry: sealed(entry)) == 3
    assert sorted(shelf.held) == [0, 1, 2, 3]
    assert set(shelf.keys) == {DIGEST.master_key}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda entry: sealed(entry)[:-1] + b"X",
        lambda entry: sealed(entry + 1),
        lambda entry: sealed(entry, ledger_id=LedgerId(6)),
        lambda entry: sealed(entry, digest=Digest(DigestType.HMAC, b"other")),
        lambda entry: b"",
        lambda entry: errors.NoSuchEntry("not here"),
        lambda entry: errors.UnknownLedgerState("limbo here too"),
        lambda entry: errors.RequestTimedOut("silence"),
    ],
)
def test_a_corrupt_empty_or_silent_peer_costs_one_more_question_and_spreads_nothing(
    wrong: Callable[[int], Answer],
) -> None:
    shelf = Shelf()

    copy(shelf, lambda bookie, entry: wrong(entry) if bookie == B1 else sealed(entry))

    assert shelf.held == {EntryId(entry): sealed(entry) for entry in range(4)}


def test_an_entry_that_nobody_has_is_told_after_all_others_were_copied() -> None:
    shelf = Shelf()

    with pytest.raises(
        EntriesUnavailable, match=r"entry 1: .*b1: gone.*b2: gone|entry 1: .*b2: gone.*b1: gone"
    ) as told:
        copy(shelf, lambda bookie, entry: errors.NoSuchEntry("gone") if entry == 1 else sealed(entry))

    assert told.value.count == 1
    assert sorted(shelf.held) == [0, 2, 3]


def test_peers_that_do_not_answer_end_the_attempt_at_once() -> None:
    shelf = Shelf()

    with pytest.raises(EntriesUnavailable, match="and 1 more"):
        copy(shelf, lambda bookie, entry: errors.BookieUnavailable("down"))

    assert shelf.held == {}


def copier_of(shelf: Shelf, peers: Peers) -> tuple[Copier, BootProgress]:
    store: Any = shelf
    clock = StillClock()
    progress = BootProgress(clock)
    return Copier(store, build.ME, peers, clock, Throttle(None), progress, concurrency=2, verify=False), progress


def test_so_many_entries_are_under_way_together_of_all_ledgers() -> None:
    peers = SlowPeers()
    copier, progress = copier_of(Shelf(), peers)
    metadata = build.a_ledger().closed(EntryId(3), 28)

    async def story() -> None:
        await asyncio.gather(*(copier.copy(LedgerId(number), metadata) for number in (7, 8, 9)))

    asyncio.run(story())
    assert (peers.most, progress.entries_copied) == (2, 12)


def test_what_lies_behind_a_long_row_that_nobody_has_is_reached_at_the_first_attempt_if_a_peer_shows_it() -> None:
    shelf, metadata = Shelf(), build.a_ledger().closed(EntryId(2**40), 1)
    far = range(20_000, 20_010)

    def answer(bookie: BookieId, entry: int) -> Answer:
        entry = far[-1] if entry == LAST_ENTRY else entry
        return sealed(entry) if entry in far else errors.NoSuchEntry("gone")

    with pytest.raises(EntriesUnavailable):
        copy(shelf, answer, metadata=metadata)

    assert sorted(shelf.held) == list(far)


def test_attempts_at_a_ledger_too_long_for_one_begin_with_the_first_missing_and_go_on_where_the_last_ended() -> None:
    shelf, metadata = Shelf(), build.a_ledger().closed(EntryId(2**40), 1)
    peers = Peers(lambda bookie, entry: errors.NoSuchEntry("gone"))
    copier, progress = copier_of(shelf, peers)
    ends = []

    for _ in range(3):
        peers.asked.clear()
        with pytest.raises(EntriesUnavailable, match=r"entry 0: .*are asked for later"):
            asyncio.run(copier.copy(LEDGER, metadata))
        asked = [entry for _, entry in peers.asked if entry != LAST_ENTRY]
        assert min(asked) == 0
        assert len(asked) < 20_000
        ends.append(max(asked))
    peers.answers = lambda bookie, entry: sealed(entry) if entry < 3 else errors.NoSuchEntry("gone")
    with pytest.raises(EntriesUnavailable, match="entry 3: "):
        asyncio.run(copier.copy(LEDGER, metadata))

    assert ends == sorted(set(ends))
    assert sorted(shelf.held) == [0, 1, 2]
    assert progress.entries_pending == 0


@pytest.mark.parametrize("held", [(0, 1, 2), (1, 2, 3)], ids=["one is missing after it", "one is missing before it"])
def test_where_disks_were_lost_in_part_the_bytes_decide_and_not_the_index(held: tuple[int, ...]) -> None:
    rotten = held[1]
    shelf = Shelf(*held, unreadable=(rotten,))

    assert copy(shelf, lambda bookie, entry: sealed(entry), verify=True) == 2
    assert shelf.held[EntryId(rotten)] == sealed(rotten)


def test_of_what_is_here_only_what_is_known_to_be_bad_is_read_and_fetched_where_it_is_still_bad() -> None:
    """Entry 0 reads well again, 2 is bad as was found, 3 is bad and nobody knows it."""
    shelf = Shelf(0, 1, 2, 3, unreadable=(2, 3), bad=(0, 2))

    assert copy(shelf, lambda bookie, entry: sealed(entry)) == 1
    assert shelf.checked == [0, 2]
    assert [entry for entry, body in shelf.held.items() if body] == [2]


def test_of_a_ledger_with_more_bad_entries_than_are_known_all_is_read() -> None:
    shelf = Shelf(0, 1, 2, 3, unreadable=(2, 3))
    shelf.more = {LEDGER}

    assert copy(shelf, lambda bookie, entry: sealed(entry)) == 2
    assert shelf.checked == [0, 1, 2, 3]


def test_a_bad_entry_that_is_no_share_of_this_bookie_or_not_decided_is_not_fetched() -> None:
    shelf = Shelf(0, 1, 2, 3, 9, unreadable=(1, 9), bad=(1, 9))
    metadata = build.a_ledger(write=1, ack=1).closed(EntryId(3), 28)
    held = [entry for entry in range(4) if build.ME in metadata.write_set(EntryId(entry))]
    assert 1 not in held

    assert copy(shelf, lambda bookie, entry: sealed(entry), metadata=metadata) == 0
    assert shelf.checked == []


def test_a_full_write_cache_is_flushed_and_the_copy_goes_on() -> None:
    shelf = Shelf()
    shelf.refusals = 1

    assert copy(shelf, lambda bookie, entry: sealed(entry)) == 4


def test_a_ledger_without_a_password_is_checked_by_its_ids() -> None:
    old = build.a_ledger(has_password=False, digest_type=0).closed(EntryId(0), 7)
    shelf = Shelf()

    copy(shelf, lambda bookie, entry: sealed(entry + 1) if bookie == B1 else sealed(entry), metadata=old)

    assert shelf.held == {EntryId(0): sealed(0)}


class PacedClock(StillClock):
    """Notes until when copies were told to wait."""

    def __init__(self) -> None:
        self.waits: list[int] = []

    async def sleep_until(self, deadline_ns: int) -> None:
        self.waits.append(deadline_ns)
        await asyncio.sleep(0)


def copier_by_means(
    shelf: Shelf, peers: Peers, *, verify: bool = False, clock: Any = None, throttle: Throttle | None = None
) -> Copier:
    """The copier that a repair gets, of a bookie that copies three entries together."""
    nobody: Any = None
    world: Any = SimpleNamespace(clock=clock or StillClock())
    store: Any = shelf
    means = RepairMeans(
        store=store,
        ledgers=nobody,
        me=build.ME,
        opener=nobody,
        peers=peers,
        options=IntegrityOptions(copy_concurrency=3),
        world=world,
        retry=nobody,
        throttle=throttle or Throttle(None),
    )
    return means.copier(BootProgress(world.clock), verify=verify)


@pytest.mark.parametrize(("verify", "copied"), [(True, 1), (False, 0)])
def test_a_repair_reads_what_is_here_only_where_it_is_told_to(verify: bool, copied: int) -> None:
    """A bookie whose disks were set back has to; who fills holes would read its whole disk."""
    shelf = Shelf(0, 1, 2, 3, unreadable=(2,))
    copier = copier_by_means(shelf, Peers(lambda bookie, entry: sealed(entry)), verify=verify)

    assert asyncio.run(copier.copy(LEDGER, build.a_ledger().closed(EntryId(3), 28))) == copied
    assert len(shelf.checked) == 4 * copied


def test_a_repair_copies_as_many_entries_together_and_as_fast_as_its_options_say() -> None:
    clock, peers = PacedClock(), SlowPeers()
    copier = copier_by_means(Shelf(), peers, clock=clock, throttle=Throttle(len(sealed(0))))

    asyncio.run(copier.copy(LEDGER, build.a_ledger().closed(EntryId(11), 84)))

    assert peers.most == 3
    assert max(clock.waits) > 10 * NS_PER_S, "twelve entries, one in a second"

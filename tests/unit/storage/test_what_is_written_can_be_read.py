"""Whatever the store accepts, the next life of the store reads back; what fits no format is refused, and nothing of it
is kept."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import LEDGER_ID_MAX, EntryId, LedgerId
from bookie.sim.node import ProcessEnd
from bookie.storage.store import EntryStore
from storage_support import KEY, Bench, Outcome, entry, put, run
from story_support import story

LEDGER = LedgerId(7)
IDS = st.one_of(st.integers(0, 40), st.integers(-(2**63), 2**63 - 1), st.sampled_from([0, 2**31, 2**63 - 1, -1]))
KEYS = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([1023, 1024, 1025, 65_535, 65_536, 70_000]).map(bytes),
)
LACS = st.one_of(IDS, st.integers(-3, 60))


@pytest.mark.parametrize("size", [1025, 65_536, 70_000])
@story(run)
async def test_a_master_key_that_no_row_holds_is_refused_and_nothing_of_it_is_kept(bench: Bench, *, size: int) -> None:
    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.BadRequest, match="master key"):
            put(store, 7, 0, key=bytes(size))
        with pytest.raises(errors.BadRequest, match="master key"):
            store.fence(LEDGER, bytes(size), Outcome())
        with pytest.raises(errors.BadRequest, match="master key"):
            store.write_lac(LEDGER, struct.pack(">qq", 7, 0), bytes(size), Outcome())
        with pytest.raises(errors.BadRequest, match="master key"):
            store.add_copied(LEDGER, EntryId(0), entry(7, 0), bytes(size))
        with pytest.raises(errors.BadRequest, match="master key"):
            await store.protect([(LedgerId(8), True, True, KEY), (LEDGER, True, True, bytes(size))])
        assert (store.facts(LEDGER), store.facts(LedgerId(8))) == (None, None)
        await store.flush()

    await bench.life(work)
    assert bench.was_clean


@story(run)
async def test_an_explicit_lac_that_no_row_holds_is_refused(bench: Bench) -> None:
    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.BadRequest, match="explicit LAC of 70016 bytes"):
            store.write_lac(LEDGER, struct.pack(">qq", 7, 0) + bytes(70_000), KEY, Outcome())
        assert store.facts(LEDGER) is None

    await bench.life(work)


@story(run)
async def test_adds_of_more_bytes_than_a_record_may_have_are_refused(
    bench: Bench, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A quarter of a GiB in a test is too much: one body, named often.
    body = entry(7, 0, payload=bytes(1 << 22))

    async def work(store: EntryStore) -> None:
        with pytest.raises(errors.BadRequest, match="at once"):
            store.add(LEDGER, [EntryId(0)] * 65, [body] * 65, KEY, is_recovery=False, done=Outcome())
        assert store.facts(LEDGER) is None

    await bench.life(work)


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), IDS, IDS, LACS, KEYS, st.binary(max_size=60)),
        st.tuples(st.just("copy"), IDS, IDS, LACS, KEYS, st.binary(max_size=60)),
        st.tuples(st.just("fence"), IDS, st.just(0), st.just(0), KEYS, st.just(b"")),
        st.tuples(
            st.just("lac"), IDS, st.just(0), LACS, KEYS, st.sampled_from([0, 4, 20, 1008, 1009, 66_000]).map(bytes)
        ),
        st.tuples(st.just("protect"), IDS, st.integers(-1, 2**64), st.just(0), KEYS, st.just(b"")),
    ),
    max_size=12,
)


@settings(max_examples=40, deadline=None)
@given(actions=ACTIONS, how=st.sampled_from([ProcessEnd.EXIT, ProcessEnd.KILL, ProcessEnd.POWER_CUT]))
def test_all_that_was_accepted_is_read_back_by_the_next_life(
    actions: list[tuple[str, int, int, int, bytes, bytes]], how: ProcessEnd
) -> None:
    taken: dict[tuple[int, int], bytes] = {}
    fenced: set[int] = set()
    limbo: set[int] = set()

    async def act(bench: Bench, store: EntryStore) -> None:
        for what, ledger, number, lac, key, extra in actions:
            outcome = Outcome()
            try:
                if what in ("add", "copy"):
                    body = entry(ledger, number, lac=lac, payload=extra)
                if what == "add":
                    store.add(LedgerId(ledger), [EntryId(number)], [body], key, is_recovery=True, done=outcome)
                elif what == "copy":
                    store.add_copied(LedgerId(ledger), EntryId(number), body, key)
                    await store.flush()
                    outcome(None)
                elif what == "fence":
                    store.fence(LedgerId(ledger), key, outcome)
                elif what == "lac":
                    store.write_lac(LedgerId(ledger), struct.pack(">qq", ledger, lac) + extra, key, outcome)
                else:
                    await store.protect([(LedgerId(ledger), False, True, key)], epoch=number)
                    outcome(None)
            except errors.BookieError:
                continue
            await bench.settle(outcome)
            assert outcome.is_ok
            if what in ("add", "copy"):
                taken[ledger, number] = body
            elif what == "fence":
                fenced.add(ledger)
            elif what == "protect":
                limbo.add(ledger)

    async def look(bench: Bench, store: EntryStore) -> None:
        for (ledger, number), body in taken.items():
            assert await bench.read(store, ledger, number) == body
            assert await store.read_many(LedgerId(ledger), [EntryId(number), EntryId(number)])
            assert ledger in limbo or (number, number) in await store.entry_ranges(LedgerId(ledger)) or len(taken) > 1
        for ledger in sorted(fenced):
            facts = store.facts(LedgerId(ledger))
            assert facts is not None
            assert facts.is_fenced
        for ledger in sorted(limbo):
            facts = store.facts(LedgerId(ledger))
            assert facts is not None
            assert facts.is_limbo
        await store.flush()

    async def story(bench: Bench) -> None:
        await bench.life(lambda store: act(bench, store), end=how)
        await bench.life(lambda store: look(bench, store), end=how)
        await bench.life(lambda store: look(bench, store))
        assert bench.was_clean

    run(story)


@pytest.mark.parametrize("ledger", [0, LEDGER_ID_MAX])
@story(run)
async def test_the_highest_entry_of_all_is_read_listed_and_scrubbed(bench: Bench, *, ledger: int) -> None:
    async def work(store: EntryStore) -> None:
        await bench.put_all(store, ledger, [2**63 - 2, 2**63 - 1])
        await store.flush()
        assert await store.entry_ranges(LedgerId(ledger)) == [(2**63 - 2, 2**63 - 1)]
        scrubber = Scrubber(store.partitions, store.bad_entries, store.stats, ScrubOptions(), bench.node.world.clock)
        await scrubber._whole_pass()
        assert (store.stats.scrub_entries, scrubber.report().bad) == (2, ())

    await bench.life(work)


from bookie.storage.scrub import Scrubber  # noqa: E402
from bookie.storage.scrub_options import ScrubOptions  # noqa: E402

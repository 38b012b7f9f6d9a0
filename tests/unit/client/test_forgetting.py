"""What is deleted of a bookie that has left for good, and when not (spec/metadata.md#M42)."""

from collections.abc import Callable, Coroutine

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation, LedgerId
from bookie.base.units import NS_PER_MS
from bookie.client.ledgers import LedgerStore
from bookie.client.repair import forgetting, remains
from bookie.client.repair.forgetting import GONE_MS_MIN, Forgetting, Surveys
from bookie.metadata import cookie, paths
from bookie.metadata.cookie import IncarnationRecord
from bookie.metadata.ledger import new_ledger
from bookie.ports.clock import Clock
from bookie.ports.metadata_store import MetadataStore, Stored
from bookie.sim.node import Simulation
from story_support import story

ROOT, ID = "/ledgers", BookieId("bookie-1")
COOKIE, POSITION, RECORD = paths.cookie(ROOT, ID), paths.position(ROOT, ID), paths.incarnation(ROOT, ID)


def with_records(story: Callable[[MetadataStore], Coroutine[None, None, None]], *made: str) -> None:
    simulation = Simulation("forget")

    async def run() -> None:
        node = simulation.node("clerk")
        store = await node.do(node.begin().metadata_stores.connect(f"zk+hierarchical://zk:2181{ROOT}"))
        for path in made:
            await node.do(store.create(path, b"x", parents=True))
        await node.do(story(store))

    simulation.run(run())


async def stands(store: MetadataStore, path: str) -> bool:
    try:
        await store.get(path)
    except errors.NodeMissing:
        return False
    return True


@story(with_records, COOKIE, POSITION, RECORD)
async def test_cookie_and_position_go_and_the_record_of_lives_stays(store: MetadataStore) -> None:
    assert await forgetting.forget(store, ROOT, ID)

    assert [await stands(store, path) for path in (COOKIE, POSITION, RECORD)] == [False, False, True]


@story(with_records, COOKIE)
async def test_a_bookie_that_told_no_position_is_forgotten_too(store: MetadataStore) -> None:
    assert await forgetting.forget(store, ROOT, ID)

    assert not await stands(store, COOKIE)


@story(with_records, POSITION)
async def test_without_a_cookie_nothing_is_deleted(store: MetadataStore) -> None:
    assert not await forgetting.forget(store, ROOT, ID)

    assert await stands(store, POSITION)


class Busy:
    """A store in which a process of the bookie tells its position once more, after ours was read."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.get, self.create = store.get, store.create

    async def transact(self, ops: list[object]) -> None:
        stored = await self._store.get(POSITION)
        await self._store.put(POSITION, b"y", stored.version)
        await self._store.transact(ops)  # type: ignore[arg-type]


@story(with_records, COOKIE, POSITION)
async def test_a_position_that_moves_keeps_the_cookie(store: MetadataStore) -> None:
    with pytest.raises(errors.VersionConflict):
        await forgetting.forget(Busy(store), ROOT, ID)  # type: ignore[arg-type]

    assert [await stands(store, path) for path in (COOKIE, POSITION)] == [True, True]


@pytest.mark.parametrize(
    "sign",
    [f"{paths.available(ROOT)}/{ID}", f"{paths.readonly(ROOT)}/{ID}", paths.process(ROOT, ID)],
    ids=["writable", "read-only", "begins"],
)
def test_a_process_that_shows_itself_in_the_last_moment_keeps_the_cookie(sign: str) -> None:
    async def story(store: MetadataStore) -> None:
        with pytest.raises(errors.NodeExists):
            await forgetting.forget(store, ROOT, ID)

        assert await stands(store, COOKIE)

    with_records(story, COOKIE, sign)


@story(with_records, COOKIE, RECORD)
async def test_a_bookie_that_lived_since_it_was_judged_keeps_its_cookie(store: MetadataStore) -> None:
    await store.put(RECORD, b"another life", 0)

    with pytest.raises(errors.VersionConflict):
        await forgetting.forget(store, ROOT, ID, life_version=0)

    assert await stands(store, COOKIE)


@story(with_records, COOKIE, RECORD)
async def test_a_bookie_of_java_s_that_became_one_of_ours_keeps_its_cookie(store: MetadataStore) -> None:
    with pytest.raises(errors.NodeExists):
        await forgetting.forget(store, ROOT, ID, life_version=forgetting.ABSENT)

    assert await stands(store, COOKIE)


# ---- surveys ---------------------------------------------------------------------------------------------------------


class HandClock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now_ns = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    async def sleep_until(self, instant_ns: int) -> None:
        self.now_ns = max(self.now_ns, instant_ns)

    def pass_ms(self, duration_ms: int) -> None:
        self.now_ns += duration_ms * NS_PER_MS


class Failing:
    """A store that answers so many reads, then none. Counts the reads of ledgers."""

    def __init__(self, store: MetadataStore, answers: int) -> None:
        self._store = store
        self.answers = answers
        self.read: list[str] = []
        self.children, self.sync, self.transact, self.create = store.children, store.sync, store.transact, store.create

    async def get(self, path: str) -> Stored:
        if "/L" in path:
            if self.answers == 0:
                raise errors.MetadataError("no answer")
            self.answers -= 1
            self.read.append(path)
        return await self._store.get(path)


async def with_ledgers(store: MetadataStore, count: int, *names: BookieId) -> None:
    shape = {"ensemble_size": len(names), "write_quorum": len(names), "ack_quorum": len(names)}
    for number in range(count):
        await LedgerStore(store, ROOT).create(new_ledger(bookies=names, ctoken=1, **shape), LedgerId(number))  # type: ignore[arg-type]


@story(with_records, COOKIE)
async def test_a_survey_that_broke_off_goes_on_where_it_was_and_counts_each_once(store: MetadataStore) -> None:
    await with_ledgers(store, 200, ID)
    failing, clock = Failing(store, 100), HandClock()
    surveys, ledgers = Surveys(as_clock(clock)), LedgerStore(failing, ROOT)  # type: ignore[arg-type]
    with pytest.raises(errors.MetadataError):
        await surveys.find(ledgers, ID)
    failing.answers = -1
    failing.read.clear()
    clock.pass_ms(5_000)

    found = await surveys.find(ledgers, ID)

    assert (found.count, len(found.first), found.first[0].ledger_id) == (200, 20, 0)
    assert 0 < len(failing.read) < 200
    assert found.age_ms >= 5_000
    failing.read.clear()
    assert (await surveys.find(ledgers, ID)).count == 200  # the next one is a new look
    assert len(failing.read) == 200


@story(with_records, COOKIE)
async def test_a_survey_that_was_left_for_long_begins_anew(store: MetadataStore) -> None:
    await with_ledgers(store, 200, ID)
    failing, clock = Failing(store, 100), HandClock()
    surveys, ledgers = Surveys(as_clock(clock)), LedgerStore(failing, ROOT)  # type: ignore[arg-type]
    with pytest.raises(errors.MetadataError):
        await surveys.find(ledgers, ID)
    failing.answers = -1
    failing.read.clear()
    clock.pass_ms(121_000)

    assert (await surveys.find(ledgers, ID)).count == 200
    assert len(failing.read) == 200


@story(with_records, COOKIE)
async def test_a_look_of_long_ago_proves_nothing_about_now(store: MetadataStore) -> None:
    """The look found nothing, the deletion got no answer, and the caller came back much later."""
    clock = HandClock()
    forgets, ledgers = Forgetting(as_clock(clock)), LedgerStore(store, ROOT)
    with pytest.raises(errors.GrantRefused):
        await forgets.forget(ledgers, ID, cookie_version=0)
    clock.pass_ms(GONE_MS_MIN)
    deaf = Failing(store, -1)

    async def transact(ops: object) -> None:
        raise errors.OutcomeUnknown("no answer")

    deaf.transact = transact  # type: ignore[assignment]
    await with_ledgers(store, 3, BookieId("other"))
    with pytest.raises(errors.OutcomeUnknown):
        await forgets.forget(LedgerStore(deaf, ROOT), ID, cookie_version=0)  # type: ignore[arg-type]
    await LedgerStore(store, ROOT).delete(LedgerId(1))
    await with_ledgers(LateStore(store), 1, ID)  # type: ignore[arg-type]
    clock.pass_ms(3_600_000)

    with pytest.raises(errors.GrantRefused) as refusal:
        await forgets.forget(ledgers, ID, cookie_version=0)

    assert refusal.value.reason == "named"


async def refused(forgets: Forgetting, ledgers: LedgerStore, cookie_version: int = 0) -> str:
    with pytest.raises(errors.GrantRefused) as refusal:
        await forgets.forget(ledgers, ID, cookie_version=cookie_version)
    return refusal.value.reason


@story(with_records, COOKIE)
async def test_a_bookie_that_was_there_once_more_must_be_gone_for_as_long_again(store: MetadataStore) -> None:
    """One of Java's, which writes no record: a client may have chosen it when it was there."""
    clock, registration = HandClock(), f"{paths.available(ROOT)}/{ID}"
    forgets, ledgers = Forgetting(as_clock(clock)), LedgerStore(store, ROOT)
    assert await refused(forgets, ledgers) == "too_soon"
    await store.create(registration, b"", parents=True)
    assert await refused(forgets, ledgers) == "registered"
    await store.delete(registration)
    clock.pass_ms(GONE_MS_MIN)

    assert await refused(forgets, ledgers) == "too_soon"
    clock.pass_ms(GONE_MS_MIN)
    assert "is forgotten" in await forgets.forget(ledgers, ID, cookie_version=0)


@story(with_records, COOKIE)
async def test_a_repair_of_before_holds_the_deletion_up_until_it_has_ended_and_later_ones_do_not(
    store: MetadataStore,
) -> None:
    """One that chose the bookie while that was there names it at its end."""
    clock, locks = HandClock(), paths.replication_locks(ROOT)
    forgets, ledgers = Forgetting(as_clock(clock)), LedgerStore(store, ROOT)
    await store.create(f"{locks}/urL0000000001", b"x", parents=True, ephemeral=True)
    assert await refused(forgets, ledgers) == "too_soon"
    await store.create(f"{locks}/urL0000000002", b"x", ephemeral=True)
    clock.pass_ms(GONE_MS_MIN)
    assert await refused(forgets, ledgers) == "locked"

    await store.delete(f"{locks}/urL0000000001")

    assert "is forgotten" in await forgets.forget(ledgers, ID, cookie_version=0)


@story(with_records, COOKIE)
async def test_a_cookie_that_was_changed_since_it_was_judged_stays(store: MetadataStore) -> None:
    await store.put(COOKIE, b"of another life", 0)

    with pytest.raises(errors.VersionConflict):
        await forgetting.forget(store, ROOT, ID, cookie_version=0)

    assert await stands(store, COOKIE)


class LateStore:
    """Puts ledger 0 where ledger 1 would be."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def create(self, path: str, data: bytes, *, parents: bool = False) -> str:
        return await self._store.create(path.replace("L0000", "L0001"), data, parents=parents)


@story(with_records, COOKIE)
async def test_a_ledger_that_names_it_after_the_deletion_is_told_of(store: MetadataStore) -> None:
    clock = HandClock()
    forgets, ledgers = Forgetting(as_clock(clock)), LedgerStore(store, ROOT)
    with pytest.raises(errors.GrantRefused):
        await forgets.forget(ledgers, ID, cookie_version=0)
    clock.pass_ms(GONE_MS_MIN)
    late = Failing(store, -1)

    async def transact(ops: list[object]) -> None:
        await store.transact(ops)  # type: ignore[arg-type]
        await with_ledgers(store, 1, ID)

    late.transact = transact  # type: ignore[assignment]

    text = await forgets.forget(LedgerStore(late, ROOT), ID, cookie_version=0)  # type: ignore[arg-type]

    assert not await stands(store, COOKIE)
    assert text.startswith("bookie bookie-1 is forgotten, but since then: 1 ledgers name bookie bookie-1: 0 (OPEN;")


def as_clock(clock: HandClock) -> Clock:
    made: Clock = clock  # type: ignore[assignment]
    return made


@story(with_records, COOKIE)
async def test_a_survey_of_dependents_counts_the_ledgers_that_stand_on_these_bookies_alone(
    store: MetadataStore,
) -> None:
    other, third = BookieId("other"), BookieId("third")
    await with_ledgers(store, 3, ID, other, third)  # acknowledged by all three
    shape = {"ensemble_size": 3, "write_quorum": 3, "ack_quorum": 2}
    ledgers = LedgerStore(store, ROOT)
    await ledgers.create(new_ledger(bookies=(ID, other, third), ctoken=1, **shape), LedgerId(7))  # type: ignore[arg-type]
    await store.create(paths.ledger_path(ROOT, LedgerId(8)), b"not a record", parents=True)
    surveys = Surveys(as_clock(HandClock()))

    found = await surveys.find_dependents(ledgers, (third, ID))

    assert [one.ledger_id for one in found.first] == [7, 8]
    assert (found.count, found.unreadable) == (2, 1)
    assert "cannot be read" in found.first[1].reason
    assert (await surveys.find_dependents(ledgers, (ID, other, third))).count == 5
    assert (await surveys.find(ledgers, other)).count == 5, "another question"


# ---- what stands of a bookie -----------------------------------------------------------------------------------------


@story(with_records, COOKIE, POSITION)
async def test_only_a_bookie_that_was_forgotten_leaves_nothing_that_anybody_waits_for(store: MetadataStore) -> None:
    record = cookie.dump_incarnation(IncarnationRecord("i", Incarnation(3), BootEpoch(7)))
    await store.create(RECORD, record, parents=True)
    assert await remains.of(store, ROOT, ID) == "its cookie"
    saved = (await store.get(COOKIE)).data
    await store.delete(COOKIE)
    assert await remains.of(store, ROOT, ID) == "the record of how far its disks reached"
    await store.delete(POSITION)
    assert await remains.of(store, ROOT, ID) == "the record of its lives"
    await store.create(COOKIE, saved)

    assert await forgetting.forget(store, ROOT, ID)

    assert await remains.of(store, ROOT, ID) == ""
    life = await store.get(RECORD)
    assert cookie.load_incarnation(life.data) == cookie.load_incarnation(record)
    await store.put(RECORD, cookie.dump_incarnation(cookie.load_incarnation(life.data)), life.version)
    assert await remains.of(store, ROOT, ID) == "the record of its lives", "who claims the id lives again"
    await store.create(paths.process(ROOT, ID), b"x", parents=True)
    assert await remains.of(store, ROOT, ID) == "the sign of a process of it"


@story(with_records, POSITION)
async def test_a_person_may_forget_a_bookie_whose_cookie_is_gone_already(store: MetadataStore) -> None:
    record = cookie.dump_incarnation(IncarnationRecord("i", Incarnation(1), BootEpoch(1)))
    await store.create(RECORD, record, parents=True)

    assert not await forgetting.forget(store, ROOT, ID, needs_cookie=False)

    assert await remains.of(store, ROOT, ID) == ""


class Restored:
    """A store in which a person puts the cookie back, after ours was found to be gone."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.get, self.create = store.get, store.create

    async def transact(self, ops: list[object]) -> None:
        await self._store.create(COOKIE, b"x")
        await self._store.transact(ops)  # type: ignore[arg-type]


@story(with_records, POSITION, COOKIE)
async def test_a_cookie_that_is_put_back_in_the_last_moment_keeps_the_rest(store: MetadataStore) -> None:
    """The bookie that waited for it lives: its position is what it is compared with."""
    await store.delete(COOKIE)

    with pytest.raises(errors.NodeExists):
        await forgetting.forget(Restored(store), ROOT, ID, needs_cookie=False)  # type: ignore[arg-type]

    assert [await stands(store, path) for path in (COOKIE, POSITION)] == [True, True]


@story(with_records, COOKIE, RECORD)
async def test_a_record_of_lives_that_nobody_can_read_never_says_that_its_bookie_is_gone(store: MetadataStore) -> None:
    assert await forgetting.forget(store, ROOT, ID)

    assert await remains.of(store, ROOT, ID) == "the record of its lives"

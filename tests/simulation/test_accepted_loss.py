"""Two of three bookies are emptied under an open ledger: nobody can end it, until a person gives up what they held
(spec/metadata.md#M49)."""

from __future__ import annotations

import asyncio

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client.net.bookies import BookieClient
from bookie.client.repair import accepting_loss, forgetting, recovery
from bookie.client.repair.accepting_loss import LossPlan
from bookie.metadata import cookie as cookies
from bookie.metadata import paths
from bookie.ports.admin import State
from bookie.sim.cluster import JOURNAL, ROOT, ClientNode, SimCluster
from bookie.sim.replicas import copies
from sim_support import on_cluster
from story_support import story


async def abandoned(cluster: SimCluster, count: int) -> LedgerId:
    """An open ledger whose writer is gone."""
    client = await cluster.client("writer")
    writer = await client(client.client.create())
    for number in range(count):
        await client(writer.append(b"entry %d" % number))
    client.crash()
    return writer.id


async def planning(client: ClientNode, ledger_id: LedgerId, *names: str) -> LossPlan:
    return await client(
        accepting_loss.plan(
            client.client.shared, ledger_id, [BookieId(name) for name in names], by="ann", reason="the rack burnt"
        )
    )


@story(on_cluster, 21)
async def test_a_ledger_in_limbo_for_ever_is_closed_at_what_is_left_and_its_bookies_repairs_end(
    cluster: SimCluster,
) -> None:
    ledger_id = await abandoned(cluster, 20)
    emptied = [cluster.bookies[name] for name in ("bookie-1", "bookie-2")]
    client = await cluster.client("person")
    with pytest.raises(errors.GrantRefused, match="answers for this ledger"):
        await planning(client, ledger_id, "bookie-1")
    for bookie in emptied:
        bookie.crash()
        bookie.wipe()
    await cluster.until(lambda: "bookie-1" not in client.client.shared.watcher.records, "its session ends")
    with pytest.raises(errors.GrantRefused, match="its disks may be whole"):
        await planning(client, ledger_id, "bookie-1")
    for bookie in emptied:
        bookie.start()
    await cluster.until(lambda: all(each.state is State.REPAIRING for each in emptied), "both are in limbo")
    with pytest.raises(errors.QuorumNotReached):
        await client(client.client.open(ledger_id))

    wanted = await planning(client, ledger_id, "bookie-1", "bookie-2")
    emptied[0].crash()  # what it said is another process's word now
    emptied[0].start()
    await cluster.until(lambda: emptied[0].state is State.REPAIRING, "it is back, in limbo")
    with pytest.raises(errors.BookieUnavailable, match="bookie-1 restarted since it was judged"):
        await client(accepting_loss.accept(client.client.shared, wanted))
    wanted = await planning(client, ledger_id, "bookie-1", "bookie-2")
    closed = await client(accepting_loss.accept(client.client.shared, wanted))

    assert (closed.is_closed, closed.last_entry) == (True, 19)
    record = accepting_loss.record_of(closed)
    assert record is not None
    assert (record["bookies"], record["by"], record["reason"]) == (["bookie-1", "bookie-2"], "ann", "the rack burnt")
    assert (record["gone"], record["claims"], record["tool"]) == ([], [], recovery.TOOL)
    assert cluster.metadata_of(ledger_id) == closed
    await cluster.until_repaired("bookie-1", "bookie-2")
    assert await copies(cluster, ledger_id, EntryId(19)) == []
    with pytest.raises(errors.GrantRefused, match="is closed"):
        await planning(client, ledger_id, "bookie-1")


@story(on_cluster, 24)
async def test_a_bookie_closes_it_when_it_is_told_to_and_again_as_often_as_it_is_asked(cluster: SimCluster) -> None:
    """As the operator asks (spec/operator.md#U15): the answer may be lost, and the question comes again."""
    ledger_id = await abandoned(cluster, 20)
    left, emptied = cluster.bookies["bookie-0"], [cluster.bookies[name] for name in ("bookie-1", "bookie-2")]

    async def asked(by: str) -> str:
        assert left.process is not None
        names = tuple(BookieId(one) for one in ("bookie-1", "bookie-2"))
        return await left.node.do(left.process.admin.accept_ledger_loss(ledger_id, names, by=by, reason="it burnt"))

    with pytest.raises(errors.GrantRefused, match="answers for this ledger") as refused:
        await asked("ann")
    assert refused.value.reason == "may_answer"
    for bookie in emptied:
        bookie.crash()
        bookie.wipe()
        bookie.start()
    await cluster.until(lambda: all(each.state is State.REPAIRING for each in emptied), "both are in limbo")

    first = await asked("ann")
    assert "is closed at entry 19" in first
    assert '"by": "ann"' in first
    assert await asked("bob") == first, "who was first stands in the record"
    await cluster.until_repaired("bookie-1", "bookie-2")


@pytest.mark.parametrize("seed", range(4))
@story(on_cluster, given=("seed",))
async def test_a_bookie_that_is_not_given_up_must_answer_since_it_may_have_what_was_acknowledged(
    cluster: SimCluster,
) -> None:
    """Two "no"s would prove absence with 3/3/2; those of bookies that were given up prove nothing."""
    ledger_id = await abandoned(cluster, 10)
    person = await cluster.client("person")
    emptied = [cluster.bookies[name] for name in ("bookie-1", "bookie-2")]
    for bookie in emptied:
        bookie.crash()
        bookie.wipe()
        bookie.start()
    await cluster.until(lambda: all(each.state is State.REPAIRING for each in emptied), "both are in limbo")
    wanted = await planning(person, ledger_id, "bookie-1", "bookie-2")

    cluster.partition("person", "bookie-0")
    with pytest.raises(errors.QuorumNotReached, match="bookie-0 is not given up, and does not answer"):
        await person(accepting_loss.accept(person.client.shared, wanted))
    cluster.heal()
    await asyncio.sleep(10)
    closed = await person(accepting_loss.accept(person.client.shared, wanted))

    assert closed.last_entry == 9


@story(on_cluster, 22)
async def test_entries_behind_the_first_one_given_up_are_not_given_up_unsaid(cluster: SimCluster) -> None:
    """With 3/1/1 the bookie that is left has one entry out of three: behind each gap there is more."""
    client = await cluster.client("writer")
    writer = await client(client.client.create(ensemble_size=3, write_quorum=1, ack_quorum=1))
    await client(writer.append_many([b"entry %d" % number for number in range(9)]))  # none tells of another's end
    client.crash()
    person = await cluster.client("person")
    emptied = [BookieId(name) for name in writer.metadata.last_segment.bookies[:2]]
    for name in emptied:
        cluster.bookies[name].crash()
        cluster.bookies[name].wipe()
        cluster.bookies[name].start()
    await cluster.until(lambda: all(cluster.bookies[each].state is State.REPAIRING for each in emptied), "limbo")

    wanted = await planning(person, writer.id, *emptied)
    with pytest.raises(errors.GrantRefused, match="give-up-tail"):
        await person(accepting_loss.accept(person.client.shared, wanted))


@story(on_cluster, 23)
async def test_what_a_named_bookie_still_has_behind_the_end_is_not_given_up_unsaid(cluster: SimCluster) -> None:
    """It says "unknown" when it is asked for its highest entry; each entry that it has it still gives."""
    client = await cluster.client("writer")
    writer = await client(client.client.create(ensemble_size=2, write_quorum=1, ack_quorum=1))
    for number in range(9):
        await client(writer.append(b"entry %d" % number))
    await asyncio.sleep(15)  # flushed
    client.crash()
    person = await cluster.client("person")
    emptied, half = (cluster.bookies[name] for name in writer.metadata.last_segment.bookies)
    for bookie, volumes in ((emptied, ()), (half, (JOURNAL,))):
        bookie.crash()
        bookie.wipe(*volumes)
        bookie.start()
    await cluster.until(lambda: all(each.state is State.REPAIRING for each in (emptied, half)), "limbo")
    reading = BookieClient(person.client.shared.pool).read(BookieId(half.name), writer.id, EntryId(7))
    assert (await person(reading)).endswith(b"entry 7")

    wanted = await planning(person, writer.id, emptied.name, half.name)
    with pytest.raises(errors.GrantRefused, match="give-up-tail"):
        await person(accepting_loss.accept(person.client.shared, wanted))


@pytest.mark.parametrize(
    "cookie", ["stood", "was put back", "was written over", "was put back and written over", "is of a clock ahead"]
)
@story(on_cluster, 24, directories=2, journal_write_data=False)
async def test_a_loss_of_long_ago_says_nothing_of_a_ledger_that_was_made_since(
    cluster: SimCluster, *, cookie: str
) -> None:
    """bookie-1 was emptied and repaired; then a ledger is made, and what keeps bookie-1 from answering is no new
    beginning, so that what it held may be there still. A cookie that somebody puts back is none either, nor one that is
    written over, as a volume more does; nor one that was put back and then written over as often as bookie-1 began
    anew. What was first says the order of the store's changes: each leader of it has another clock."""
    emptied = cluster.bookies["bookie-1"]
    emptied.crash()
    emptied.wipe()
    emptied.start()
    await cluster.until(lambda: emptied.is_running and emptied.is_ready, "it is back")
    await cluster.until_repaired("bookie-1")
    await asyncio.sleep(30)
    ledger_id = await abandoned(cluster, 10)
    emptied.crash()
    person = await cluster.client("person")
    store, path = person.client.shared.ledgers.store, paths.cookie(ROOT, BookieId(emptied.name))
    stored = await person(store.get(path))
    if cookie in ("was put back", "was put back and written over"):
        await person(store.delete(path))
        await person(store.create(path, stored.data))
    if cookie == "was written over":
        await person(store.put(path, stored.data, stored.version))
    elif cookie == "was put back and written over":
        assert await person(store.put(path, stored.data, 0)) == stored.version
    elif cookie == "is of a clock ahead":
        ledger = person.client.shared.ledgers.path(ledger_id)
        nodes = cluster.simulation.keeper.tree.nodes
        nodes[path].modified_ms = nodes[ledger].created_ms + 60_000
    emptied.start()
    await cluster.until(lambda: emptied.is_ready and emptied.state is State.REPAIRING, "it is in doubt")

    with pytest.raises(errors.GrantRefused, match="its identity never began anew"):
        await planning(person, ledger_id, "bookie-1")


@story(on_cluster, 25)
async def test_who_began_anew_over_a_cookie_that_was_put_back_is_given_up_also_after_more_boots(
    cluster: SimCluster,
) -> None:
    """What its record notes is which node of a cookie it wrote over, and which version it left; a boot keeps that."""
    emptied = cluster.bookies["bookie-1"]
    person = await cluster.client("person")
    store, path = person.client.shared.ledgers.store, paths.cookie(ROOT, BookieId(emptied.name))
    stored = await person(store.get(path))
    await person(store.put(path, stored.data, stored.version))
    await person(store.delete(path))
    await person(store.create(path, stored.data))
    ledger_id = await abandoned(cluster, 10)
    for each in (emptied, cluster.bookies["bookie-2"]):
        each.crash()
        each.wipe()
        each.start()
    await cluster.until(lambda: emptied.state is State.REPAIRING, "it is in limbo")
    noted = cookies.load_incarnation((await person(store.get(paths.incarnation(ROOT, BookieId(emptied.name))))).data)
    assert (noted.incarnation, noted.cookie_version) == (2, 1)
    emptied.crash()
    emptied.start()
    await cluster.until(lambda: emptied.is_ready and emptied.state is State.REPAIRING, "it is back, in limbo")

    wanted = await planning(person, ledger_id, "bookie-1")

    assert wanted.given_up.in_doubt == {"bookie-1"}
    assert wanted.given_up.claims == ()


@story(on_cluster, 26)
async def test_a_bookie_that_gets_its_cookie_back_after_it_was_judged_is_not_given_up(cluster: SimCluster) -> None:
    """It has all its disks, and answers nobody before it has begun, which may take long."""
    ledger_id = await abandoned(cluster, 10)
    person = await cluster.client("person")
    kept, emptied = cluster.bookies["bookie-1"], cluster.bookies["bookie-2"]
    for bookie in (kept, emptied):
        bookie.crash()
    emptied.wipe()
    emptied.start()
    await cluster.until(lambda: emptied.state is State.REPAIRING, "it is in limbo")
    store, path = person.client.shared.ledgers.store, paths.cookie(ROOT, BookieId(kept.name))
    cookie = await person(store.get(path))
    assert await person(forgetting.forget(store, ROOT, BookieId(kept.name)))
    wanted = await planning(person, ledger_id, kept.name, emptied.name)

    await person(store.create(path, cookie.data))
    with pytest.raises(errors.BookieUnavailable, match="bookie-1 restarted since it was judged"):
        await person(accepting_loss.accept(person.client.shared, wanted))
    await person(store.delete(path))
    await person(store.create(paths.process(ROOT, BookieId(kept.name)), b"", ephemeral=True))
    with pytest.raises(errors.BookieUnavailable, match="bookie-1 restarted since it was judged"):
        await person(accepting_loss.accept(person.client.shared, wanted))


@pytest.mark.parametrize("is_up", [True, False], ids=["it waits for its cookie", "it is stopped"])
@story(on_cluster, 28, journal_write_data=True)
async def test_a_bookie_with_all_its_data_that_only_lost_its_cookie_is_not_given_up(
    cluster: SimCluster, *, is_up: bool
) -> None:
    """Somebody deleted the node of its cookie. It is held, registers nowhere, and answers as soon as it has it back."""
    ledger_id = await abandoned(cluster, 10)
    person = await cluster.client("person")
    kept, emptied = cluster.bookies["bookie-1"], cluster.bookies["bookie-2"]
    for bookie in (kept, emptied):
        bookie.crash()
    emptied.wipe()
    emptied.start()
    await cluster.until(lambda: emptied.state is State.REPAIRING, "it is in limbo")
    store, path = person.client.shared.ledgers.store, paths.cookie(ROOT, BookieId(kept.name))
    cookie = await person(store.get(path))
    await person(store.delete(path))
    if is_up:
        kept.start()
        await cluster.until(lambda: kept.state is State.HELD, "it waits for its cookie")

    with pytest.raises(errors.GrantRefused, match="its disks may be whole"):
        await planning(person, ledger_id, kept.name, emptied.name)

    await person(store.create(path, cookie.data))
    if not is_up:
        kept.start()
    await cluster.until(lambda: kept.is_ready, "it serves again")
    reading = BookieClient(person.client.shared.pool).read(BookieId(kept.name), ledger_id, EntryId(5))
    assert (await person(reading)).endswith(b"entry 5")

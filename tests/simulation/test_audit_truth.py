"""The audit on whole clusters: what was planted is found, all of it, and nothing else, while writers go on.

The truth is kept beside the cluster, entry by entry, by what the test itself wrote and took away; it never asks the
product. The Spark side of the audit runs the same inspector in its tasks.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable

import pytest

from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.client import Client
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.sim.cluster import ClientNode, SimCluster
from bookie.storage import location
from bookie.storage.partition import Partition
from bookie.storage.run import Placed
from bookie.wire.digest import Digest, DigestType
from pyspark_bookkeeper.audit import plan, sampling, summary, tally
from pyspark_bookkeeper.audit.compare import CORRUPT, MISSING, UNEXPECTED, UNREACHABLE, ReplicaFinding
from pyspark_bookkeeper.audit.inspector import LedgerInspector, Rules, UnitResult
from sim_support import on_cluster
from story_support import story

LEDGERS, LOSSES, MOVES = 1_000, 80, 19  # and one bookie that is empty: 100 in all
Place = tuple[LedgerId, BookieId]
Entries = dict[Place, set[int]]


def promised(ledger_id: LedgerId, metadata: LedgerMetadata) -> Entries:
    """What a closed ledger's metadata gives each bookie, one entry after the other."""
    given: Entries = defaultdict(set)
    for entry in range(metadata.last_entry + 1):
        for bookie in metadata.write_set(EntryId(entry)):
            given[ledger_id, bookie].add(entry)
    return given


async def audited(client: ClientNode, ledger_ids: Iterable[LedgerId], rules: Rules) -> UnitResult:
    zones = {record.bookie_id: record.zone for record in await client(client.client.admin.bookies())}
    return await client(LedgerInspector(client.client, zones, rules).audit(ledger_ids))


class Truth:
    """The ledgers of one cluster: what is promised, and what bookies hold."""

    def __init__(self, cluster: SimCluster, client: ClientNode, seed: int) -> None:
        self.cluster, self.client = cluster, client
        self.random = random.Random(f"losses {seed}")
        self.metadata: dict[LedgerId, LedgerMetadata] = {}
        self.held: Entries = defaultdict(set)

    async def write(self, count: int, *, quorum_min: int = 1) -> None:
        """Closed ledgers of several shapes; on return their writers' adds have reached every bookie."""
        for _ in range(count):
            size = self.random.randint(quorum_min, 5)
            quorum = self.random.randint(quorum_min, size)
            writer = await self.client.client.create(ensemble_size=size, write_quorum=quorum, ack_quorum=quorum)
            payloads = [b"payload"] * self.random.randint(0, 9)
            async with writer:
                if payloads:
                    await writer.append_many(payloads)
            self.metadata[writer.id] = writer.metadata
            self.held |= promised(writer.id, writer.metadata)

    async def flush(self) -> None:
        for node in self.cluster.bookies.values():
            await node.node.do(_store(self.cluster, node.name).flush())

    def lose_entries(self) -> None:
        """The hook: an entry that a bookie acknowledged is gone from its index."""
        place = self.random.choice([place for place, entries in sorted(self.held.items()) if entries])
        ledger_id, bookie = place
        for entry in self.random.sample(sorted(self.held[place]), self.random.randint(1, len(self.held[place]))):
            _forget(self.cluster, bookie, ledger_id, entry)
            self.held[place].discard(entry)

    async def move(self) -> None:
        """The metadata names a bookie that never had the ledger."""
        ledger_id, metadata = self.random.choice(
            [(i, m) for i, m in sorted(self.metadata.items()) if m.ensemble_size < 5 and m.last_entry >= 0]
        )
        old = self.random.choice(metadata.segments[0].bookies)
        new = self.random.choice([name for name in sorted(self.cluster.bookies) if not metadata.names(BookieId(name))])
        ledgers = self.client.client.shared.ledgers
        _, version = await self.client(ledgers.get(ledger_id))
        self.metadata[ledger_id] = metadata.replaced(EntryId(0), old, BookieId(new))
        await self.client(ledgers.put(ledger_id, self.metadata[ledger_id], version))

    def empty(self, bookie: BookieId) -> None:
        """The bookie has its name and nothing else."""
        for partition in _store(self.cluster, bookie).partitions:
            for ledger_id in {ledger_id for ledger_id, _, _ in partition.index.all_locations()}:
                _drop_entries(partition, ledger_id)
        for place in self.held:
            if place[1] == bookie:
                self.held[place] = set()

    def wrong(self) -> tuple[set[tuple[str, int, str, int]], set[tuple[str, int, str, int]]]:
        """(what is missing, what is unexpected), entry by entry."""
        given: Entries = defaultdict(set)
        for ledger_id, metadata in self.metadata.items():
            given |= promised(ledger_id, metadata)
        places = given.keys() | self.held.keys()
        missing = {(MISSING, *place, entry) for place in places for entry in given[place] - self.held[place]}
        unexpected = {(UNEXPECTED, *place, entry) for place in places for entry in self.held[place] - given[place]}
        return missing, unexpected

    def told(self, findings: Iterable[ReplicaFinding]) -> set[tuple[str, int, str, int]]:
        """The same of an audit: each range stands for the entries that are, or are not, this bookie's within it."""
        told = set()
        for one in findings:
            place = LedgerId(one.ledger), BookieId(one.bookie)
            metadata = self.metadata[place[0]]
            universe = promised(place[0], metadata)[place] if one.kind == MISSING else self.held[place]
            entries = {entry for entry in universe if one.first <= entry <= one.last}
            assert one.count == len(entries)
            told |= {(one.kind, *place, entry) for entry in entries}
        return told


def _store(cluster: SimCluster, bookie: str):  # type: ignore[no-untyped-def]
    process = cluster.bookies[bookie].process
    assert process is not None
    store = process.admin.store
    assert store is not None
    return store


def _drop_entries(partition: Partition, ledger_id: LedgerId) -> None:
    """Take all entries of a ledger out of the index; the ledger itself stays."""
    partition.table.find(ledger_id)  # so that it is in memory
    partition.index.forget(ledger_id, anew=partition.table.rows_of_known(ledger_id))


def _forget(cluster: SimCluster, bookie: str, ledger_id: LedgerId, entry: int) -> None:
    """Take one entry out of the index, as if it had never come."""
    for partition in _store(cluster, bookie).partitions:
        found = list(partition.index.locations(ledger_id))
        kept = [(each, location.pack(*place)) for each, place in found if each != entry]
        if len(kept) < len(found):
            _drop_entries(partition, ledger_id)
            columns = [ledger_id] * len(kept), [each for each, _ in kept], [place for _, place in kept]
            partition.index.put_entries(Placed(*columns))


async def write_on(client: ClientNode, stop: asyncio.Event) -> None:
    """Somebody who writes all the time: ledgers that stay open for long, and ledgers that come and go."""
    steady = await client.client.create()
    while not stop.is_set():
        await steady.append(b"steady")
        async with await client.client.create(ensemble_size=5, write_quorum=3, ack_quorum=2) as brief:
            await brief.append_many([b"brief"] * 7)
        await client.client.shared.pause(20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_every_planted_loss_is_found_and_nothing_else_while_writers_go_on(seed: int) -> None:
    async def story(cluster: SimCluster) -> None:
        client, other = await cluster.client("auditor"), await cluster.client("writer")
        truth = Truth(cluster, client, seed)
        await client(truth.write(LEDGERS))
        await truth.flush()
        stop = asyncio.Event()
        writing = asyncio.ensure_future(other(write_on(other, stop)))
        for _ in range(LOSSES):
            truth.lose_entries()
        for _ in range(MOVES):
            await truth.move()
        truth.empty(BookieId("bookie-3"))
        await client(client.client.shared.pause(500))
        ids = [ledger_id for ledger_id, _, _ in await client(_listed(client))]
        assert len(ids) > LEDGERS

        result = await audited(client, ids, Rules(grace_ms=300, second_look_ms=200))
        stop.set()
        await writing

        missing, unexpected = truth.wrong()
        assert truth.told(result.findings) == missing | unexpected
        assert len({place[1:3] for place in missing}) > LOSSES
        assert unexpected
        assert result.figures["copies", MISSING] == len(missing)
        assert result.figures["ledgers", "open"] >= 1
        assert result.figures["ledgers", "closed"] >= LEDGERS

    SimCluster(f"audit {seed}", bookies=5).run(story)


async def _listed(client: ClientNode) -> list[tuple[LedgerId, LedgerMetadata, int]]:
    return [one async for one in client.client.admin.snapshot()]


def test_copies_still_on_their_way_at_the_first_look_are_not_missing() -> None:
    async def story(cluster: SimCluster, *, second_look_ms: int) -> UnitResult:
        client, other = await cluster.client("auditor"), await cluster.client("writer")
        writer = await other(other.client.create(ensemble_size=3, write_quorum=3, ack_quorum=2))
        late = writer.metadata.segments[0].bookies[2]
        cluster.hold("writer", late)
        for _ in range(20):
            await other(writer.append(b"on two bookies, and on its way to the third"))
        auditing = asyncio.ensure_future(audited(client, [writer.id], Rules(grace_ms=0, second_look_ms=second_look_ms)))
        await client(client.client.shared.pause(400))
        cluster.release("writer", late)
        await client(client.client.shared.pause(200))
        cluster.hold("writer", late)
        for _ in range(20):
            await other(writer.append(b"and so it goes on: these were not there at the first look"))
        return await auditing

    patient = SimCluster("audit late", bookies=3).run(lambda cluster: story(cluster, second_look_ms=1_000))
    hasty = SimCluster("audit late", bookies=3).run(lambda cluster: story(cluster, second_look_ms=1))

    assert patient.findings == []
    assert patient.figures["copies", "expected"] > 30
    assert {one.kind for one in hasty.findings} == {MISSING}


@story(on_cluster, "audit gone", bookies=5)
async def test_a_bookie_that_is_gone_is_unreachable_and_nothing_of_it_is_missing(cluster: SimCluster) -> None:
    client = await cluster.client("auditor")
    truth = Truth(cluster, client, 1)
    await client(truth.write(20))
    cluster.bookies["bookie-1"].crash()

    result = await audited(client, truth.metadata, Rules(grace_ms=0, second_look_ms=10))

    named = {place[0] for place, entries in truth.held.items() if place[1] == "bookie-1" and entries}
    assert {(one.kind, one.bookie) for one in result.findings} == {(UNREACHABLE, "bookie-1")}
    assert {one.ledger for one in result.findings} == named
    assert sum(one.count for one in result.findings) == sum(
        len(entries) for place, entries in truth.held.items() if place[1] == "bookie-1"
    )
    assert all("does not answer" in one.reason for one in result.findings)


def summarized(result: UnitResult, reads: str = sampling.NOTHING) -> summary.Summary:
    """What the page, the JSON and the exit code would say."""
    planned = plan.make(
        uri="zk+hierarchical://zk:2181/ledgers",
        started_ms=0,
        options={},
        rules=Rules(reads=reads),
        zones={},
        known=[],
        ledger_ids=[LedgerId(0)],
        wave_units=1,
    )
    return summary.summarize(planned, result.findings, result.figures, finished_ms=1)


@story(on_cluster, "audit unsure", bookies=3)
async def test_an_open_ledger_of_which_most_bookies_are_dead_is_not_known(cluster: SimCluster) -> None:
    """Its end cannot be had, so nothing of it was judged: that was called clean, and "Every replica is there"."""
    client, other = await cluster.client("auditor"), await cluster.client("writer")
    writer = await other(other.client.create(ensemble_size=3, write_quorum=3, ack_quorum=2))
    await other(writer.append_many([b"payload"] * 9))
    for name in writer.metadata.segments[0].bookies[:2]:
        cluster.bookies[name].crash()

    result = await audited(client, [writer.id], Rules(grace_ms=0, second_look_ms=10))

    told = summarized(result)
    assert result.figures["ledgers", tally.UNSURE] == 1
    assert [(one.kind, one.ledger, one.count) for one in result.findings] == [(tally.UNSURE, writer.id, 0)]
    assert "no quorum says which entry is its last confirmed one" in result.findings[0].reason
    assert (told["outcome"], summary.exit_code(told, [UNREACHABLE])) == ("not known", 6)
    assert told["title"] == "Nothing could be looked at"


@story(on_cluster, "audit young", bookies=3)
async def test_young_ledgers_are_waited_for_and_those_that_stay_young_are_not_known(cluster: SimCluster) -> None:
    client, other = await cluster.client("auditor"), await cluster.client("writer")
    quiet = await other(other.client.create())
    await other(quiet.append(b"x"))
    await other(quiet.close())
    restless = await other(other.client.create())
    stop = asyncio.Event()

    async def change() -> None:
        ledgers = other.client.shared.ledgers
        while not stop.is_set():
            stored, version = await ledgers.get(restless.id)
            await ledgers.put(restless.id, stored, version)
            await other.client.shared.pause(100)

    changing = asyncio.ensure_future(other(change()))
    result = await audited(client, [quiet.id, restless.id], Rules(grace_ms=500, second_look_ms=10))
    stop.set()
    await changing

    assert result.figures["ledgers", tally.CLOSED] == 1
    assert [(one.kind, one.ledger) for one in result.findings] == [(tally.YOUNG, restless.id)]
    assert summarized(result)["outcome"] == "not known"


@pytest.mark.parametrize("reads", sampling.HOW)
@pytest.mark.parametrize("spoilt", ["one entry", "all entries", "forgotten bytes"])
def test_bytes_that_are_not_the_entry_are_found_when_they_are_read(reads: str, spoilt: str) -> None:
    """The list of entries comes from the index alone: an entry log of zeros lists as well as any."""

    async def story(cluster: SimCluster) -> None:
        client = await cluster.client("auditor")
        ledger_id, victim = await client(_rotten(client.client, spoilt))

        result = await audited(client, [ledger_id], Rules(grace_ms=0, second_look_ms=10, reads=reads))

        told = summarized(result, reads)
        bad = {one for row in result.findings for one in range(row.first, row.last + 1)}
        assert {(one.kind, one.bookie) for one in result.findings} <= {(CORRUPT, victim)}
        match reads:
            case sampling.NOTHING:
                assert (told["outcome"], told["title"]) == ("whole", "Every replica is listed; bytes were not read")
            case sampling.SAMPLE if spoilt != "one entry":
                assert (told["outcome"], len(bad), told["copies"]["read"]) == ("damage", 1, 3)
            case sampling.ALL:
                assert (told["outcome"], told["copies"]["read"]) == ("damage", 3 * ROTTEN)
                assert bad == ({4} if spoilt == "one entry" else set(range(ROTTEN)))
                assert told["title"] == "Replicas are damaged"

    SimCluster(f"audit bytes {spoilt}", bookies=3).run(story)


ROTTEN = 10


async def _rotten(client: Client, spoilt: str) -> tuple[LedgerId, BookieId]:
    """A closed ledger of ROTTEN entries on three bookies, one of which has other bytes than it should."""
    bookies = tuple(record.bookie_id for record in await client.admin.bookies())
    metadata = new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3, bookies=bookies, ctoken=1)
    ledger_id = await client.shared.ledgers.create(metadata.closed(EntryId(ROTTEN - 1), 7 * ROTTEN))
    digest = Digest(DigestType.CRC32C, b"")
    for entry in range(ROTTEN):
        sealed = b"".join(digest.seal(ledger_id, EntryId(entry), entry - 1, 7 * (entry + 1), b"payload"))
        for place, bookie_id in enumerate(bookies):
            is_spoilt = place == 1 and (entry == 4 or spoilt != "one entry")
            rotten = bytes(len(sealed)) if spoilt == "forgotten bytes" else sealed[:-1] + b"!"
            header = sealed[:32]  # ids and LAC, which bookies look at
            body = header + rotten[32:] if is_spoilt else sealed
            await client.bookies.add(bookie_id, ledger_id, EntryId(entry), body, digest.master_key)
    return ledger_id, bookies[1]


@story(on_cluster, "audit deleted", bookies=3)
async def test_the_copies_read_of_a_ledger_that_was_deleted_meanwhile_do_not_stand_for_unread_ones(
    cluster: SimCluster,
) -> None:
    """Six copies are promised, three of them were read, and the page said "all were read"."""
    client = await cluster.client("auditor")
    deleted = [await client(_whole(client.client, 1)) for _ in range(2)]
    left = await client(_whole(client.client, 2))
    victim = cluster.bookies["bookie-1"]
    await victim.node.do(_store(cluster, BookieId("bookie-1")).flush())
    for ledger_id in deleted:
        _forget(cluster, BookieId("bookie-1"), ledger_id, 0)
    rules = Rules(grace_ms=0, second_look_ms=1_000, reads=sampling.SAMPLE)

    auditing = asyncio.ensure_future(audited(client, [*deleted, left], rules))
    await client(client.client.shared.pause(500))
    for ledger_id in deleted:
        await client(client.client.delete(ledger_id))
    result = await auditing

    told = summarized(result, sampling.SAMPLE)
    assert told["ledgers"]["gone"] == 2
    assert (told["copies"]["expected"], told["copies"]["read"]) == (6, 3)
    assert told["title"] == "Every replica is listed; 3 of 6 were read"


async def _whole(client: Client, entries: int) -> LedgerId:
    """A closed ledger, each entry of which is on three bookies."""
    writer = await client.create(ensemble_size=3, write_quorum=3, ack_quorum=3)
    async with writer:
        await writer.append_many([b"payload"] * entries)
    return writer.id


@pytest.mark.parametrize("reads", sampling.HOW)
def test_a_record_of_more_entries_than_can_be_ends_no_audit(reads: str) -> None:
    """Any client can write one. What is to be read was listed, window by window, before it was seen."""

    async def story(cluster: SimCluster) -> None:
        client = await cluster.client("auditor")
        whole, wrong = await client(_whole(client.client, 1)), await client(_endless(client.client))

        result = await audited(client, [whole, wrong], Rules(grace_ms=0, second_look_ms=10, reads=reads))

        assert [(one.kind, one.ledger) for one in result.findings] == [(tally.UNREADABLE, wrong)]
        assert f"ledger {wrong}: entry {2**62} is beyond" in result.findings[0].reason
        assert result.figures["ledgers", tally.CLOSED] == 1
        assert summarized(result, reads)["outcome"] == "not known"

    SimCluster("audit endless", bookies=3).run(story)


async def _endless(client: Client) -> LedgerId:
    """A ledger of 2^62 entries, says its record; its bookies have the first one."""
    bookies = tuple(record.bookie_id for record in await client.admin.bookies())
    metadata = new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=3, bookies=bookies, ctoken=1)
    ledger_id = await client.shared.ledgers.create(metadata.closed(EntryId(2**62), 7))
    digest = Digest(DigestType.CRC32C, b"")
    for bookie_id in bookies:
        body = b"".join(digest.seal(ledger_id, EntryId(0), -1, 7, b"payload"))
        await client.bookies.add(bookie_id, ledger_id, EntryId(0), body, digest.master_key)
    return ledger_id


@story(on_cluster, "audit zeros", bookies=5)
async def test_a_copy_that_is_listed_and_not_given_is_not_known(cluster: SimCluster) -> None:
    client = await cluster.client("auditor")
    truth = Truth(cluster, client, 3)
    await client(truth.write(3, quorum_min=3))
    await truth.flush()
    for volume in cluster.bookies["bookie-1"].node.image.volumes.values():
        for path, file in volume.root.files(volume.path):
            if "ledgers" in path and path.endswith(".log"):
                file.data[:] = file.durable[:] = bytes(len(file.data))

    result = await audited(client, truth.metadata, Rules(grace_ms=0, second_look_ms=10, reads=sampling.ALL))

    told = summarized(result, sampling.ALL)
    assert {one.bookie for one in result.findings} == {"bookie-1"}
    assert {one.kind for one in result.findings} <= {UNREACHABLE, CORRUPT}
    assert told["outcome"] in ("not known", "damage")
    assert "lists entry" in result.findings[0].reason
    assert summary.exit_code(told, summary.ALL_KINDS) in (5, 6)


@story(on_cluster, "audit limbo", bookies=5)
async def test_a_bookie_in_the_middle_of_its_repair_is_never_called_missing_nor_clean(cluster: SimCluster) -> None:
    client, other = await cluster.client("auditor"), await cluster.client("writer")
    truth = Truth(cluster, client, 2)
    await client(truth.write(40, quorum_min=2))  # of a single copy nothing could be repaired
    writers = [await other(other.client.create(ensemble_size=5, write_quorum=5)) for _ in range(3)]
    for writer in writers:
        await other(writer.append(b"confirmed by the next one"))
        await other(writer.append(b"nobody knows that it is confirmed"))
    other.crash()
    lost = cluster.bookies["bookie-2"]
    for name in cluster.bookies:
        if name != "bookie-2":
            cluster.hold("bookie-2", name)  # it can ask nobody: nothing can be copied
    lost.crash()
    lost.wipe()
    lost.start()
    await cluster.until_ready("bookie-2")
    await client(client.client.shared.pause(2_000))  # the client dials again by then
    ids = [ledger_id for ledger_id, _, _ in await client(_listed(client))]
    named = {place[0] for place, entries in truth.held.items() if place[1] == "bookie-2" and entries}

    result = await audited(client, ids, Rules(grace_ms=0, second_look_ms=10))

    assert {(one.kind, one.bookie) for one in result.findings} == {(UNREACHABLE, "bookie-2")}
    assert {one.ledger for one in result.findings} == named | {writer.id for writer in writers}
    assert all("limbo" in one.reason for one in result.findings)
    cluster.heal()
    await cluster.until_repaired("bookie-2")

    after = await audited(client, ids, Rules(grace_ms=0, second_look_ms=10))

    assert [one for one in after.findings if one.kind != UNEXPECTED] == []
    assert after.figures["copies", "expected"] >= result.figures["copies", "expected"]


@story(on_cluster, "audit states", bookies=5)
async def test_ledgers_of_which_nothing_can_be_said_are_counted_and_never_called_corrupt(cluster: SimCluster) -> None:
    client, other = await cluster.client("auditor"), await cluster.client("mover")
    truth = Truth(cluster, client, 3)
    await client(truth.write(10, quorum_min=2))
    await truth.flush()
    ledgers = client.client.shared.ledgers
    filled = [ledger_id for ledger_id, metadata in sorted(truth.metadata.items()) if metadata.last_entry >= 0]
    moving, gone = filled[0], LedgerId(10**9)
    bookies = truth.metadata[moving].segments[0].bookies
    truth.empty(BookieId(bookies[0]))  # there would be something to tell
    endless = new_ledger(ensemble_size=2, write_quorum=2, ack_quorum=2, bookies=bookies[:2], ctoken=7)
    absurd = await client(ledgers.create(endless.closed(EntryId(1 << 40), 0)))
    stop = asyncio.Event()
    mover = asyncio.ensure_future(other(_touch(other, moving, stop)))

    for _ in range(50):  # the record may stand still for one whole look, which is short
        result = await audited(client, [moving, absurd, gone], Rules(grace_ms=0, second_look_ms=10))
        if result.figures["ledgers", tally.MOVED]:
            break
    stop.set()
    await mover
    young = await audited(client, truth.metadata, Rules(grace_ms=10**9))

    assert [(one.kind, one.ledger) for one in result.findings] == [("moved", moving), ("unreadable", absurd)]
    assert {state: result.figures["ledgers", state] for state in tally.STATES} == {
        "closed": 0, "open": 0, "unsure": 0, "young": 0, "moved": 1, "gone": 1, "unreadable": 1,
    }  # fmt: skip
    assert [key for key in result.figures if key[0] == "reasons" and "ledger ..." in key[1]]
    assert {(one.kind, one.count) for one in young.findings} == {("young", 0)}
    assert young.figures == {("ledgers", "young"): len(truth.metadata)}


async def _touch(client: ClientNode, ledger_id: LedgerId, stop: asyncio.Event) -> None:
    """Write the ledger's record again and again: each time it is another version of it."""
    ledgers = client.client.shared.ledgers
    while not stop.is_set():
        metadata, version = await ledgers.get(ledger_id)
        await ledgers.put(ledger_id, metadata, version)

"""Both bookies of some entries of a closed ledger lose their disks: nobody has these entries, and the bookies look for
them until a person declares them lost (spec/metadata.md#M57)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId
from bookie.cli import accepted_loss
from bookie.cli.main import parser_for
from bookie.client.repair import declaring_lost, evacuation, explaining
from bookie.client.repair.declaring_lost import LostPlan
from bookie.client.write.writer import LedgerWriter
from bookie.metadata import lost_entries
from bookie.ports.admin import State
from bookie.sim.cluster import BookieNode, ClientNode, SimCluster
from sim_support import on_cluster
from story_support import story

COUNT = 30


async def written(cluster: SimCluster) -> LedgerWriter:
    """A ledger over three of four bookies, two copies of each entry, closed by its writer."""
    client = await cluster.client("writer")
    writer = await client(client.client.create(ensemble_size=3, write_quorum=2, ack_quorum=2))
    for number in range(COUNT):
        await client(writer.append(b"entry %d" % number))
    await client(writer.close())
    return writer


async def emptied(cluster: SimCluster, names: Sequence[BookieId]) -> list[BookieNode]:
    bookies = [cluster.bookies[name] for name in names]
    for bookie in bookies:
        bookie.crash()
        bookie.wipe()
    for bookie in bookies:
        bookie.start()
    await cluster.until(lambda: all(each.state is State.REPAIRING for each in bookies), "both are in limbo")
    return bookies


def rot(bookie: BookieNode, payload: bytes) -> None:
    """Flip a bit of this payload on the disks of a bookie that does not run."""
    hits = 0
    for _, image in bookie.node.image.volume_of("/ledgers").root.files("/ledgers"):
        found = bytes(image.data).find(payload)
        if found >= 0:
            image.data[found] ^= 1
            hits += 1
    assert hits, "the payload is on no disk"


async def planning(client: ClientNode, writer: LedgerWriter, *names: str, **more: object) -> LostPlan:
    return await client(
        declaring_lost.plan(
            client.client.shared,
            writer.id,
            [BookieId(name) for name in names],
            by="ann",
            reason="the rack burnt",
            **more,  # type: ignore[arg-type]
        )
    )


def lost_of(writer: LedgerWriter, names: Sequence[BookieId]) -> list[int]:
    return [entry for entry in range(COUNT) if set(writer.metadata.write_set(EntryId(entry))) == set(names)]


@story(on_cluster, 41, bookies=4)
async def test_what_nobody_has_is_declared_lost_and_the_rest_is_whole_again(cluster: SimCluster) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    lost = lost_of(writer, names)
    assert len(lost) == COUNT // 3
    person = await cluster.client("person")
    nothing = await planning(person, writer, *names)
    assert nothing.runs == (), "nothing is missing yet"
    before = cluster.metadata_of(writer.id)
    await person(declaring_lost.declare(person.client.shared, nothing))
    assert cluster.metadata_of(writer.id) == before
    bookies = await emptied(cluster, names)
    await asyncio.sleep(30)
    assert all(each.state is State.REPAIRING for each in bookies), "they look for what nobody has"

    with pytest.raises(errors.GrantRefused, match=f"{names[1]} may have entries that nobody else has, and is not"):
        await planning(person, writer, names[0])
    wanted = await planning(person, writer, *names)
    assert [first for first, _ in wanted.runs] == lost
    assert wanted.count == len(lost)
    bookies[0].crash()  # what it said is another process's word now
    bookies[0].start()
    await cluster.until(lambda: bookies[0].state is State.REPAIRING, "it is back, in limbo")
    with pytest.raises(errors.BookieUnavailable, match="restarted since it was judged"):
        await person(declaring_lost.declare(person.client.shared, wanted))
    assert cluster.metadata_of(writer.id) == before
    wanted = await planning(person, writer, *names)
    declared = await person(declaring_lost.declare(person.client.shared, wanted))

    assert cluster.metadata_of(writer.id) == declared
    await cluster.until_repaired(*names)
    reader = await person(person.client.open(writer.id))
    for entry in range(COUNT):
        if entry in lost:
            with pytest.raises(errors.NoSuchEntry, match="declared lost by ann: the rack burnt"):
                await person(reader.read(entry, entry))
        else:
            assert [each.payload for each in await person(reader.read(entry, entry))] == [b"entry %d" % entry]
    await _is_whole(cluster, writer)
    assert (await planning(person, writer, *names)).runs == (), "it is said once"


async def _is_whole(cluster: SimCluster, writer: LedgerWriter) -> None:
    """Every bookie has what it owes."""
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    lost = {entry for first, last in metadata.lost_runs() for entry in range(first, last + 1)}
    for entry in set(range(COUNT)) - lost:
        for name in metadata.write_set(EntryId(entry)):
            process = cluster.bookies[name].process
            assert process is not None
            assert process.admin.store is not None
            assert process.admin.store.has_entry(writer.id, EntryId(entry)), (name, entry)


@story(on_cluster, 42, bookies=5)
async def test_a_bookie_leaves_a_ledger_that_has_lost_entries(cluster: SimCluster) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    await emptied(cluster, names)
    person = await cluster.client("person")
    await person(declaring_lost.declare(person.client.shared, await planning(person, writer, *names)))
    await cluster.until_repaired(*names)

    moving = evacuation.Evacuation(person.client.shared, [names[0]])
    await person(moving.move(writer.id))

    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    assert not metadata.names(names[0])
    assert metadata.lost_runs(), "the note stays"
    await _is_whole(cluster, writer)


@story(on_cluster, 43, bookies=4, journal_write_data=True)
async def test_a_bookie_that_is_away_with_its_disks_is_not_given_up(cluster: SimCluster) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    kept, wiped = (cluster.bookies[name] for name in names)
    kept.crash()
    await emptied(cluster, [BookieId(wiped.name)])
    person = await cluster.client("person")
    await cluster.until(lambda: BookieId(kept.name) not in person.client.shared.watcher.records, "its session ends")

    with pytest.raises(errors.GrantRefused, match="its disks may be whole"):
        await planning(person, writer, *names)
    kept.start()
    await cluster.until_repaired(*names)

    assert (await planning(person, writer, *names)).runs == ()
    await _is_whole(cluster, writer)


@story(on_cluster, 46, bookies=5)
async def test_a_copy_on_a_bookie_that_the_ledger_names_no_more_is_brought_back(cluster: SimCluster) -> None:
    writer = await written(cluster)
    person = await cluster.client("person")
    moved = writer.metadata.last_segment.bookies[0]
    await person(evacuation.Evacuation(person.client.shared, [moved]).move(writer.id))
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    names = metadata.last_segment.bookies
    await emptied(cluster, names)
    await cluster.until(lambda: set(names) <= set(person.client.shared.watcher.records), "the person sees them")

    wanted = await planning(person, writer, *names)
    assert set(wanted.found.values()) == {moved}
    assert sorted([*wanted.found, *(each for a, b in wanted.runs for each in range(a, b + 1))]) == list(range(COUNT))
    assert [first for first, _ in wanted.runs] == lost_of(writer, writer.metadata.last_segment.bookies[1:])
    await person(declaring_lost.declare(person.client.shared, wanted))
    await cluster.until_repaired(*names)
    await _is_whole(cluster, writer)


@story(on_cluster, 49, bookies=5)
async def test_a_bookie_that_the_ledger_names_no_more_must_say_that_it_has_no_copy(cluster: SimCluster) -> None:
    """It restarts, or is in limbo and lists nothing: the only copy may be there."""
    writer = await written(cluster)
    person = await cluster.client("person")
    moved = writer.metadata.last_segment.bookies[0]
    await person(evacuation.Evacuation(person.client.shared, [moved]).move(writer.id))
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    names = metadata.last_segment.bookies
    await emptied(cluster, names)

    cluster.partition("person", moved)
    with pytest.raises(
        errors.GrantRefused,
        match=f"{moved}, which the ledger does not name, does not say whether.*only if its disks are gone",
    ):
        await planning(person, writer, *names)
    cluster.heal()
    person = await cluster.client("another")
    left = cluster.bookies[moved].process
    assert left is not None
    assert left.admin.store is not None
    await cluster.bookies[moved].node.do(left.admin.store.protect([(writer.id, False, True, None)]))
    wanted = await planning(person, writer, *names)
    assert set(wanted.found.values()) == {moved}
    await person(declaring_lost.declare(person.client.shared, wanted))
    await cluster.until_repaired(*names)
    await _is_whole(cluster, writer)


@story(on_cluster, 50, bookies=4)
async def test_a_copy_on_a_bookie_that_is_named_for_other_entries_is_brought_back(cluster: SimCluster) -> None:
    """It left the ledger, and came back in another place."""
    writer = await written(cluster)
    person = await cluster.client("person")
    moved, _, third = writer.metadata.last_segment.bookies
    for leaving in (moved, third):
        await person(evacuation.Evacuation(person.client.shared, [leaving]).move(writer.id))
    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    *names, last = metadata.last_segment.bookies
    assert last == moved
    await emptied(cluster, names)

    everything = [(EntryId(0), EntryId(COUNT - 1))]
    for entries in ([], everything):
        wanted = await planning(person, writer, *names, entries=entries)
        assert set(wanted.found.values()) == {moved}
    assert cluster.metadata_of(writer.id) == metadata
    await person(declaring_lost.declare(person.client.shared, wanted))
    await cluster.until_repaired(*names)
    await _is_whole(cluster, writer)


@story(on_cluster, 47, bookies=4)
async def test_the_queue_is_worked_off_once_what_nobody_has_is_declared_lost(cluster: SimCluster) -> None:
    """What a look of an auditor and a worker would do about the ledger: nothing more."""
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    await emptied(cluster, names)
    person = await cluster.client("person")
    told = await person(explaining.explain(person.client.shared, writer.id))
    assert not told.found.is_whole
    await person(declaring_lost.declare(person.client.shared, await planning(person, writer, *names)))
    await cluster.until_repaired(*names)

    told = await person(explaining.explain(person.client.shared, writer.id))
    assert told.found.is_whole, told.needs


@story(on_cluster, 44, bookies=4)
async def test_an_entry_with_a_good_copy_is_not_declared_lost_even_by_name(cluster: SimCluster) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    await emptied(cluster, names)
    person = await cluster.client("person")
    everything = [(EntryId(0), EntryId(COUNT - 1))]
    wanted = await planning(person, writer, *names, entries=everything)

    assert [first for first, _ in wanted.runs] == lost_of(writer, names)
    with pytest.raises(errors.BadInput, match="the ledger has entries 0 to 29"):
        await planning(person, writer, *names, entries=[(EntryId(3), EntryId(COUNT))])


@story(on_cluster, 51, bookies=4)
async def test_more_runs_than_a_record_takes_are_refused_before_anybody_consents(
    cluster: SimCluster, *, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost_entries, "RUNS_MAX", 5)
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    lost = lost_of(writer, names)
    await emptied(cluster, names)
    person = await cluster.client("person")

    with pytest.raises(errors.GrantRefused, match="more than 5 runs, the most that its record takes; save what is"):
        await planning(person, writer, *names)
    some = await planning(person, writer, *names, entries=[(EntryId(one), EntryId(one)) for one in lost[:3]])
    await person(declaring_lost.declare(person.client.shared, some))
    with pytest.raises(errors.GrantRefused, match="more than 5 runs"):
        await planning(person, writer, *names, entries=[(EntryId(one), EntryId(one)) for one in lost[3:6]])


@story(on_cluster, 52, bookies=4)
async def test_of_two_persons_at_once_one_is_told_to_begin_again(cluster: SimCluster) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies
    await emptied(cluster, names)
    ann, bob = await cluster.client("ann"), await cluster.client("bob")
    plans = [await planning(each, writer, *names) for each in (ann, bob)]
    assert [each.runs for each in plans] == [((EntryId(0), EntryId(COUNT - 1)),)] * 2

    declared = await ann(declaring_lost.declare(ann.client.shared, plans[0]))
    with pytest.raises(errors.VersionConflict, match="nothing was declared lost; begin again"):
        await bob(declaring_lost.declare(bob.client.shared, plans[1]))

    assert cluster.metadata_of(writer.id) == declared
    await cluster.until_repaired(*names)
    assert (await planning(bob, writer, *names)).runs == ()


@story(on_cluster, 45, bookies=4)
async def test_a_bookie_settles_it_when_it_is_told_to_and_again_as_often_as_it_is_asked(cluster: SimCluster) -> None:
    """As the operator asks (spec/operator.md#U15)."""
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    await emptied(cluster, names)
    left = cluster.bookies[writer.metadata.last_segment.bookies[2]]

    async def asked(by: str) -> str:
        assert left.process is not None
        return await left.node.do(left.process.admin.accept_ledger_loss(writer.id, names, by=by, reason="it burnt"))

    first = await asked("ann")
    assert "10 entries declared lost by ann (it burnt)" in first
    assert await asked("bob") == first, "who was first stands in the record"
    await cluster.until_repaired(*names)


@story(on_cluster, 61, bookies=4)
async def test_what_is_bad_on_every_disk_is_declared_lost_once_a_person_says_so(cluster: SimCluster) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    entry = EntryId(lost_of(writer, names)[1])
    await asyncio.sleep(20)  # flushed
    for bookie in (cluster.bookies[name] for name in names):
        bookie.stop()
        await cluster.until(lambda it=bookie: not it.is_running, "it has stopped")  # type: ignore[misc]
        rot(bookie, b"entry %d" % entry)
        bookie.start()
    await cluster.until_repaired(*names)
    person = await cluster.client("person")
    just_it = {"entries": [(entry, entry)]}

    for more in ({}, {"after_crash": True}):
        with pytest.raises(errors.GrantRefused, match="only if its scrub lists the entry as bad"):
            await planning(person, writer, *names, **just_it, **more)
    with pytest.raises(errors.GrantRefused, match=f"{names[1]} may have entries that nobody else has"):
        await planning(person, writer, names[0], corrupt=True, **just_it)
    wanted = await planning(person, writer, *names, corrupt=True, **just_it)
    await person(declaring_lost.declare(person.client.shared, wanted))

    metadata = cluster.metadata_of(writer.id)
    assert metadata is not None
    assert metadata.lost_runs() == [(entry, entry)]
    assert [act.claims for act in metadata.losses()] == [("corrupt",)], "a person said so, and nothing proves it"
    await _is_whole(cluster, writer)


@story(on_cluster, 48, bookies=4)
async def test_the_command_says_what_it_would_declare_and_then_what_it_declared(
    cluster: SimCluster, *, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = await written(cluster)
    names = writer.metadata.last_segment.bookies[:2]
    lost = lost_of(writer, names)
    await emptied(cluster, names)
    person = await cluster.client("person")

    async def types(*words: str) -> int:
        named = [word for name in names for word in ("--bookie", name)]
        line = ["ledger", "accept-loss", str(writer.id), *named, "--reason", "it burnt", "--by", "ann", *words]
        return await person(accepted_loss.settle(parser_for(line).parse_args(line), person.client))

    with pytest.raises(errors.BadInput, match="--entries 3-: give one entry, or the first and the last"):
        await types("--yes", "--entries", "3-")
    assert await types("--dry-run", "--entries", f"{lost[0] + 1}") == 0
    assert "nothing to declare: somebody gives a good copy of each of these" in capsys.readouterr().err
    assert await types("--dry-run") == 0
    assert f"declare 10 entries of ledger {writer.id} lost" in capsys.readouterr().err
    before = cluster.metadata_of(writer.id)
    assert before is not None
    assert before.lost_runs() == []
    assert await types("--yes", "--entries", f"{lost[1]}") == 0
    assert f"1 entries declared lost by ann (it burnt): {lost[1]}\n" in capsys.readouterr().out
    assert await types("--yes", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [each["first"] for each in told["lostEntries"]] == lost
    await cluster.until_repaired(*names)

"""What a person gives up is signed in the write that notes it, by a command or by a bookie, and can be checked ever
after (spec/metadata.md#M58)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, EntryId, LedgerId
from bookie.base.units import NS_PER_S
from bookie.cli import accepted_loss, ledger, losses, main
from bookie.client.repair import accepting_loss, declaring_lost, evacuation, reading_losses
from bookie.metadata import lost_entries, paths, recorded_losses, serde
from bookie.metadata.lost_entries import Act
from bookie.ports.admin import State
from bookie.sim.cluster import ROOT, ClientNode, SimCluster
from bookie.sim.history import TreeHistory
from loss_keys_support import ANN, BOB, signing, trusting, write_private, write_public
from sim_support import on_cluster
from story_support import story

TRUSTED = [trusting("ann", ANN)]


async def types(person: ClientNode, *words: str) -> int:
    """Type a command of `bookie ledger`; return its exit code."""
    arguments = main.parser_for(["ledger", *words]).parse_args(["ledger", *words])
    arguments.judge(arguments)
    match words[0]:
        case "accept-loss":
            return await person(accepted_loss.settle(arguments, person.client))
        case "losses":
            return await person(losses.survey(arguments, person.client))
        case _:
            return await person(ledger._show(person.client, arguments))


async def lost_one(cluster: SimCluster, *, is_closed: bool) -> tuple[LedgerId, Sequence[BookieId]]:
    """A ledger of which two bookies lost everything, and these."""
    client = await cluster.client("writer")
    writer = await client(client.client.create(ensemble_size=3, write_quorum=2, ack_quorum=2))
    for number in range(12):
        await client(writer.append(b"entry %d" % number))
    if is_closed:
        await client(writer.close())
    client.crash()
    names = writer.metadata.last_segment.bookies[:2]
    for bookie in (cluster.bookies[name] for name in names):
        bookie.crash()
        bookie.wipe()
        bookie.start()
    await cluster.until(lambda: all(cluster.bookies[one].state is State.REPAIRING for one in names), "limbo")
    return writer.id, names


async def worths(person: ClientNode, ledger_id: LedgerId) -> list[str]:
    _, found = await person(reading_losses.of_ledger(person.client.shared.ledgers, ledger_id, TRUSTED))
    return [each.signature.worth.value for each in found]


@story(on_cluster, 71, bookies=5)
async def test_the_command_signs_and_everybody_can_check_it(
    cluster: SimCluster, *, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ledger_id, names = await lost_one(cluster, is_closed=True)
    person = await cluster.client("person")
    key, trusted = write_private(tmp_path / "key", ANN), str(write_public(tmp_path / "ann.pub", ANN))
    other = str(write_public(tmp_path / "bob.pub", BOB))
    act = ["accept-loss", str(ledger_id), *(word for each in names for word in ("--bookie", each)), "--reason", "burnt"]
    metadata = await person(person.client.metadata(ledger_id))
    first = next(entry for entry in range(12) if set(metadata.write_set(EntryId(entry))) == set(names))
    assert await types(person, "losses", "--trusted", trusted) == 0
    assert capsys.readouterr().err == "0 accepted losses in 1 ledgers\n"

    assert await types(person, *act, "--yes", "--by", "ann", "--sign-with", str(key), "--entries", str(first)) == 0

    assert f"the note of it is signed with key {signing(ANN).fingerprint}" in capsys.readouterr().err
    assert await types(person, "losses") == 0
    told = capsys.readouterr()
    assert f"signed by key {signing(ANN).fingerprint[:12]}… (not checked)" in told.out
    assert told.err == "1 accepted losses in 1 ledgers; no signature was checked: --trusted FILE\n"
    assert await types(person, "losses", "--trusted", other) == 1
    assert "signed by an unknown key" in capsys.readouterr().out
    assert await types(person, "show", str(ledger_id), "--trusted", other, "--trusted", trusted) == 0
    assert f"given up      trusted: signed by ann: {first}, " in (shown := capsys.readouterr().out)
    assert ", by ann (burnt)" in shown
    assert await types(person, *act, "--yes", "--by", "bob") == 0  # the others, unsigned
    await cluster.until_repaired(*names)
    await person(evacuation.Evacuation(person.client.shared, [names[0]]).move(ledger_id))
    capsys.readouterr()
    assert await types(person, "losses", "--json", "--trusted", trusted) == 1
    rows = json.loads(capsys.readouterr().out)
    assert [(each["by"], each["signature"]["worth"]) for each in rows] == [("ann", "trusted"), ("bob", "unsigned")]
    assert rows[0]["entries"] == [{"first": first, "last": first}]
    assert rows[0]["signature"]["name"] == "ann"
    assert await types(person, "show", str(ledger_id), "--json", "--trusted", trusted) == 1
    assert json.loads(capsys.readouterr().out)["losses"] == rows


@story(on_cluster, 72, loss_key=signing(ANN))
async def test_a_bookie_that_has_a_key_signs_what_it_does_for_an_operator(cluster: SimCluster) -> None:
    """The end that it decides, and the entries that it then declares lost."""
    ledger_id, names = await lost_one(cluster, is_closed=False)
    left = next(each for each in cluster.bookies.values() if BookieId(each.name) not in names)
    assert left.process is not None

    text = await left.node.do(left.process.admin.accept_ledger_loss(ledger_id, tuple(names), by="ann", reason="burnt"))

    person = await cluster.client("person")
    assert "is closed at entry" in text
    assert "signature" not in text
    assert set(await worths(person, ledger_id)) == {"trusted"}
    closed = await person(person.client.metadata(ledger_id))
    assert recorded_losses.ENDED in dict(closed.custom)
    record = accepting_loss.record_of(closed)
    assert record is not None
    assert record["lastEntry"] == closed.last_entry


@story(on_cluster, 73)
async def test_a_record_that_was_made_anew_under_the_id_is_not_taken_for_the_signed_one(
    cluster: SimCluster, *, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ledger_id, names = await lost_one(cluster, is_closed=True)
    person = await cluster.client("person")
    shared = person.client.shared
    wanted = await person(declaring_lost.plan(shared, ledger_id, names, by="ann", reason="burnt", key=signing(ANN)))
    signed = await person(declaring_lost.declare(shared, wanted))
    assert await worths(person, ledger_id) == ["trusted"]

    await person(shared.ledgers.delete(ledger_id))
    await person(shared.ledgers.put_back(ledger_id, serde.dump_ledger(signed), None))

    assert await worths(person, ledger_id) == ["other record"]
    await person(shared.ledgers.store.put(shared.ledgers.path(ledger_id), b"no record", 0))
    trusted = str(write_public(tmp_path / "ann.pub", ANN))
    assert await types(person, "losses", "--trusted", trusted) == 6, "nobody knows what it would tell"
    assert "1 records cannot be read, and may tell of more" in capsys.readouterr().err


@story(on_cluster, 74)
async def test_in_a_cluster_without_an_id_nothing_is_signed(cluster: SimCluster) -> None:
    ledger_id, names = await lost_one(cluster, is_closed=True)
    person = await cluster.client("person")
    shared = person.client.shared
    await person(shared.ledgers.store.delete(paths.instance_id(ROOT), -1))

    with pytest.raises(errors.BadInput, match="no instance id, so that a signature would be as good in any other one"):
        await person(declaring_lost.plan(shared, ledger_id, names, by="ann", reason="burnt", key=signing(ANN)))
    wanted = await person(declaring_lost.plan(shared, ledger_id, names, by="ann", reason="burnt"))
    declared = await person(declaring_lost.declare(shared, wanted))

    assert await worths(person, ledger_id) == ["unsigned"]
    assert lost_entries.KEY in dict(declared.custom)
    assert dataclasses.replace(wanted.given_up, seal=None) == wanted.given_up


@story(on_cluster, 75)
async def test_what_was_given_up_a_moment_ago_is_shown_by_every_server(cluster: SimCluster, *, tmp_path: Path) -> None:
    """A server of the metadata store that lags has not heard of it: no look may end with "nothing was"."""
    ledger_id, names = await lost_one(cluster, is_closed=True)
    trusted = str(write_public(tmp_path / "ann.pub", ANN))
    person, other = await cluster.client("person"), await cluster.client("other")
    ledgers = other.client.shared.ledgers
    keeper, loop = cluster.simulation.keeper, cluster.simulation.loop
    keeper.history = TreeHistory(keeper.tree)
    for path in list(keeper.tree.nodes):
        keeper.history.note(path, loop.now_ns)
    await loop.sleep_ns(NS_PER_S)
    stood, version = await other(ledgers.get(ledger_id))
    act = Act("eve", "burnt", 5, tuple(names), ((EntryId(0), EntryId(11)),))
    await other(ledgers.put(ledger_id, stood.with_custom(lost_entries.KEY, lost_entries.dump([act])), version))
    keeper.faults.lag_ns = NS_PER_S * 9 // 10

    assert [await types(person, "show", str(ledger_id), "--trusted", trusted) for _ in range(6)] == [1] * 6
    assert await types(person, "losses", "--trusted", trusted) == 1

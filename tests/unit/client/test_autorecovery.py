"""Java's auto-recovery through its records (spec/metadata.md#M30): the forms are Java's."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import underreplicated_support
from bookie.base import errors
from bookie.base.ids import LedgerId
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.metadata.repair import Underreplicated
from bookie.ports.metadata_store import MetadataStore
from sim_support import Machine
from story_support import story

ROOT = "/ledgers"
AT = f"{ROOT}/underreplication"
LARGE = LedgerId(2**63 - 1)


def tell(story: Callable[[AutoRecovery, MetadataStore], Coroutine[Any, Any, None]]) -> None:
    machine = Machine()

    async def whole() -> None:
        world = machine.begin()
        store = await world.metadata_stores.connect("zk+hierarchical://zk:2181/ledgers")
        await story(AutoRecovery(store, ROOT), store)
        await store.close()

    machine.run(whole)


@story(tell)
async def test_marks_are_listed_by_id_with_who_works_on_them(recovery: AutoRecovery, store: MetadataStore) -> None:
    for ledger_id, missing in ((LARGE, ("b2:1",)), (LedgerId(12_345), ("b1:1", "b2:1"))):
        mark = underreplicated_support.mark(missing, 1_700_000_000_000)
        await store.create(underreplicated_support.path(ROOT, ledger_id), mark, parents=True)
    await store.create(f"{AT}/ledgers/0000/0000/0000/0007/urL0000000007", b"", parents=True)
    await store.create(f"{AT}/locks/urL0000012345", b'bookieId: "node-1.example"\n', ephemeral=True, parents=True)
    await store.create(f"{AT}/locks/urL{LARGE:010}", b'bookieId: "of no session"\n')

    found = [marked async for marked in recovery.marked()]

    assert [marked.ledger_id for marked in found] == [7, 12_345, LARGE]
    assert found[0].record == Underreplicated((), -1)
    assert (found[1].record.missing, found[1].holder) == (("b1:1", "b2:1"), "node-1.example")
    assert (found[2].record.marked_ms, found[2].holder) == (1_700_000_000_000, "")


@story(tell)
async def test_a_cluster_in_which_it_never_ran_has_nothing_to_do_and_is_on(
    recovery: AutoRecovery, store: MetadataStore
) -> None:
    assert [marked async for marked in recovery.marked()] == []
    assert await recovery.auditor() is None
    assert await recovery.delay_s() is None
    assert await recovery.is_enabled()


@story(tell)
async def test_the_lowest_vote_is_the_auditor_by_number_not_by_text(
    recovery: AutoRecovery, store: MetadataStore
) -> None:
    for name, bookie in (("V_0000000010", "late:1"), ("V_0000000009", "early:1")):
        vote = f'bookieId: "{bookie}"\n'.encode()
        await store.create(f"{AT}/auditorelection/{name}", vote, ephemeral=True, parents=True)

    assert await recovery.auditor() == "early:1"


@story(tell)
async def test_what_a_stranger_left_among_the_records_hides_none_of_them(
    recovery: AutoRecovery, store: MetadataStore
) -> None:
    for name in ("urL²", "urLx", "urL" + "9" * 5000):
        await store.create(f"{AT}/ledgers/0000/0000/0000/0007/{name}", b"", parents=True)
        await store.create(f"{AT}/locks/{name}", b'bookieId: "b:1"\n', parents=True)
    await store.create(f"{AT}/locks/urL0000000008", b"\xff", parents=True)
    for name in ("V_²", "lost+found", "V_" + "9" * 5000):
        await store.create(f"{AT}/auditorelection/{name}", b'bookieId: "stranger:1"\n', ephemeral=True, parents=True)
    await store.create(f"{AT}/auditorelection/V_0000000001", b'bookieId: "no-session:1"\n', parents=True)
    await store.create(f"{AT}/auditorelection/V_0000000002", b"\xff", parents=True)
    await store.create(underreplicated_support.path(ROOT, LedgerId(6)), b"\xff", parents=True)
    await store.create(underreplicated_support.path(ROOT, LedgerId(7)), b"", parents=True)
    await store.create(f"{AT}/locks/urL0000000007", b'bookieId: "b:1"\n', ephemeral=True, parents=True)
    await store.create(f"{AT}/auditorelection/V_0000000009", b'bookieId: "ours:1"\n', ephemeral=True, parents=True)

    assert [(marked.ledger_id, marked.holder) async for marked in recovery.marked()] == [(6, ""), (7, "b:1")]
    assert await recovery.auditor() == "ours:1"


@story(tell)
async def test_the_switch_is_a_node_that_stands_while_it_is_off(recovery: AutoRecovery, store: MetadataStore) -> None:
    assert await recovery.set_enabled(enabled=False) is True
    assert (await store.get(f"{AT}/disable")).data == b""
    assert await recovery.set_enabled(enabled=False) is False
    assert await recovery.set_enabled(enabled=True) is True
    assert await recovery.is_enabled()


@story(tell)
async def test_an_audit_is_asked_for_by_writing_the_delay_that_is_there(
    recovery: AutoRecovery, store: MetadataStore
) -> None:
    with pytest.raises(errors.NobodyAudits, match=r"no auditor.*start auto-recovery"):
        await recovery.trigger_audit()
    await store.create(f"{AT}/auditorelection/V_0000000001", b'bookieId: "a:1"\n', ephemeral=True, parents=True)
    await recovery.set_delay_s(45)
    before = await store.get(f"{AT}/lostBookieRecoveryDelay")

    assert await recovery.trigger_audit() == "a:1"

    after = await store.get(f"{AT}/lostBookieRecoveryDelay")
    assert (after.data, after.version) == (b"45", before.version + 1)
    await recovery.set_enabled(enabled=False)
    with pytest.raises(errors.NobodyAudits, match=r"switched off.*bookie autorecovery enable"):
        await recovery.trigger_audit()


@story(tell)
async def test_a_delay_below_zero_is_refused(recovery: AutoRecovery, store: MetadataStore) -> None:
    with pytest.raises(errors.BadInput, match="not below 0"):
        await recovery.set_delay_s(-1)
    with pytest.raises(errors.BadInput, match="2147483647 s at most"):
        await recovery.set_delay_s(10**400)
    await recovery.set_delay_s(2**31 - 1)
    assert await recovery.delay_s() == 2**31 - 1


@pytest.mark.parametrize(
    "data", [b"", b"soon", b"-5", b"\xff", b"9" * 5000, b"9" * 400, b"2147483648"], ids=lambda data: repr(data)[:8]
)
@story(tell)
async def test_a_delay_that_is_none_is_named_with_its_node(
    recovery: AutoRecovery, store: MetadataStore, *, data: bytes
) -> None:
    await store.create(f"{AT}/lostBookieRecoveryDelay", data, parents=True)

    with pytest.raises(errors.BadInput, match=f"{AT}/lostBookieRecoveryDelay holds .*set it again") as told:
        await recovery.delay_s()
    assert len(str(told.value)) < 250

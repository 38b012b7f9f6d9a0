"""Records in the metadata store: what either side writes the other reads, in every format, byte for byte."""

import asyncio
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import java_support
import underreplicated_support
from bookie.base.ids import BookieId, LedgerId
from bookie.cli import main
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.connect import connect
from bookie.metadata import cookie, serde
from bookie.metadata.cookie import Cookie
from bookie.metadata.ledger import LedgerMetadata, LedgerState, new_ledger
from java_fleet_support import JudgedFleet
from java_operator_support import JavaOperator
from java_support import JavaClient

pytestmark = pytest.mark.java

ROOT = "/ledgers"
# All that is escaped in protobuf's text form, and what is beyond ASCII.
AWKWARD = "tab\t quote\" apostrophe' back\\slash é \x07"


def stored(uri: str, ledger_id: int) -> bytes:
    """The record as it stands."""

    async def read() -> bytes:
        async with connect(uri) as client:
            return (await client.shared.ledgers.stored(LedgerId(ledger_id))).data

    return asyncio.run(read())


def put(uri: str, metadata: LedgerMetadata) -> int:
    """Make a ledger of exactly this record; return its id."""

    async def write() -> int:
        async with connect(uri) as client:
            ledgers = client.shared.ledgers
            ledger_id = await ledgers.next_id()
            await ledgers.create_at(ledger_id, serde.dump_ledger(metadata), 0)
            return int(ledger_id)

    return asyncio.run(write())


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("keeps_ctime", [False, True])
def test_we_read_and_rewrite_what_java_wrote(
    fleet: JudgedFleet, java: JavaClient, version: int, keeps_ctime: bool
) -> None:
    with java.guest(
        f"format {version} {keeps_ctime}",
        ledgerMetadataVersion=version,
        storeSystemTimeAsLedgerCreationTime=str(keeps_ctime).lower(),
    ) as guest:
        made = guest.ask("create", password="secret", custom={"who": AWKWARD, "a\tkey": ""})
        is_open = stored(fleet.uri, made["ledger"])
        guest.append(made["handle"], [b"x" * 10] * 7)
        guest.ask("close", handle=made["handle"])
        is_closed = stored(fleet.uri, made["ledger"])

    for data, state in ((is_open, LedgerState.OPEN), (is_closed, LedgerState.CLOSED)):
        metadata = serde.load_ledger(data)
        assert (metadata.format_version, metadata.state) == (version, state)
        assert serde.dump_ledger(metadata) == data
        assert metadata.stores_ctime is (keeps_ctime and version > 1)
    assert (metadata.last_entry, metadata.length) == (6, 70)
    if version > 1:
        assert metadata.password == b"secret"
        assert dict(metadata.custom) == {"who": AWKWARD.encode(), "a\tkey": b""}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_java_reads_recovers_and_keeps_the_format_of_what_we_wrote(
    fleet: JudgedFleet, java: JavaClient, version: int
) -> None:
    made = new_ledger(
        ensemble_size=3,
        write_quorum=2,
        ack_quorum=2,
        bookies=tuple(map(BookieId, fleet.bookie_ids)),
        password=b"secret" if version > 1 else b"",
        custom=(("a\tkey", b""), ("who", AWKWARD.encode())) if version > 1 else (),
        ctoken=77 if version > 2 else 0,
    )
    if version == 1:
        made = dataclasses.replace(made, has_password=False, digest_type=0)
    ledger = put(fleet.uri, dataclasses.replace(made, format_version=version))

    seen = java.ask("metadata", ledger=ledger)
    reader = java.ask("open", ledger=ledger, password="secret" if version > 1 else "")

    assert (seen["state"], seen["segments"][0]["bookies"]) == ("OPEN", fleet.bookie_ids)
    if version > 1:
        assert seen["custom"] == {"who": AWKWARD, "a\tkey": ""}
    assert (reader["last"], reader["closed"]) == (-1, True)
    after = serde.load_ledger(stored(fleet.uri, ledger))
    assert (after.format_version, after.state, after.last_entry) == (version, LedgerState.CLOSED, -1)
    assert after.segments == made.segments


# ---- identities ------------------------------------------------------------------------------------------------------


def test_we_read_the_cookies_that_official_bookies_wrote(java_fleet: JudgedFleet) -> None:
    async def read(bookie_id: str) -> bytes:
        async with connect(java_fleet.uri) as client:
            return (await client.shared.ledgers.store.get(f"{ROOT}/cookies/{bookie_id}")).data

    for bookie_id in java_fleet.bookie_ids:
        data = asyncio.run(read(bookie_id))
        home = java_fleet.folder / f"java-bookie-{bookie_id.rpartition(':')[2]}"

        found = cookie.load_cookie(data)

        assert (found.bookie_id, found.layout_version) == (bookie_id, 5)
        assert (found.journal_dirs, found.ledger_dirs) == ((f"{home}/journal",), (f"{home}/ledgers",))
        assert cookie.dump_cookie(found) == data
        assert (home / "ledgers" / "current" / "VERSION").read_bytes() == data


def test_the_same_directories_make_the_same_cookie(operator: JavaOperator, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    operator.shell(
        *("cookie_generate", "-j", "/j0,/j1", "-l", "/l0,/l1", "-ix", "/i0,/i1", "-i", "an-instance"),
        *("-o", str(theirs), "host.example:3181"),
    )

    ours = Cookie(BookieId("host.example:3181"), ("/j0", "/j1"), ("/l0", "/l1"), ("/i0", "/i1"), "an-instance")

    assert theirs.read_bytes() == cookie.dump_cookie(ours)


def test_the_shell_takes_our_cookie_and_we_take_its(
    fleet: JudgedFleet, operator: JavaOperator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance_id = re.search(r"InstanceId: (\S+)", operator.shell("whatisinstanceid"))
    assert instance_id is not None
    ours, bookie_id = tmp_path / "ours", "retired.example:3181"
    ours.write_bytes(cookie.dump_cookie(Cookie(BookieId(bookie_id), ("/j",), ("/l",), (), instance_id.group(1))))

    operator.shell("cookie_create", "-cf", str(ours), bookie_id)
    assert tell(fleet, capsys, "cookie", "show", bookie_id) == ours.read_text()
    operator.shell("cookie_delete", bookie_id)
    tell(fleet, capsys, "cookie", "create", bookie_id, str(ours), "--yes")

    assert f"Cookie for bookie '{bookie_id}' is:" in operator.shell("cookie_get", bookie_id)
    tell(fleet, capsys, "cookie", "delete", bookie_id, "--yes")
    assert bookie_id not in operator.shell("listbookies", "-a")


def tell(fleet: JudgedFleet, capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    """Run one of our commands; its text."""
    import json

    assert main.main([*words, "--metadata-service-uri", fleet.uri, "--json"]) == 0, capsys.readouterr().err
    said = json.loads(capsys.readouterr().out)
    return said.get("text") if isinstance(said, dict) else said


# ---- auto-recovery's records -----------------------------------------------------------------------------------------


def test_the_shell_lists_the_marks_we_write(fleet: JudgedFleet, operator: JavaOperator) -> None:
    operator.shell("listunderreplicated")  # makes the layout, as any of theirs does
    missing = (BookieId("gone.example:3181"), BookieId("gone.example:3182"))
    path = underreplicated_support.path(ROOT, 4_294_967_296)

    async def write(data: bytes | None) -> None:
        async with connect(fleet.uri) as client:
            store = client.shared.ledgers.store
            if data is None:
                await store.delete(path)
            else:
                await store.create(path, data, parents=True)

    asyncio.run(write(underreplicated_support.mark(missing, 1_700_000_000_000)))
    try:
        told = operator.shell("listunderreplicated", "-pmr")
        none = operator.shell("listunderreplicated", "-missingreplica", "another.example:3181")
    finally:
        asyncio.run(write(None))

    assert "4294967296" in told
    assert all(bookie in told for bookie in missing)
    assert "4294967296" not in none


def test_each_sees_the_switch_and_the_delay_that_the_other_set(fleet: JudgedFleet, operator: JavaOperator) -> None:
    def ask(work: Any) -> Any:
        async def story() -> Any:
            async with connect(fleet.uri) as client:
                return await work(AutoRecovery(client.shared.ledgers.store, ROOT))

        return asyncio.run(story())

    assert ask(lambda it: it.set_enabled(enabled=False)) is True
    assert "Autorecovery is disabled" in operator.shell("autorecovery")
    operator.shell("autorecovery", "-enable")
    assert ask(lambda it: it.is_enabled()) is True
    ask(lambda it: it.set_delay_s(77))
    assert "77" in operator.shell("lostbookierecoverydelay", "-get")
    operator.shell("lostbookierecoverydelay", "-set", "5")
    assert ask(lambda it: it.delay_s()) == 5


def test_a_ledger_with_an_id_of_63_bits_is_where_java_looks_for_it(
    fleet: JudgedFleet, java: JavaClient, operator: JavaOperator
) -> None:
    large = LedgerId(2**62 + 12_345)
    bookies = tuple(map(BookieId, fleet.bookie_ids))
    made = new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=bookies, ctoken=7)

    async def write() -> None:
        async with connect(fleet.uri) as client:
            await client.shared.ledgers.create_at(large, serde.dump_ledger(made), 7)

    asyncio.run(write())

    assert java.ask("open", ledger=large)["last"] == -1
    assert f"ledgerID: {large}\n" in operator.shell("listledgers")
    java.ask("delete", ledger=large)
    with pytest.raises(java_support.JudgeError, match="NoSuchLedger"):
        java.ask("metadata", ledger=large)

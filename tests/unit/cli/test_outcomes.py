"""Three outcomes of commands that look: whole, damage, not known. What was not seen is never called fine."""

import argparse
import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import LAST_ENTRY, BookieId, EntryId, LedgerId
from bookie.cli import autorecovery, cluster, integrity, ledger, main, metadata_acl, node, output, replicas, workload
from bookie.cli import test as sanity
from bookie.client import Client
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.ports.admin import FillStatus, RepairStatus, ScrubReport
from bookie.sim.cluster import SimCluster
from bookie.wire.digest import Digest, DigestType
from bookie.workload import check, survey
from sim_support import on_cluster
from story_support import story


def row(*, expected: int = 3, missing: int | None = 0, read: int = 0, corrupt: int = 0) -> dict[str, Any]:
    return {"expected": expected, "missing": missing, "read": read, "corrupt": corrupt}


@pytest.mark.parametrize(
    ("found", "reads", "outcome"),
    [
        (row(), False, "listed"),
        (row(), True, "not known"),
        (row(read=3), True, "whole"),
        (row(read=2), True, "not known"),
        (row(missing=1), False, "damage"),
        (row(missing=None), False, "not known"),
        (row(read=3, corrupt=1), True, "damage"),
        (row(expected=0), True, "whole"),
        (row(expected=0), False, "whole"),
    ],
)
def test_a_row_of_a_ledger_check_has_one_of_three_outcomes(found: dict[str, Any], reads: bool, outcome: str) -> None:
    assert replicas.outcome(found, reads=reads, listed=output.LISTED) == outcome


def said(*rows: dict[str, Any], reads: bool = False, listed: str = output.LISTED) -> tuple[str, str]:
    judged = [{**one, "outcome": replicas.outcome(one, reads=reads, listed=listed)} for one in rows]
    return replicas.sentence(LedgerId(7), judged, reads=reads)


def test_a_ledger_check_says_what_its_outcome_is_worth() -> None:
    assert said(row(), row()) == ("listed", "ledger 7: every one of 6 copies is listed; bytes were not read")
    assert said(row(read=3), reads=True)[1] == "ledger 7: every one of 3 copies was read and matches its digest"
    assert said(row(expected=0))[1] == "ledger 7 has no entry that a bookie owes it: there is no copy to look at"
    assert said(row(), row(missing=None))[0] == "not known"
    assert said(row(missing=2), row(missing=None))[0] == "damage"
    assert [output.EXIT_OF[one] for one in ("whole", "listed", "damage", "not known")] == [0, 0, 1, 6]


def test_a_list_is_enough_only_for_who_asked_for_lists() -> None:
    outcome, text = said(row(), row(), listed=output.NOT_KNOWN)

    assert outcome == "not known"
    assert "bytes were not read: --read reads them, --listed" in text


@story(on_cluster, "ledger check", bookies=3)
async def test_a_ledger_check_of_living_dead_and_rotten_bookies(fleet: SimCluster) -> None:
    client = await fleet.client("clerk")
    writer = await client(client.client.create(write_quorum=3, ack_quorum=3))
    await client(writer.append_many([b"payload"] * 5))
    await client(writer.close())

    async def checked(one: Client, *, reads: bool) -> list[str]:
        rows = await replicas.check(one, writer.metadata, writer.id, reads=reads, listed=output.NOT_KNOWN)
        return [row["outcome"] for row in rows]

    assert await client(checked(client.client, reads=False)) == ["not known"] * 3
    assert await client(checked(client.client, reads=True)) == ["whole"] * 3
    fleet.bookies["bookie-1"].crash()
    assert sorted(await client(checked(client.client, reads=True))) == ["not known", "whole", "whole"]


@pytest.mark.parametrize("entries", ["0", "-1"])
@pytest.mark.parametrize("bookie", [[], ["--bookie", "b0"]])
def test_a_cluster_is_not_called_working_after_no_entry(
    entries: str, bookie: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    uri = ["--metadata-service-uri", "zk+hierarchical://127.0.0.1:1/ledgers"]

    assert main.main(["test", "sanity", "--entries", entries, *bookie, *uri]) == main.USAGE

    assert capsys.readouterr() == ("", f"bookie: --entries is {entries}: it must be at least 1\n")


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (survey.Fences(), 6),
        (survey.Fences(moved=3), 6),
        (survey.Fences(moved=3, fenced=1), 0),
        (survey.Fences(refused=1), 0),
        (survey.Fences(refused=1, unfenced=[7]), 1),
        (survey.Fences(unknown=["ledger 7: no answer"]), 1),
    ],
)
def test_a_bookie_that_was_asked_about_no_ledger_is_not_said_to_refuse(found: survey.Fences, code: int) -> None:
    assert workload.fences_code(found) == code


class Stray:
    """A client of one bookie: it has entries 0, 1 and 3 of a ledger closed at `last`, and one far beyond."""

    beyond = 2**40

    def __init__(self, last: int = 4) -> None:
        self.bookies = self
        self.asked = 0
        self.last = last

    async def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        bookies = BookieId("b0"), BookieId("b1"), BookieId("b2")
        made = new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=bookies)
        return made.closed(EntryId(self.last), 1)

    async def list_groups(self, bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int, int, int]]:
        return [(0, 0, 2, 0), (3, 3, 1, 0), (self.beyond - 4, self.beyond, 1, 2)]

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.asked += 1
        entry_id = EntryId(self.beyond) if entry_id == LAST_ENTRY else entry_id
        if entry_id not in (0, 1, 3, self.beyond):
            raise errors.NoSuchEntry("not here")
        digest = Digest(DigestType((await self.metadata(ledger_id)).digest_type), b"")
        return b"".join(digest.seal(ledger_id, entry_id, EntryId(-1), 1, b"x"))


def test_reading_from_one_bookie_ends_although_it_has_a_stray_entry_far_beyond() -> None:
    stray: Any = Stray()

    async def numbers() -> list[int]:
        found = replicas.read(stray, await stray.metadata(LedgerId(7)), LedgerId(7), BookieId("b0"), 0, None)
        return [entry.entry_id async for entry in found]

    assert asyncio.run(numbers()) == [0, 1, 3, Stray.beyond]
    assert stray.asked < 2 * replicas.ABSENT_MAX


def test_reading_from_one_bookie_gives_up_where_its_list_is_of_entries_that_it_has_not() -> None:
    liar: Any = Stray()

    async def claims(bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int, int, int]]:
        return [(0, 0, 2**31, 0)]

    liar.list_groups = claims

    async def numbers() -> list[int]:
        found = replicas.read(liar, await liar.metadata(LedgerId(7)), LedgerId(7), BookieId("b0"), 0, None)
        return [entry.entry_id async for entry in found]

    with pytest.raises(errors.StorageFailed, match="lists entries of ledger 7 and has none of 1000 in a row"):
        asyncio.run(numbers())


@pytest.mark.parametrize(
    ("words", "shown", "said"),
    [
        (["--last", "1"], 2, ""),
        (["--last", "4"], 3, "did not give 2 entries of ledger 7 that it should hold: `bookie ledger check 7 --read`"),
        (["--first", "5", "--last", "9"], 0, "gave no entry of ledger 7 from entry 5 on"),
    ],
)
def test_reading_from_one_bookie_says_what_it_did_not_give(
    words: list[str], shown: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["ledger", "read", "7", "--bookie", "b0", "--json", *words]
    stray: Any = Stray()

    code = asyncio.run(ledger._read(stray, main.parser_for(asked).parse_args(asked)))

    assert code == (1 if "that it should hold" in said else 0), "what was denied and is owed is damage"
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == shown
    assert said in err
    assert bool(said) == bool(err)


class Failed(Stray):
    """One of its disks failed: it does not say which entry is its highest, gives entry 0, and cannot read 1 and 2; of 3
    its bytes are bad where `is_rotten`, and it denies 4 where `denies`."""

    def __init__(self, *, is_closed: bool = True, is_rotten: bool = False, denies: bool = False) -> None:
        super().__init__()
        self.is_closed, self.is_rotten, self.denies = is_closed, is_rotten, denies

    async def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        bookies = BookieId("b0"), BookieId("b1"), BookieId("b2")
        made = new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=bookies)
        return made.closed(EntryId(4), 1) if self.is_closed else made

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.asked += 1
        match entry_id:
            case _ if entry_id == LAST_ENTRY:
                raise errors.UnknownLedgerState("a directory failed")
            case 1:
                raise errors.UnknownLedgerState("entry 1: may have lost it")
            case 2:
                raise errors.StorageFailed("entry 2: cannot be read")
            case 4 if self.denies:
                raise errors.NoSuchEntry("not here")
        digest = Digest(DigestType((await self.metadata(ledger_id)).digest_type), b"")
        body = b"".join(digest.seal(ledger_id, entry_id, EntryId(-1), 1, b"x"))
        return body[:-1] + b"y" if entry_id == 3 and self.is_rotten else body


def read_of(client: Any, *words: str) -> int:
    asked = ["ledger", "read", "7", "--bookie", "b0", *words]
    return asyncio.run(ledger._read(client, main.parser_for(asked).parse_args(asked))) or 0


@pytest.mark.parametrize(
    ("kind", "code", "given", "problems"),
    [
        ({}, 6, [0, 3, 4], [1, 2]),
        ({"is_rotten": True}, 1, [0, 4], [1, 2, 3]),
        ({"denies": True}, 1, [0, 3], [1, 2]),
    ],
)
def test_what_a_bookie_with_a_failed_disk_gives_is_read_and_the_rest_told_entry_by_entry(
    kind: dict[str, bool], code: int, given: list[int], problems: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert read_of(Failed(**kind), "--json") == code

    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [each["entry"] for each in lines if "payload" in each] == given
    assert [each["entry"] for each in lines if "problem" in each] == problems
    assert "b0 does not say which is its highest entry (a directory failed)" in err
    assert f"did not give {5 - len(given)} entries of ledger 7 that it should hold" in err


def test_a_person_is_told_each_answer_beside_what_was_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert read_of(Failed()) == 6

    out, err = capsys.readouterr()
    assert out == "x\nx\nx\n"
    assert "entry 1: entry 1: may have lost it\nentry 2: entry 2: cannot be read\n" in err


def test_of_a_ledger_without_an_end_only_what_was_named_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(errors.UnknownLedgerState, match="a directory failed"):
        read_of(Failed(is_closed=False))

    assert "name the entries (`--first`, `--last`)" in capsys.readouterr().err
    assert read_of(Failed(is_closed=False), "--first", "1", "--last", "3") == 6
    assert read_of(Failed(is_closed=False), "--first", "3", "--last", "3") == 0


@pytest.mark.parametrize(
    ("last", "words", "why"),
    [
        (-1, [], "from entry 0 on: it is closed and has no entry."),
        (4, ["--first", "5"], "from entry 5 on: it is closed and ends at entry 4."),
    ],
)
def test_of_a_closed_ledger_of_which_it_should_hold_nothing_a_bookie_in_doubt_is_no_error_and_no_denial(
    last: int, words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client: Any = Stray(last=last)

    async def read(bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        raise errors.UnknownLedgerState("it may have lost entries of this ledger")

    client.read = read

    assert read_of(client, *words) == 6
    out, err = capsys.readouterr()
    assert out == ""
    assert f"not known: bookie b0 should hold no entry of ledger 7 {why}" in err
    assert "it does not say (it may have lost entries of this ledger)" in err
    assert "gave no entry" not in err
    assert read_of(client, "--first", "5", "--last", "6") == 6, "each is asked for, and none denied"


def test_the_highest_entry_that_a_bookie_says_hides_none_that_it_is_in_doubt_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It has entries 0 and 1, and cannot tell whether it had 2; 3 it denies."""
    client: Any = Stray(last=4)

    async def read(bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        if entry_id == 2:
            raise errors.UnknownLedgerState("may have lost it")
        if entry_id > 2:
            raise errors.NoSuchEntry("not here")
        digest = Digest(DigestType((await client.metadata(ledger_id)).digest_type), b"")
        return b"".join(
            digest.seal(ledger_id, EntryId(1) if entry_id == LAST_ENTRY else entry_id, EntryId(-1), 1, b"x")
        )

    client.read = read

    assert read_of(client, "--json") == 1
    assert [json.loads(line)["entry"] for line in capsys.readouterr().out.splitlines()] == [0, 1, 2]
    assert read_of(client, "--last", "2") == 6


def test_a_bookie_that_gives_none_of_very_many_entries_is_asked_no_more(capsys: pytest.CaptureFixture[str]) -> None:
    client: Any = Stray(last=2**40)

    async def read(bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        client.asked += 1
        raise errors.UnknownLedgerState("a directory failed")

    client.read = read

    assert read_of(client, "--json") == 6
    assert client.asked == replicas.TROUBLES_MAX + 1
    assert f"`--first {replicas.TROUBLES_MAX}` goes on behind them" in capsys.readouterr().err


@pytest.mark.parametrize("first", [0, 3, 4, 5, 11, 99])
def test_the_listed_entries_from_any_entry_on(first: int) -> None:
    groups = [(0, 0, 2, 0), (4, 16, 2, 4), (90, 90, 1, 0)]
    every = [0, 1, 4, 5, 8, 9, 12, 13, 16, 17, 90]

    assert list(replicas._listed(groups, first, 95)) == [number for number in every if number >= first]


class Together(Stray):
    """A client whose bookies answer when all of them are asked; b2 says why it does not."""

    def __init__(self) -> None:
        super().__init__()
        self.askers: list[BookieId] = []
        self.all_asked = asyncio.Event()

    async def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        bookies = BookieId("b0"), BookieId("b1"), BookieId("b2")
        made = new_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2, bookies=bookies)
        return made.with_ensemble(EntryId(2), bookies[::-1]).closed(EntryId(self.last), 1)

    async def list_groups(self, bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int, int, int]]:
        self.askers.append(bookie_id)
        if len(self.askers) == 3:
            self.all_asked.set()
        async with asyncio.timeout(10):
            await self.all_asked.wait()
        if bookie_id == "b2":
            raise errors.RequestTimedOut("b2 did not answer in time")
        return [(0, 0, 5, 0)]


def test_a_ledger_check_asks_all_bookies_together_and_each_once() -> None:
    """Three that do not answer cost five seconds each, and again for each of a ledger's segments."""
    client: Any = Together()

    async def rows() -> list[dict[str, Any]]:
        metadata = await client.metadata(LedgerId(7))
        return await replicas.check(client, metadata, LedgerId(7), reads=False, listed=output.LISTED)

    found = [(row["firstEntry"], row["bookie"], row["held"], row["problem"]) for row in asyncio.run(rows())]

    assert sorted(client.askers) == ["b0", "b1", "b2"]
    assert found == [
        *((0, "b0", 2, ""), (0, "b1", 2, ""), (0, "b2", None, "b2 did not answer in time")),
        *((2, "b2", None, "b2 did not answer in time"), (2, "b1", 3, ""), (2, "b0", 3, "")),
    ]


class Liar:
    """A client whose ledger is closed at 2^40 and whose bookies claim 2^31 entries of it, and have none."""

    def __init__(self) -> None:
        self.bookies = self
        self.asked = 0
        self.last = 2**40 - 1

    async def metadata(self, ledger_id: LedgerId) -> LedgerMetadata:
        bookies = BookieId("b0"), BookieId("b1"), BookieId("b2")
        made = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=bookies)
        return made.closed(EntryId(self.last), 1)

    async def list_groups(self, bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int, int, int]]:
        return [(0, 0, 2**31, 0)]

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.asked += 1
        raise errors.NoSuchEntry("not here")


async def checked(liar: Any) -> list[dict[str, Any]]:
    metadata = await liar.metadata(LedgerId(7))
    return await replicas.check(liar, metadata, LedgerId(7), reads=True, listed=output.LISTED)


def test_a_ledger_check_of_a_record_and_lists_beyond_measure_ends_and_names_the_first_missing() -> None:
    liar: Any = Liar()

    rows = asyncio.run(checked(liar))

    assert [row["outcome"] for row in rows] == ["damage"] * 3
    assert sum(row["expected"] for row in rows) == 2 * 2**40
    assert sum(row["held"] for row in rows) == 2 * 2**31
    assert {row["problem"] for row in rows} <= {f"first missing entry {2**31 + more}" for more in range(3)}


def test_a_ledger_check_reads_no_list_that_cannot_be_true_to_its_end() -> None:
    liar: Any = Liar()
    liar.last = 2**31 - 1

    rows = asyncio.run(checked(liar))

    assert [row["outcome"] for row in rows] == ["damage"] * 3
    assert all("and does not have it" in row["problem"] for row in rows)
    assert all("given up after" in row["problem"] for row in rows)
    assert liar.asked < 10_000


class Timed(Stray):
    """A client of one bookie that notes of which answers somebody would be told that they are waited for."""

    def __init__(self) -> None:
        super().__init__(last=1)
        self.told: list[str] = []

    def note(self, what: str) -> None:
        timers = [one for one in threading.enumerate() if isinstance(one, threading.Timer)]
        if any(not one.finished.is_set() for one in timers):
            self.told.append(what)

    async def add(self, *_: object) -> None:
        self.note("add")

    async def info(self, bookie_id: BookieId) -> tuple[int, int]:
        self.note("info")
        return 2, 1

    async def list_groups(self, bookie_id: BookieId, ledger_id: LedgerId) -> list[tuple[int, int, int, int]]:
        self.note("list")
        return [(0, 0, 2, 0)]

    async def read(self, bookie_id: BookieId, ledger_id: LedgerId, entry_id: EntryId) -> bytes:
        self.note("highest" if entry_id == LAST_ENTRY else "entry")
        return await super().read(bookie_id, ledger_id, EntryId(max(entry_id, 0)))


async def read_from_b0(client: Any) -> None:
    metadata = await client.metadata(LedgerId(7))
    assert [each async for each in replicas.read(client, metadata, LedgerId(7), BookieId("b0"), 0, None)]


async def sanity_of_b0(client: Any) -> None:
    arguments = argparse.Namespace(bookie=BookieId("b0"), digest="CRC32C", password=b"")
    await sanity._store_on_one(client, arguments, LedgerId(7), [b"x"])


async def room_of_b0(client: Any) -> None:
    assert await cluster.room_of(client, BookieId("b0")) == (2, 1)


async def fences_of_b0(client: Any) -> None:
    await workload.probe(client, BookieId("b0"), [LedgerId(7)])


@pytest.mark.parametrize(
    ("look", "told"),
    [
        (checked, ["list"] * 3),
        (read_from_b0, ["highest"]),
        (sanity_of_b0, ["add", "entry"]),
        (room_of_b0, ["info"]),
        (fences_of_b0, ["entry", "add"]),
    ],
)
def test_only_the_wait_for_the_first_answers_of_bookies_is_told(
    look: Callable[[Any], Awaitable[object]], told: list[str]
) -> None:
    """`ledger check --read` told of it in the middle of its progress bar."""
    client = Timed()

    async def run() -> None:
        await look(client)

    asyncio.run(run())

    assert client.told == told


# ---- who says nothing ------------------------------------------------------------------------------------------------


def test_room_that_a_registered_bookie_does_not_tell_is_not_known() -> None:
    full, gone = {"state": "writable", "freeBytes": 0}, {"state": "gone", "freeBytes": None}

    assert not cluster.has_silent([full, gone])
    assert cluster.has_silent([full, {"state": "read-only", "freeBytes": None}])


class Repairing:
    """An admin port whose answers are given beforehand."""

    def __init__(self, *statuses: RepairStatus, ends_by: errors.BookieError | None = None) -> None:
        self._statuses = statuses
        self._ends_by = ends_by

    def follow(self, call: object) -> Iterator[RepairStatus]:
        yield from self._statuses
        if self._ends_by is not None:
            raise self._ends_by


@pytest.mark.parametrize(
    ("to_the_end", "statuses", "code"),
    [
        (True, (RepairStatus(done=False), RepairStatus(done=True)), 0),
        (True, (RepairStatus(done=False),), 6),
        (True, (), 6),
        (False, (RepairStatus(done=False), RepairStatus(done=True)), 6),
        (False, (RepairStatus(done=True),), 0),
        (False, (), 6),
    ],
)
def test_a_repair_whose_end_nobody_told_is_not_known(
    to_the_end: bool, statuses: tuple[RepairStatus, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    bookie: Any = Repairing(*statuses)

    assert integrity.follow(bookie, as_json=True, to_the_end=to_the_end) == code
    assert bool(capsys.readouterr().err) is (code == 6)


def test_a_bookie_that_dies_in_the_middle_of_its_repair_leaves_it_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    bookie: Any = Repairing(RepairStatus(done=False), ends_by=errors.BookieUnavailable("the admin port at b is gone"))

    assert integrity.follow(bookie, as_json=True, to_the_end=True) == 6

    assert capsys.readouterr().err == (
        "the admin port at b is gone: the bookie stopped answering before its repair was done, so nobody knows how the"
        " repair ended; ask again\n"
    )


class Teller:
    """An admin port that tells these things in turn of the filling of holes."""

    def __init__(self, *told: FillStatus | errors.BookieError) -> None:
        self._told = iter(told)

    def ask(self, call: object) -> FillStatus:
        told = next(self._told)
        if isinstance(told, errors.BookieError):
            raise told
        return told


def fill_holes(*told: FillStatus | errors.BookieError, watch: bool = True) -> int:
    bookie: Any = Teller(*told)
    return node._fill_holes(bookie, argparse.Namespace(json=False, start=False, watch=watch))


RUNNING, GONE = FillStatus(is_running=True), errors.BookieUnavailable("the admin port at b is gone")


@pytest.mark.parametrize("before", [[RUNNING], [RUNNING, replace(RUNNING, ledgers_done=1)], [RUNNING, RUNNING]])
def test_a_bookie_that_dies_while_it_fills_its_holes_leaves_them_not_known(
    before: list[FillStatus], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with 1, which is damage that is proven."""
    monkeypatch.setattr(node, "_LOOK_INTERVAL_S", 0)

    assert fill_holes(*before, GONE) == 6

    out, err = capsys.readouterr()
    assert len(out.splitlines()) == len(set(before))
    assert (
        err
        == "the admin port at b is gone: the bookie stopped answering before its look ended: ask again, with --watch\n"
    )


def test_a_watch_of_holes_ends_with_what_the_bookie_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "_LOOK_INTERVAL_S", 0)

    assert fill_holes(RUNNING, FillStatus(ended_ms_ago=5, is_whole=True)) == 0
    assert fill_holes(RUNNING, FillStatus(ended_ms_ago=5, blocked_count=1)) == 1
    assert fill_holes(RUNNING, watch=False) == 6
    with pytest.raises(errors.BookieUnavailable):
        fill_holes(GONE)


def test_a_bookie_that_was_never_reached_is_a_failure() -> None:
    bookie: Any = Repairing(ends_by=errors.BookieUnavailable("nobody is there"))

    with pytest.raises(errors.BookieUnavailable):
        integrity.follow(bookie, as_json=True, to_the_end=True)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (FillStatus(ended_ms_ago=5, is_whole=True), "whole"),
        (FillStatus(ended_ms_ago=5, blocked_count=1), "damage"),
        (FillStatus(ended_ms_ago=5, reason="cut short"), "not known"),
        (FillStatus(), "not known"),
        (FillStatus(is_running=True, is_whole=True), "not known"),
        (FillStatus(ended_ms_ago=5, is_waiting=True, is_whole=True), "not known"),
    ],
)
def test_a_bookie_is_called_whole_only_by_a_fill_that_has_ended(status: FillStatus, outcome: str) -> None:
    assert node.outcome_of(status) == outcome


class Filling:
    """An admin port that gives these statuses, one after the other."""

    def __init__(self, *statuses: FillStatus) -> None:
        self.statuses = list(statuses)
        self.asked: list[Any] = []

    def ask(self, call: Any) -> FillStatus:
        self.asked.append(call.request.action)
        return self.statuses.pop(0)


@pytest.mark.parametrize(
    ("flags", "statuses", "code", "lines"),
    [
        ((), (FillStatus(ended_ms_ago=5, is_whole=True),), 0, 1),
        ((), (FillStatus(is_running=True),), 6, 1),
        (("start",), (FillStatus(is_waiting=True),), 0, 1),
        (("start",), (FillStatus(ended_ms_ago=5, blocked_count=1),), 1, 1),
        (
            ("start", "watch"),
            (
                FillStatus(is_waiting=True, ended_ms_ago=7, is_whole=True),
                FillStatus(is_running=True, began_ms_ago=1),
                FillStatus(is_running=True, began_ms_ago=1_001),
                FillStatus(ended_ms_ago=0, blocked_count=1),
            ),
            1,
            3,
        ),
    ],
)
def test_a_fill_is_followed_to_its_end_and_told_once_a_change(
    flags: tuple[str, ...],
    statuses: tuple[FillStatus, ...],
    code: int,
    lines: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bookie: Any = Filling(*statuses)
    monkeypatch.setattr(node, "_LOOK_INTERVAL_S", 0.0)
    arguments = argparse.Namespace(json=True, start="start" in flags, watch="watch" in flags)

    assert node._fill_holes(bookie, arguments) == code
    assert len(capsys.readouterr().out.splitlines()) == lines
    assert bookie.asked[0] == (1 if "start" in flags else 2)
    assert bookie.statuses == []


@pytest.mark.parametrize(
    ("report", "code", "told"),
    [
        ({"passes_done": 1}, 0, ""),
        ({"passes_done": 0}, 6, "has not finished a pass"),
        ({"passes_done": 3, "given_up": "/ledgers: no index"}, 6, "did not look at all entries: /ledgers: no index"),
        ({"passes_done": 1, "bad_count": 2}, 1, ""),
        ({"passes_done": 1, "bad_count": 2, "given_up": "no index"}, 1, "did not look at all entries: no index"),
    ],
)
def test_a_scrub_is_whole_only_after_a_pass_that_looked_at_all(
    report: dict[str, Any], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole: dict[str, Any] = {
        "is_running": False,
        "passes_done": 0,
        "entries_checked": 9,
        "bytes_checked": 99,
        "ledger_id": 0,
        "entry_id": 0,
        "bad_count": 0,
    }
    bookie: Any = SimpleNamespace(ask=lambda _call: ScrubReport(**{**whole, **report}))

    assert node._scrub(bookie, argparse.Namespace(json=True, start=False)) == code
    said = capsys.readouterr()
    assert told in said.err
    assert bool(told) == bool(said.err)


def test_who_starts_a_scrub_is_told_where_its_outcome_will_be(capsys: pytest.CaptureFixture[str]) -> None:
    bookie: Any = SimpleNamespace(ask=lambda _call: ScrubReport(False, 0, 0, 0, LedgerId(0), EntryId(0), 0))

    assert node._scrub(bookie, argparse.Namespace(json=True, start=True)) == 0
    said = capsys.readouterr().err
    assert "asked for: `bookie node scrub` shows how far it is" in said
    assert "nothing is known yet" not in said


def test_acls_are_refused_for_a_metadata_store_that_is_no_zookeeper() -> None:
    other: Any = object()

    with pytest.raises(errors.BadInput, match="another metadata store than ZooKeeper"):
        metadata_acl.with_acls(other)


# ---- the oracle ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (errors.NoSuchEntry("every replica denies it"), (2, 0, "damage")),
        (errors.DigestMismatch("every replica is damaged"), (2, 0, "damage")),
        (errors.LedgerMissing("gone"), (2, 0, "damage")),
        (errors.BookieUnavailable("not now"), (0, 2, "not known")),
        (errors.UnknownLedgerState("limbo"), (0, 2, "not known")),
        (errors.MetadataError("no answer"), (0, 2, "not known")),
        (TimeoutError(), (0, 2, "not known")),
    ],
)
def test_the_oracle_calls_lost_only_what_is_proven_lost(error: Exception, counts: tuple[int, int, str]) -> None:
    verdict = check.CheckResult(acknowledged=2)

    verdict.failed_entries(check.AcknowledgedLedger(7, "plan", 1), [0, 1], error)

    assert (verdict.lost, verdict.unknown, verdict.outcome) == counts
    assert not verdict.is_clean


def test_the_oracle_calls_nothing_whole_that_nobody_acknowledged_or_read() -> None:
    assert check.CheckResult().outcome == "not known"
    assert check.CheckResult(acknowledged=2, verified=2).outcome == "whole"
    assert check.CheckResult(acknowledged=2, verified=1).outcome == "not known"
    assert check.CheckResult(acknowledged=2, verified=2, wrong_ends=1).outcome == "damage"
    assert check.CheckResult(acknowledged=2, verified=2, replicas_missing=1).outcome == "damage"


# ---- marks of nobody -------------------------------------------------------------------------------------------------


class Marks:
    """Java's auto-recovery, as its records tell."""

    def __init__(self, auditor: str | None, *, enabled: bool, given_up: str = "") -> None:
        self._auditor = auditor
        self._enabled = enabled
        self._given_up = given_up

    async def auditor(self) -> BookieId | None:
        return None if self._auditor is None else BookieId(self._auditor)

    async def is_enabled(self) -> bool:
        return self._enabled

    async def given_up(self) -> str:
        return self._given_up


@pytest.mark.parametrize(
    ("auditor", "enabled", "given_up", "word"),
    [
        (None, True, "", "no bookie audits"),
        ("b1", False, "", "switched off"),
        ("b1", True, "audit: no right", "may not be marked: audit: no right"),
        ("b1", True, "", ""),
    ],
)
def test_no_marks_are_no_proof_while_nobody_makes_them(
    auditor: str | None, enabled: bool, given_up: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    marks = Marks(auditor, enabled=enabled, given_up=given_up)

    is_blind = asyncio.run(autorecovery.tell_if_nobody_looks(marks))

    said = capsys.readouterr().err
    assert is_blind is bool(word)
    assert word in said
    assert bool(said) is bool(word)

"""Cookies byte for byte (spec/metadata.md#M28), what a mismatch says, and the record beside the cookie."""

import dataclasses
import json
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.metadata import cookie
from bookie.metadata.cookie import Cookie, IncarnationRecord

JAVA = rb"""5
bookieHost: "bookie-0.bookie.ns.svc.cluster.local:3181"
journalDir: "/data/journal"
ledgerDirs: "2\t/data/l0\t/data/l1"
instanceId: "6d6c8a6e-3a7f-4a0e-9f0e-0d1c2b3a4f5e"
indexDirs: "1\t/data/idx"
"""
MINE = Cookie(
    bookie_id=BookieId("bookie-0.bookie.ns.svc.cluster.local:3181"),
    journal_dirs=("/data/journal",),
    ledger_dirs=("/data/l0", "/data/l1"),
    index_dirs=("/data/idx",),
    instance_id="6d6c8a6e-3a7f-4a0e-9f0e-0d1c2b3a4f5e",
)


def test_a_cookie_is_written_byte_for_byte_as_java_writes_it() -> None:
    assert cookie.dump_cookie(MINE) == JAVA


def test_a_cookie_of_java_is_read() -> None:
    assert cookie.load_cookie(JAVA) == MINE


def test_absent_index_and_instance_are_not_written() -> None:
    written = cookie.dump_cookie(dataclasses.replace(MINE, index_dirs=(), instance_id=""))

    assert b"indexDirs" not in written
    assert b"instanceId" not in written
    assert cookie.load_cookie(written).index_dirs == ()


def test_the_plain_layout_of_old_is_read() -> None:
    loaded = cookie.load_cookie(b"3\nbk1:3181\n/j\n2\t/l0\t/l1\n")

    assert (loaded.bookie_id, loaded.ledger_dirs, loaded.layout_version) == ("bk1:3181", ("/l0", "/l1"), 3)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"abc",
        b"1\nx\n",
        b"2\nx\n",
        b"3\nbk\n",
        b'5\nbookieHost: "b"\n',
        JAVA + b"x: 1\n",
        JAVA.replace(b"2\\t", b"3\\t"),
        b"9" * 5000 + b"\n",
        b"3\nbk1:3181\n/j\n\xc2\xb2\t/l0\t/l1\n",
    ],
)
def test_a_broken_cookie_is_refused_as_bad_input(broken: bytes) -> None:
    with pytest.raises(errors.BadInput):
        cookie.load_cookie(broken)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"bookie_id": BookieId("other")}, "bookie id"),
        ({"instance_id": "else"}, "instance id"),
        ({"instance_id": ""}, "instance id"),
        ({"journal_dirs": ("/data/journal/",)}, "journal"),
        ({"ledger_dirs": ("/data/l1", "/data/l0")}, "ledger directories"),
        ({"index_dirs": ()}, "index"),
    ],
)
def test_each_difference_is_named(change: dict[str, object], word: str) -> None:
    reason = cookie.mismatch(MINE, dataclasses.replace(MINE, **change))  # type: ignore[arg-type]

    assert reason is not None
    assert word in reason


def test_a_blank_index_stands_for_the_ledger_directories() -> None:
    blank = dataclasses.replace(MINE, index_dirs=())
    same = dataclasses.replace(MINE, index_dirs=MINE.ledger_dirs)

    assert cookie.mismatch(blank, same) is None


def test_an_older_layout_number_is_no_mismatch() -> None:
    assert cookie.mismatch(MINE, dataclasses.replace(MINE, layout_version=4)) is None


def test_the_incarnation_record_survives_a_round_trip_and_refuses_junk() -> None:
    record = IncarnationRecord("instance", Incarnation(2), BootEpoch(9), "grant-1", granted_by="local: ada@bookie-1")

    assert cookie.load_incarnation(cookie.dump_incarnation(record)) == record
    older = b'{"instance_id": "instance", "incarnation": 2, "boot_epoch": 9, "grant_id": "grant-1"}'
    assert cookie.load_incarnation(older) == dataclasses.replace(record, granted_by="")
    noted = dataclasses.replace(record, cookie_created_zxid=2**40, cookie_version=3)
    assert cookie.load_incarnation(cookie.dump_incarnation(noted)) == noted
    infinite = b'{"instance_id": "x", "incarnation": Infinity, "boot_epoch": 1}'
    wrong = infinite.replace(b"Infinity", b'"y"')
    for junk in (b"", b"[]", b"{}", wrong, infinite, b"\xff", b"[" * 100_000):
        with pytest.raises(errors.BadInput):
            cookie.load_incarnation(junk)


def test_an_older_release_reads_the_record_of_a_later_one() -> None:
    """What it knows says what it said; what it does not know it passes over, and drops when it writes the record."""
    record = IncarnationRecord("instance", Incarnation(2), BootEpoch(9), "grant-1", 4, "boot", "local: ada@bookie-1")
    noted = dataclasses.replace(record, cookie_created_zxid=2**40, cookie_version=3)
    of_before = {key: value for key, value in dataclasses.asdict(record).items() if not key.startswith("cookie_")}

    assert of_before.items() <= json.loads(cookie.dump_incarnation(noted)).items()
    assert cookie.load_incarnation(json.dumps(of_before | {"of_a_later_release": 1}).encode()) == record


SHORT = Cookie(BookieId("b1"), ("/j",), ("/l1", "/l2"), ("/i1", "/i2"), "cluster")
PLAIN = Cookie(BookieId("b1"), ("/j",), ("/l1",), (), "cluster")


@pytest.mark.parametrize(
    ("older", "changes", "added"),
    [
        (SHORT, {}, ()),
        (SHORT, {"ledger_dirs": ("/l1", "/l2", "/l3"), "index_dirs": ("/i1", "/i2", "/i3")}, ("/l3", "/i3")),
        (SHORT, {"ledger_dirs": ("/l1", "/l2", "/l3"), "index_dirs": ("/i1", "/i2", "/l3")}, ("/l3",)),
        (PLAIN, {"ledger_dirs": ("/l1", "/l2")}, ("/l2",)),
        (PLAIN, {"ledger_dirs": ("/l1", "/l2"), "index_dirs": ("/l1", "/l2")}, ("/l2",)),
        # Anything else is another bookie's cookie, or a change that would lose data.
        (SHORT, {"ledger_dirs": ("/l1", "/l2", "/l3")}, ()),
        (SHORT, {"ledger_dirs": ("/l3", "/l1", "/l2"), "index_dirs": ("/i1", "/i2", "/i3")}, ()),
        (SHORT, {"ledger_dirs": ("/l1", "/l2", "/l3"), "index_dirs": ("/i2", "/i1", "/i3")}, ()),
        (SHORT, {"ledger_dirs": ("/l1",), "index_dirs": ("/i1",)}, ()),
        (SHORT, {"ledger_dirs": ("/l1", "/l2", "/j"), "index_dirs": ("/i1", "/i2", "/i3")}, ()),
        (SHORT, {"ledger_dirs": ("/l1", "/l2", "/l3"), "index_dirs": ("/i1", "/i2", "/l1")}, ()),
        (PLAIN, {"ledger_dirs": ("/l1", "/l2"), "index_dirs": ("/i1", "/i2")}, ()),
        (PLAIN, {"ledger_dirs": ("/l1", "/l2"), "journal_dirs": ("/j", "/j2")}, ()),
        (PLAIN, {"ledger_dirs": ("/l1", "/l2"), "bookie_id": BookieId("b2")}, ()),
        (PLAIN, {"ledger_dirs": ("/l1", "/l2"), "instance_id": "another"}, ()),
    ],
)
def test_directories_are_added_only_at_the_end(older: Cookie, changes: dict[str, Any], added: tuple[str, ...]) -> None:
    assert cookie.added(older, dataclasses.replace(older, **changes)) == added


def test_the_note_that_nobody_waits_for_a_bookies_disks_is_read_again_and_gone_with_the_next_writer() -> None:
    record = cookie.dump_incarnation(IncarnationRecord("instance", Incarnation(2), BootEpoch(9)))
    noted = cookie.forgotten(record)

    assert cookie.is_forgotten(noted)
    assert cookie.load_incarnation(noted) == cookie.load_incarnation(record)
    for other in (record, cookie.dump_incarnation(cookie.load_incarnation(noted)), noted.replace(b"true", b"1"), b"x"):
        assert not cookie.is_forgotten(other)

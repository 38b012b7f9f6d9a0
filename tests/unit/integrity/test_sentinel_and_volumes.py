"""The sentinel's bytes, and what one volume's files mean next to the metadata store."""

import asyncio
import dataclasses
import json
import types
from typing import Any, cast

import pytest

import integrity_support as build
from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.integrity import sentinel, volumes
from bookie.integrity.options import NONE, IntegrityOptions
from bookie.integrity.volumes import ConfiguredVolume, VolumeExpectation
from bookie.metadata import cookie
from bookie.metadata.cookie import Cookie
from bookie.ports import Host, World
from bookie.ports.admin import Contents, VolumeReport
from bookie.ports.disk import Mount
from bookie.storage.options import StorageOptions

MASTER = Cookie(build.ME, ("/data/journal",), ("/data/ledgers",), ("/data/index",), build.INSTANCE)
JOURNAL = ConfiguredVolume("journal", "/data/journal")
EXPECTED = VolumeExpectation(build.ME, build.INSTANCE, MASTER, build.RECORD)


def judge(found: Cookie | str = MASTER, expected: VolumeExpectation = EXPECTED, **changes: Any) -> Contents:
    return volumes.judge_sentinel(JOURNAL, build.sentinel_of("journal", **changes), found, expected)[0]


def test_a_sentinel_survives_a_round_trip() -> None:
    mark = build.sentinel_of(grant_id="grant-1")

    assert sentinel.load(sentinel.dump(mark)) == mark


def test_every_cut_and_every_flipped_bit_of_a_sentinel_is_noticed() -> None:
    data = sentinel.dump(build.sentinel_of())

    for end in range(len(data) - 1):
        with pytest.raises(errors.BadInput):
            sentinel.load(data[:end])
    for index in range(len(data) - 1):
        flipped = data[:index] + bytes([data[index] ^ 1]) + data[index + 1 :]
        with pytest.raises(errors.BadInput):
            sentinel.load(flipped)


def test_a_volume_of_this_life_and_boot_is_valid() -> None:
    assert judge() is Contents.VALID


def test_a_volume_one_boot_ahead_is_valid_because_sentinels_are_written_first() -> None:
    assert judge(boot_epoch=BootEpoch(build.RECORD.boot_epoch + 1)) is Contents.VALID


@pytest.mark.parametrize(
    ("changes", "contents"),
    [
        ({"boot_epoch": BootEpoch(6)}, Contents.STALE),
        ({"incarnation": Incarnation(2)}, Contents.STALE),
        ({"boot_epoch": BootEpoch(9)}, Contents.UNKNOWN),
        ({"incarnation": Incarnation(4)}, Contents.UNKNOWN),
        ({"bookie_id": BookieId("bookie-1")}, Contents.FOREIGN),
        ({"instance_id": "another cluster"}, Contents.FOREIGN),
        ({"role": "ledgers"}, Contents.FOREIGN),
        ({"volume": "journal-2"}, Contents.FOREIGN),
        ({"grant_id": "grant-3"}, Contents.REGENERATING),
        ({"grant_id": "grant-4", "incarnation": Incarnation(4)}, Contents.REGENERATING),
        ({"grant_id": "another", "incarnation": Incarnation(3)}, Contents.STALE),
        ({"grant_id": "grant-2", "incarnation": Incarnation(2)}, Contents.STALE),
    ],
)
def test_each_disagreement_with_the_metadata_store_has_its_meaning(changes: dict[str, Any], contents: Contents) -> None:
    assert judge(**changes) is contents


def test_a_sentinel_without_its_cookie_is_an_emptied_volume() -> None:
    assert judge("current/VERSION is missing") is Contents.UNKNOWN


def test_a_cookie_of_somebody_else_under_our_sentinel_is_foreign() -> None:
    assert judge(dataclasses.replace(MASTER, bookie_id=BookieId("b9"))) is Contents.FOREIGN
    assert judge(dataclasses.replace(MASTER, instance_id="other")) is Contents.FOREIGN


def test_changed_directories_of_a_bookie_with_data_are_not_taken_for_repairable() -> None:
    """Java re-stamps over them (spec/bp46.md#R13)."""
    assert judge(dataclasses.replace(MASTER, ledger_dirs=("/data/ledgers", "/data/more"))) is Contents.UNKNOWN


LONGER = dataclasses.replace(MASTER, ledger_dirs=("/data/ledgers", "/l2"), index_dirs=("/data/index", "/i2"))
LEDGERS_2 = ConfiguredVolume("ledgers", "/l2")
GROWING = VolumeExpectation(build.ME, build.INSTANCE, LONGER, build.RECORD, stored=MASTER, added=("/l2", "/i2"))
GROWN = VolumeExpectation(build.ME, build.INSTANCE, LONGER, build.RECORD, stored=LONGER)
REFUSED = VolumeExpectation(build.ME, build.INSTANCE, LONGER, build.RECORD, stored=MASTER)


@pytest.mark.parametrize(
    ("found", "expected", "contents"),
    [
        (MASTER, GROWING, Contents.VALID),
        (MASTER, GROWN, Contents.VALID),  # a boot was cut after the cookie's change and before the directories'
        (LONGER, GROWN, Contents.VALID),
        (MASTER, REFUSED, Contents.UNKNOWN),
        (LONGER, EXPECTED, Contents.UNKNOWN),
        (dataclasses.replace(MASTER, journal_dirs=("/data/other",)), GROWING, Contents.UNKNOWN),
        (dataclasses.replace(LONGER, ledger_dirs=("/l2", "/data/ledgers")), GROWN, Contents.UNKNOWN),
    ],
)
def test_an_older_cookie_on_a_directory_is_right_where_directories_are_added(
    found: Cookie, expected: VolumeExpectation, contents: Contents
) -> None:
    assert judge(found, expected) is contents


def test_an_old_volume_from_before_directories_were_added_is_stale() -> None:
    assert judge(MASTER, GROWN, boot_epoch=BootEpoch(6)) is Contents.STALE


@pytest.mark.parametrize(
    ("changes", "expected", "contents"),
    [
        ({}, GROWING, Contents.ADDED),
        ({"boot_epoch": BootEpoch(8)}, GROWING, Contents.ADDED),
        ({"boot_epoch": BootEpoch(2)}, GROWING, Contents.ADDED),  # an attempt of long ago
        ({"incarnation": Incarnation(2), "boot_epoch": BootEpoch(99)}, GROWING, Contents.ADDED),
        ({"boot_epoch": BootEpoch(9)}, GROWING, Contents.UNKNOWN),
        ({"incarnation": Incarnation(4)}, GROWING, Contents.UNKNOWN),
        ({}, GROWN, Contents.VALID),
        ({"boot_epoch": BootEpoch(6)}, GROWN, Contents.STALE),
        ({}, REFUSED, Contents.UNKNOWN),
        ({}, dataclasses.replace(GROWING, record=None), Contents.UNKNOWN),
        ({"grant_id": ""}, GROWING, Contents.UNKNOWN),  # it was whole: the cookie was set back
        ({"grant_id": "grant-4", "incarnation": Incarnation(4)}, GROWING, Contents.REGENERATING),
        ({"bookie_id": BookieId("b9")}, GROWING, Contents.FOREIGN),
    ],
)
def test_what_the_sentinel_of_an_added_volume_says(
    changes: dict[str, Any], expected: VolumeExpectation, contents: Contents
) -> None:
    mark = build.sentinel_of("l2", **{"role": "ledgers", "grant_id": sentinel.ADDING, **changes})

    assert volumes.judge_sentinel(LEDGERS_2, mark, LONGER, expected)[0] is contents


@pytest.mark.parametrize(
    ("incarnation", "grant_id", "contents"),
    [
        (3, "grant-3", Contents.UNKNOWN),
        (3, "grant-2", Contents.STALE),  # of an attempt that another grant's overtook
        (4, "grant-4", Contents.REGENERATING),
    ],
)
def test_a_cookie_that_was_set_back_in_a_regeneration_adds_no_volume(
    incarnation: int, grant_id: str, contents: Contents
) -> None:
    """Once a regeneration reached the cookie, that named the volume; before, it is one that was added beside a loss."""
    mark = build.sentinel_of("l2", role="ledgers", grant_id=grant_id, incarnation=Incarnation(incarnation))

    assert volumes.judge_sentinel(LEDGERS_2, mark, LONGER, GROWING)[0] is contents


def test_without_a_record_the_sentinel_alone_decides_nothing_worse() -> None:
    assert judge(expected=dataclasses.replace(EXPECTED, record=None)) is Contents.VALID


def test_every_directory_is_one_volume_once() -> None:
    options = StorageOptions(("/data/journal",), ("/data/l0", "/data/l1"), ("/data/l0", "/data/index"))

    found = [(volume.role, volume.name) for volume in volumes.configured(options)]

    assert found == [("journal", "journal"), ("ledgers", "l0"), ("ledgers", "l1"), ("index", "index")]


class FailingDisk:
    """A directory is there, but its disk answers nothing, or not about the file `bad`."""

    def __init__(
        self, bad: str = "", error: type[errors.StorageFailed] = errors.StorageFailed, silent: str = ""
    ) -> None:
        self.bad = bad
        self.silent = silent
        self.error = error

    async def mount(self, directory: str) -> Mount:
        facts = {"device": "8:1", "fsid": "f", "fstype": "ext4", "root": "/", "source": "/dev/sda1"}
        is_silent = directory == self.silent
        facts |= {"fsid": ""} if is_silent else {}
        known = Mount(directory, exists=True, is_mount_point=True, total_bytes=1, shares_node_disk=False, **facts)
        return dataclasses.replace(known, is_silent=is_silent)

    async def list(self, directory: str) -> list[str]:
        if not self.bad:
            raise self.error(f"{directory}: list: Input/output error")
        return [] if directory == LEDGERS_2.path else ["BOOKIE", "current"]

    async def read(self, path: str) -> bytes:
        if path.endswith(self.bad):
            raise self.error(f"{path}: read: Input/output error")
        role = volumes.JOURNAL if path.startswith("/data/journal") else volumes.LEDGERS
        mark = build.sentinel_of(path.split("/")[2], role=role)
        return sentinel.dump(mark) if path.endswith(sentinel.NAME) else cookie.dump_cookie(EXPECTED.master)


def looked_at(
    disk: FailingDisk, expected: VolumeExpectation = EXPECTED, *, ledgers: str = "/data/ledgers"
) -> tuple[VolumeReport, ...]:
    world = cast(World, types.SimpleNamespace(disk=disk, host=Host()))
    storage = StorageOptions(("/data/journal",), (ledgers,))
    return asyncio.run(volumes.inspect(world, storage, IntegrityOptions(volume_proof=NONE), expected))


@pytest.mark.parametrize("bad", ["", "journal/BOOKIE", "journal/current/VERSION"])
def test_a_volume_that_cannot_be_read_is_told_with_its_disks_words_and_never_taken_for_empty(bad: str) -> None:
    """spec/operator.md#V14"""
    journal = looked_at(FailingDisk(bad))[0]

    assert (journal.contents, journal.sentinel) == (Contents.UNREADABLE, None)
    assert journal.why.startswith("cannot be read: /data/journal")
    assert "Input/output error" in journal.why


@pytest.mark.parametrize("silent", ["/data/journal", LEDGERS_2.path])
def test_what_is_read_of_a_disk_that_says_nothing_of_itself_is_out_of_memory(silent: str) -> None:
    """Also where it reads as empty, or as added."""
    expected = dataclasses.replace(EXPECTED, added=(LEDGERS_2.path,))
    whole = looked_at(FailingDisk("no such file"), expected, ledgers=LEDGERS_2.path)

    found = looked_at(FailingDisk("no such file", silent=silent), expected, ledgers=LEDGERS_2.path)

    assert [one.contents for one in whole] == [Contents.VALID, Contents.ADDED]
    for one, before in zip(found, whole, strict=True):
        assert one.contents is (Contents.UNREADABLE if one.path == silent else before.contents)
        assert ("statfs: the disk does not answer" in one.why) is (one.path == silent)


def test_a_process_without_descriptors_says_nothing_about_a_disk() -> None:
    with pytest.raises(errors.OutOfResources):
        looked_at(FailingDisk(error=errors.OutOfResources))


@pytest.mark.parametrize("bad", ["journal/BOOKIE", "journal/current/VERSION"])
def test_beside_a_disk_that_does_not_answer_the_cookies_of_the_others_are_read(bad: str) -> None:
    """A volume that is to be added asks the others whether it was here before."""
    expected = dataclasses.replace(EXPECTED, added=(LEDGERS_2.path,))

    journal, added = looked_at(FailingDisk(bad), expected, ledgers=LEDGERS_2.path)

    assert (journal.contents, added.contents) == (Contents.UNREADABLE, Contents.ADDED)


@pytest.mark.parametrize("data", [b"null", b"[]", b"7", b"[" * 100_000, b"", b"\xff"])
def test_what_is_no_sentinel_at_all_is_told_as_such(data: bytes) -> None:
    with pytest.raises(errors.BadInput, match="cannot be read"):
        sentinel.load(data)


def test_a_sentinel_of_another_format_is_not_read_although_it_is_whole() -> None:
    """What a later program means by the same names is not known here."""
    fields = json.loads(sentinel.dump(build.sentinel_of()))
    del fields["check"]
    fields["format"] += 1
    whole = json.dumps({**fields, "check": sentinel._check(fields)}).encode()

    with pytest.raises(errors.BadInput):
        sentinel.load(whole)

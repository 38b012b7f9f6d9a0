"""Sentinels and cookies on volumes: what they say, that a power cut leaves them, and which volumes are being added."""

from __future__ import annotations

import dataclasses

import pytest

import integrity_support as build
from bookie.integrity import sentinel, stamps, volumes
from bookie.integrity.identity import StoredIdentity
from bookie.integrity.inspection import Inspection
from bookie.integrity.verdict import Decision
from bookie.metadata import cookie
from bookie.metadata.cookie import Cookie
from bookie.ports.admin import Contents, Verdict
from bookie.sim.node import ProcessEnd, Simulation
from bookie.storage.options import StorageOptions

STORAGE = StorageOptions(journal_dirs=("/data/journal",), ledger_dirs=("/data/ledgers",))
VOLUMES = volumes.configured(STORAGE)
COOKIE = Cookie(build.ME, STORAGE.journal_dirs, STORAGE.ledger_dirs, instance_id=build.INSTANCE)
SEEN = Inspection(
    identity=StoredIdentity(build.INSTANCE, None, "", -1, "", build.RECORD, 3, "/record"),
    master=COOKIE,
    volumes=tuple(
        dataclasses.replace(build.volume(one.name, Contents.EMPTY), role=one.role, path=one.path) for one in VOLUMES
    ),
    decision=Decision(Verdict.BOOTSTRAP, "it is new"),
    evidence_hash="",
    is_dirty=False,
    is_set_back=False,
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("grant_id", ["", "grant-3"])
def test_a_power_cut_leaves_what_was_written_on_every_volume(grant_id: str, seed: int) -> None:
    """Of what was not synced a power cut takes what the seed says."""
    simulation = Simulation(seed)

    async def write() -> None:
        await stamps.write_sentinels(node.world.disk, VOLUMES, SEEN, build.RECORD, grant_id=grant_id)
        await stamps.write_cookies(node.world.disk, VOLUMES, SEEN)

    async def look() -> None:
        for volume, report in zip(VOLUMES, SEEN.volumes, strict=True):
            mark = sentinel.load(bytes(await node.world.disk.read(sentinel.path(volume.path))))
            assert mark == dataclasses.replace(
                build.sentinel_of(volume.name), role=volume.role, fsid=report.mount.fsid, grant_id=grant_id
            )
            data = bytes(await node.world.disk.read(f"{volume.path}/{volumes.COOKIE_FILE}"))
            assert data == cookie.dump_cookie(COOKIE)

    async def director() -> None:
        for work, end in ((write, ProcessEnd.POWER_CUT), (look, ProcessEnd.EXIT)):
            node.begin()
            await node.do(work())
            node.end(end)

    node = simulation.node("bookie")
    simulation.run(director())


@pytest.mark.parametrize(
    ("contents", "grant_id", "is_pending"),
    [
        (Contents.ADDED, "", True),
        (Contents.REGENERATING, sentinel.ADDING, True),
        (Contents.REGENERATING, "grant-3", False),
        (Contents.VALID, "", False),
        (Contents.EMPTY, "", False),
    ],
)
def test_a_volume_is_being_added_now_or_since_a_boot_that_was_cut_off(
    contents: Contents, grant_id: str, is_pending: bool
) -> None:
    first, second = SEEN.volumes
    report = dataclasses.replace(
        second,
        contents=contents,
        sentinel=build.sentinel_of(second.name, grant_id=grant_id) if contents is not Contents.EMPTY else None,
    )
    seen = dataclasses.replace(SEEN, volumes=(first, report))

    assert stamps.pending(seen) == ((second.path,) if is_pending else ())

"""A look of auto-recovery that is broken off each time is told wherever it is asked for: nothing marked is then no sign
that every replica is there."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.cli import autorecovery as command
from bookie.client import Client
from bookie.client.options import ClientOptions
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import ENDED_TOLD_MS, AutoRecoveryDaemon
from bookie.metadata import paths
from bookie.ports.metadata_store import MetadataStore
from client_support import URI, Fleet, tell
from story_support import story

ROOT, ME = "/ledgers", BookieId("me:1")
REFUSED = "an ACL of somebody's"


class Refusing:
    """The metadata store, for a session that may not list what is at `path` while it is set."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.path = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def children(self, path: str) -> Any:
        if path == self.path:
            raise errors.MetadataDenied(REFUSED)
        return await self._store.children(path)


@contextlib.asynccontextmanager
async def recovering(fleet: Fleet, *, ended_before: str = "") -> AsyncIterator[tuple[AutoRecoveryDaemon, Refusing]]:
    """Auto-recovery over a session of its own."""
    for each in fleet.bookies:
        await fleet.store.create(f"{paths.cookies(ROOT)}/{each.id}", b"", parents=True)
    world = fleet.machine.begin(name="recovery")
    store = Refusing(await world.metadata_stores.connect(URI))
    async with Client(ClientOptions(URI), world, store=store) as client:
        daemon = AutoRecoveryDaemon(client.shared, ME, AutoRecoveryOptions(), ended_before=ended_before)
        running = asyncio.ensure_future(daemon.run())
        yield daemon, store
        daemon.request_stop()
        await running
    await store.close()


def figures(daemon: AutoRecoveryDaemon) -> dict[str, float]:
    found = (each for each in daemon.samples() if each.name == "bookie_autorecovery_given_up")
    return {dict(each.labels)["look"]: each.value for each in found}


async def reported(fleet: Fleet) -> str:
    return (await AutoRecovery(fleet.store, ROOT).reports.read())[ME].given_up


@pytest.mark.parametrize(("look", "path"), [("audit", ROOT), ("queue", paths.underreplicated_ledgers(ROOT))])
@story(tell)
async def test_a_look_that_is_broken_off_each_time_is_told_until_one_comes_to_its_end(
    fleet: Fleet, *, look: str, path: str
) -> None:
    async with recovering(fleet) as (daemon, store):
        await fleet.until(lambda: daemon.auditor.counts.audits == 1, "the first audit")
        assert (figures(daemon), await reported(fleet)) == ({"audit": 0, "queue": 0}, "")
        store.path = path
        await asyncio.sleep(1_200)

        assert figures(daemon) == {"audit": look == "audit", "queue": look == "queue"}
        assert await reported(fleet) == f"{look}: {REFUSED}"
        store.path = ""
        await asyncio.sleep(120)
        assert (figures(daemon), await reported(fleet)) == ({"audit": 0, "queue": 0}, "")


@story(tell)
async def test_nothing_marked_proves_nothing_while_the_auditor_cannot_look(fleet: Fleet) -> None:
    recovery = AutoRecovery(fleet.store, ROOT)
    async with recovering(fleet) as (daemon, store):
        store.path = ROOT
        await fleet.until(lambda: bool(daemon.auditor.counts.given_up), "an audit to be broken off")
        await asyncio.sleep(20)

        assert await recovery.auditor() == ME
        assert await recovery.given_up() == f"audit: {REFUSED}"
        assert await command.tell_if_nobody_looks(recovery)
        store.path = ""
        await asyncio.sleep(120)
        assert not await command.tell_if_nobody_looks(recovery)


@story(tell)
async def test_what_ended_the_one_before_is_told_while_this_one_may_end_by_it_too(fleet: Fleet) -> None:
    async with recovering(fleet, ended_before="KeyError: 7"):
        await asyncio.sleep(20)
        assert await reported(fleet) == "it ended, and began again: KeyError: 7"
        await asyncio.sleep(ENDED_TOLD_MS / 1_000)
        assert await reported(fleet) == ""

"""Auto-recovery beside a bookie: whatever ends it is told, it begins again, and it keeps no stop waiting."""

import asyncio
import contextlib
import dataclasses
from typing import Any

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.client.options import ClientOptions
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.ports import World
from bookie.ports.metadata_store import MetadataStore, MetadataStores
from bookie.server.autorecovery import DOOR, OwnAutoRecovery
from client_support import URI, Fleet, tell
from story_support import story

ME = BookieId("b0")


class NeverEnding:
    """A session with a metadata store that gives no answer to its end."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def close(self) -> None:
        await asyncio.Event().wait()


class Stumbling:
    """Metadata stores of which the first attempts to connect fail."""

    def __init__(self, stores: MetadataStores, *failures: Exception) -> None:
        self._stores = stores
        self._failures = list(failures)
        self.attempts = 0

    async def connect(self, uri: str, *, session_timeout_ms: int = 30_000) -> Any:
        self.attempts += 1
        if self._failures:
            raise self._failures.pop(0)
        return NeverEnding(await self._stores.connect(uri, session_timeout_ms=session_timeout_ms))


class Told:
    """The errors that were reported."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, Exception]] = []

    def failed(self, door: str, error: Exception, peer: str = "") -> None:
        self.errors.append((door, error))

    def refused(self, door: str, reason: object, peer: str = "") -> None:
        raise AssertionError("nobody asked for anything")


def beside(world: World, *failures: Exception) -> tuple[OwnAutoRecovery, Stumbling, Told]:
    stores, told = Stumbling(world.metadata_stores, *failures), Told()
    world = dataclasses.replace(world, metadata_stores=stores)
    return OwnAutoRecovery(ME, AutoRecoveryOptions(), ClientOptions(URI), world, told), stores, told


def figures(own: OwnAutoRecovery) -> dict[str, float]:
    return {each.name.removeprefix("bookie_autorecovery_"): each.value for each in own.samples()}


@story(tell)
async def test_it_begins_once_the_bookie_is_registered_and_again_after_errors_of_any_kind(fleet: Fleet) -> None:
    slip = ZeroDivisionError("a defect of ours")
    own, stores, told = beside(fleet.machine.begin(name="b0"), errors.RefusedToStart("no"), slip)
    registered = asyncio.Event()
    running = asyncio.ensure_future(own.run(registered))
    await fleet.machine.loop.sleep_ns(60_000_000_000)
    assert stores.attempts == 0

    registered.set()
    await fleet.until(lambda: figures(own)["runs"] == 1, "the third attempt")

    assert (stores.attempts, figures(own)["failures_total"]) == (3, 2)
    assert told.errors == [(DOOR, slip)], "what others cause is a line in the log, a defect of ours is counted"
    await fleet.until(lambda: figures(own)["is_auditor"] == 1, "the vote")
    running.cancel()


@story(tell)
async def test_what_ended_it_is_told_by_the_one_that_begins_again(fleet: Fleet) -> None:
    """Each one led for a moment, so that there was always an auditor, and no look ever came to its end."""
    own, _, _ = beside(fleet.machine.begin(name="b0"), ExceptionGroup("tasks", [KeyError("a defect of ours")]))
    registered = asyncio.Event()
    registered.set()
    running = asyncio.ensure_future(own.run(registered))
    await fleet.until(lambda: figures(own)["runs"] == 1, "the second attempt")
    await fleet.machine.loop.sleep_ns(20_000_000_000)

    (told,) = (await AutoRecovery(fleet.store, "/ledgers").reports.read()).values()

    assert told.given_up == "it ended, and began again: KeyError: 'a defect of ours'"
    running.cancel()


@story(tell)
async def test_a_metadata_store_that_does_not_hear_of_the_end_keeps_no_stop_waiting(fleet: Fleet) -> None:
    own, _, _ = beside(fleet.machine.begin(name="b0"))
    registered = asyncio.Event()
    registered.set()
    running = asyncio.ensure_future(own.run(registered))
    await fleet.until(lambda: figures(own)["runs"] == 1, "its begin")

    running.cancel()
    await fleet.until(running.done, "its end", timeout_s=2)

    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert figures(own) == {"runs": 0, "failures_total": 0}


@story(tell)
async def test_what_no_look_has_counted_is_no_figure_and_least_of_all_a_zero(fleet: Fleet) -> None:
    """Neither before the first look nor once another process looks: whoever watches it would be told that all is well,
    or of what was mended long ago."""
    of_an_audit, of_the_queue = {"records_unreadable", "ledgers_misplaced"}, {"ledgers_waiting"}
    own, _, _ = beside(fleet.machine.begin(name="b0"))
    registered = asyncio.Event()
    registered.set()
    running = asyncio.ensure_future(own.run(registered))
    await fleet.until(lambda: figures(own)["runs"] == 1, "its begin")
    first = figures(own)
    assert first["audits_total"] == 0
    assert not (of_an_audit | of_the_queue) & first.keys()

    await fleet.until(lambda: figures(own)["audits_total"] == 1, "the first audit")
    await fleet.until(lambda: of_the_queue <= figures(own).keys(), "the first look at the queue")
    assert {figures(own)[name] for name in of_an_audit | of_the_queue} == {0}
    running.cancel()

"""Our auditor, our worker, or both, in a process that stands for Java's objects in an official test.

python replacement_child.py OPTIONS; OPTIONS is JSON: uri, name, roles (auditor, worker, both), session_ms, and
`options` of AutoRecoveryOptions. A question a line on standard input, one line of JSON for each; ends like
`bookie autorecovery run` at a stop signal, and at the end of input.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from bookie import connect
from bookie.base import ids
from bookie.client.repair import election
from bookie.client.repair.autorecovery import AutoRecovery
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import AutoRecoveryDaemon
from bookie.client.repair.marks import Marks
from bookie.client.repair.membership import Membership
from bookie.client.shared import Shared
from bookie.client.tasks import Tasks
from bookie.metadata import paths
from bookie.ports.metadata_store import find, find_children
from bookie.runtime import log, loop

POLL_S = 0.02


class Child:
    """Answers a test's questions about `daemon`, which runs beside it."""

    def __init__(self, shared: Shared, daemon: AutoRecoveryDaemon, told: dict[str, Any]) -> None:
        self._recovery = AutoRecovery(shared.ledgers.store, shared.ledgers.root)
        self._members = Membership(shared, self._recovery, AutoRecoveryOptions(**told["options"]))
        self._shared = shared
        self._daemon = daemon
        self._told = told

    async def answer(self, question: str) -> object:
        """Return what there is to say. Raises BookieError."""
        match question:
            case "begin":
                if self._told["roles"] != "worker":
                    await self._until_voted()
            case "leads":
                return self._daemon.auditor.counts.is_leading
            case "who":
                return await self._recovery.auditor()
            case "delay":
                return await self._recovery.delay_s()
            case "waits":
                return await self._waits()
            case "audit":
                return await self._audit()
        return None

    async def _until_voted(self) -> None:
        """By sessions: a test may start two of one name."""
        store, votes = self._shared.ledgers.store, paths.auditor_votes(self._shared.ledgers.root)

        async def has_voted() -> bool:
            names = sorted(await find_children(store, votes), key=election.order)
            found = [await find(store, f"{votes}/{name}") for name in names]
            owners = [each.owner for each in found if each is not None]
            is_first = owners[:1] == [store.session_id]
            return store.session_id in owners and self._daemon.auditor.counts.is_leading == is_first

        await _until(has_voted)

    async def _waits(self) -> bool:
        """Return whether a bookie is away that does not count as lost yet."""
        await self._members.look()
        ledgers = self._shared.ledgers
        known = [ids.BookieId(name) for name in await find_children(ledgers.store, paths.cookies(ledgers.root))]
        return any(each not in self._shared.watcher.records and each not in self._members.lost for each in known)

    async def _audit(self) -> int:
        """Ask for an audit as Java's shell does, and wait for one that began afterwards."""
        counts = self._daemon.auditor.counts

        async def has_delay() -> bool:
            return await self._recovery.delay_s() is not None

        async def has_looked() -> bool:
            return not counts.is_leading or counts.audits > before or not await self._recovery.is_enabled()

        await _until(has_delay)
        before = counts.audits
        await self._recovery.set_delay_s(await self._recovery.delay_s() or 0)
        await _until(has_looked)
        return counts.audits - before


async def _until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; the test that asked has a deadline."""
    poll = asyncio.Event()
    while not await is_so():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(poll.wait(), POLL_S)


async def run(told: dict[str, Any]) -> None:
    me, options = ids.parse_bookie_id(told["name"]), AutoRecoveryOptions(**told["options"])
    async with connect.connect(told["uri"], session_timeout_ms=told["session_ms"]) as client, Tasks() as tasks:
        daemon = AutoRecoveryDaemon(client.shared, me, options)
        await Marks(client.shared.ledgers.store, client.shared.ledgers.root).prepare()
        stopped = asyncio.Event()
        loop.on_stop_signals(stopped.set)
        if told["roles"] != "worker":
            tasks.spawn(daemon.auditor.run(), "auditor")
        if told["roles"] != "auditor":
            tasks.spawn(daemon.worker.run(), "worker")
        tasks.spawn(_answers(Child(client.shared, daemon, told), stopped), "answers")
        await stopped.wait()
        await daemon.auditor.withdraw()


async def _answers(child: Child, stopped: asyncio.Event) -> None:
    questions = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    while line := await questions.readline():
        print(json.dumps(await child.answer(line.decode().strip())), flush=True)
    stopped.set()


if __name__ == "__main__":
    log.set_up()
    asyncio.run(run(json.loads(sys.argv[1])))

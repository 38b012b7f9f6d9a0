"""Runs auto-recovery inside a bookie's process (Java's autoRecoveryDaemonEnabled), beside serving and apart from it.

It has a client and a session with the metadata store of its own: a look at a million ledgers must not delay the
bookie's registration, and who leads or holds a lock loses that with this session alone. It begins once the bookie is
registered, in every mode: a bookie that is read-only, full or leaving can still see to it that the others are whole. It
never touches this bookie's store: a copy for this bookie comes in through the data port, as anybody's.

Must never: end the bookie, or keep its stop waiting. Whatever ends it is told and counted, and it begins again after a
pause. CRASH: vote and locks end with the session (`client.repair`).
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterator

from bookie.base.errors import BookieError
from bookie.base.ids import BookieId
from bookie.base.units import NS_PER_MS
from bookie.client.client import Client
from bookie.client.options import ClientOptions
from bookie.client.repair import daemon as daemons
from bookie.client.repair.autorecovery_options import AutoRecoveryOptions
from bookie.client.repair.daemon import AutoRecoveryDaemon
from bookie.ports import World
from bookie.ports.doors import Doors
from bookie.ports.metrics import Sample
from bookie.ports.time_limit import TimeLimit

log = logging.getLogger(__name__)

DOOR = "auto-recovery"
# Between two attempts, doubled up to the second; one that lived for longer than the second begins with the first again.
_PAUSE_MS, _PAUSE_MS_MAX = 5_000, 300_000
# Of the end of its session, at a stop: a metadata store that gives no answer ends it at its time-out.
_END_SESSION_S = 1.0
assert daemons.ENDED_TOLD_MS >= _PAUSE_MS_MAX


class OwnAutoRecovery:
    """The auto-recovery of one bookie. `me`: its name in the vote, the bookie's id as in Java."""

    def __init__(
        self, me: BookieId, options: AutoRecoveryOptions, client_options: ClientOptions, world: World, doors: Doors
    ) -> None:
        self._me = me
        self._options = options
        self._client_options = client_options
        self._world = world
        self._doors = doors
        self._bytes_per_s = options.bytes_per_s or None
        self._daemon: AutoRecoveryDaemon | None = None
        self._failures = 0
        self._ended = ""  # why, the last time

    def set_copy_rate(self, bytes_per_s: int | None) -> None:
        """Copy at another rate from now on; None: no limit."""
        self._bytes_per_s = bytes_per_s
        if self._daemon is not None:
            self._daemon.worker.set_copy_rate(bytes_per_s)

    async def run(self, registered: asyncio.Event) -> None:
        """Audit and mend until cancelled. Raises nothing of what auto-recovery may meet."""
        await registered.wait()
        clock, pause_ms = self._world.clock, _PAUSE_MS
        while True:
            began_ns = clock.monotonic_ns()
            try:
                await self._run_once()
            except BookieError as error:  # a fatal one too: it is fatal for auto-recovery
                log.warning("auto-recovery of this bookie ended, it begins again reason=%s", error)
                self._ended = str(error) or type(error).__name__
            except Exception as error:
                self._doors.failed(DOOR, error)
                self._ended = _told(error)
            self._failures += 1
            now_ns = clock.monotonic_ns()
            if now_ns - began_ns > _PAUSE_MS_MAX * NS_PER_MS:
                pause_ms = _PAUSE_MS
            await clock.sleep_until(now_ns + pause_ms * NS_PER_MS)
            pause_ms = min(2 * pause_ms, _PAUSE_MS_MAX)

    async def _run_once(self) -> None:
        options = self._client_options
        stores = self._world.metadata_stores
        store = await stores.connect(options.metadata_uri, session_timeout_ms=options.session_timeout_ms)
        try:
            async with Client(options, self._world, store=store) as client:
                daemon = self._daemon = AutoRecoveryDaemon(
                    client.shared, self._me, self._options, ended_before=self._ended
                )
                daemon.worker.set_copy_rate(self._bytes_per_s)
                log.info("auto-recovery runs in this bookie name=%s", self._me)
                await daemon.run()
        finally:
            self._daemon = None
            with contextlib.suppress(TimeoutError, BookieError):
                async with TimeLimit(_END_SESSION_S):
                    await store.close()

    def samples(self) -> Iterator[Sample]:
        """Yield its metrics."""
        daemon = self._daemon
        text = "1 while auto-recovery runs in this bookie."
        yield Sample("bookie_autorecovery_runs", "gauge", text, int(daemon is not None))
        text = "How often it ended by itself, to begin again after a pause."
        yield Sample("bookie_autorecovery_failures_total", "counter", text, self._failures)
        if daemon is not None:
            yield from daemon.samples()


def _told(error: BaseException) -> str:
    """Return a defect's own words: of a group, those of the first in it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"

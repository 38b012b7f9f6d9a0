"""One bookie of a fleet of ours leaves for good, by the official auto-recovery and the official `decommissionbookie`.

That command sleeps half a minute before it looks (BookKeeperAdmin.decommissionBookie). So whoever needs the fleet no
more begins it, other tests run meanwhile, and one of them judges what it did.
"""

from __future__ import annotations

import os
import signal
from concurrent import futures
from pathlib import Path

import java_support
import wait_support
from bookie import blocking
from bookie.base.ids import BookieId, LedgerId
from bookie.blocking import BlockingClient
from java_operator_support import JavaOperator
from local_support import LocalFleet

ENTRIES = 30
TRIED_MAX = 100
_DEADLINE_S = 150  # its sleep, and its polls of three seconds for each ledger that is left


class Departure:
    """`ledgers`: closed ones that had `lost` in their ensemble at first."""

    def __init__(self, fleet: LocalFleet, operator: JavaOperator) -> None:
        self.fleet = fleet
        self.operator = operator
        self.lost = BookieId(fleet.bookies[1].bookie_id)
        with blocking.connect(fleet.uri) as client:
            self.ledgers = write(client, 3, self.lost, ensemble_size=3, write_quorum=2, ack_quorum=2)
        self._is_gone = False
        self._executor = futures.ThreadPoolExecutor(1)
        self._told: futures.Future[str] | None = None

    def logs(self) -> list[Path]:
        return self.fleet.logs()

    def lose(self) -> None:
        """The bookie is killed and its session ends; auto-recovery begins."""
        if self._is_gone:
            return
        self._is_gone = True
        os.kill(self.fleet.bookies[1].pid, signal.SIGKILL)
        with blocking.connect(self.fleet.uri) as client:
            wait_support.wait_until(
                lambda: self.lost not in [record.bookie_id for record in client.run(lambda it: it.admin.bookies())],
                "the lost bookie's session to end",
                timeout_s=60,
            )
        self.operator.start_recovery()

    def begin(self) -> None:
        """Let the shell decommission it. From now on the operator answers nobody else."""
        if self._told is None:
            self.lose()
            self._told = self._executor.submit(self.operator.shell, "decommissionbookie", "-bookieid", self.lost)

    def told(self) -> str:
        """All that the command printed."""
        self.begin()
        assert self._told is not None
        return self._told.result(_DEADLINE_S)

    def end(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


def write(client: BlockingClient, count: int, victim: BookieId, **shape: int) -> list[LedgerId]:
    """Closed ledgers that have `victim` in their ensemble."""
    made: list[LedgerId] = []
    for _ in range(TRIED_MAX):
        with client.create(**shape) as writer:
            writer.append_many(list(java_support.payloads(writer.id, ENTRIES)))
        if victim in writer.metadata.last_segment.bookies:
            made.append(writer.id)
        if len(made) == count:
            return made
    raise AssertionError(f"{victim} is in too few ensembles of {TRIED_MAX}: it is gone already")

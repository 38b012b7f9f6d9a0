"""The campaign of a stateful attacker against a living bookie: what `make attack` does for long.

One bookie under an honest load is attacked over every port it has and over the metadata store, seed after seed; then it
is stopped, started again, and everything that was acknowledged is read back.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attack_actors
import attack_target
import children
import local_support
import noted_support
import wait_support
from attack_actors import FrameAttacker
from attack_target import Broken, Budget, Honest, Target
from bookie import blocking
from bookie.base.ids import EntryId
from bookie.metadata import paths
from bookie.wire.digest import Digest, DigestType
from local_support import LocalBookie, LocalFleet

ACTS = ("hoard", "idle", "deafen", "http", "grpc", "litter")
HONEST_ENTRIES = 200
ACKNOWLEDGED_FIRST = 100
FRAMES_A_ROUND = 20_000


class Campaign:
    """Use through `attacking`. `run` until a bound; then `judge`."""

    def __init__(self, fleet: LocalFleet, folder: Path, seed: int, budget: Budget) -> None:
        self.fleet, self.seed = fleet, seed
        self.frames = 0
        self.fresh = 0
        self.closings = 0
        self.done: list[str] = []
        self.costs: list[str] = []
        self._folder = folder
        self._draw = random.Random(f"attack {seed}")
        self._budget = budget
        self._acknowledged = folder / "acknowledged"
        self._writers: subprocess.Popen[str] | None = None
        self._own = contextlib.ExitStack()  # what was started again
        self.honest = write_honest(fleet)

    def start_load(self, rate_per_s: float) -> None:
        """Honest writers beside the attack, each of whose acknowledgements is noted."""
        arguments = [
            "--metadata-service-uri",
            self.fleet.uri,
            "--log",
            str(self._acknowledged),
            "--rate",
            str(rate_per_s),
        ]
        with (self._folder / "writers.log").open("ab") as talk:
            self._writers = children.spawn(
                [*local_support.BOOKIE, "workload", "run", *arguments], stderr=talk, stdout=subprocess.DEVNULL
            )
        # What is judged in the end is that none of these is lost: an attack that is shorter than a start finds none.
        wait_support.wait_until(
            lambda: noted_support.acknowledged(self._acknowledged) > ACKNOWLEDGED_FIRST,
            "the first acknowledgements",
            timeout_s=local_support.START_TIMEOUT_S,
        )

    def run(self, *, seconds: float, frames: int, tell: Callable[[str], None], acts: Sequence[str] = ACTS) -> None:
        """Attack the first bookie until either bound is reached. Raises Broken."""
        try:
            self._run(seconds, frames, tell, acts)
        except Broken as broken:
            broken.told = children.tail(Path(self.fleet.bookies[0].facts["log"]))
            raise

    def _run(self, seconds: float, frames: int, tell: Callable[[str], None], names: Sequence[str]) -> None:
        bookie = self.fleet.bookies[0]
        began = time.monotonic()
        log = Path(bookie.facts["log"])
        with (
            attack_target.watched(bookie.pid, bookie.port, log, self.honest, self._budget) as target,
            contextlib.closing(FrameAttacker(target, self._draw)) as attacker,
        ):
            acts = self._acts(target, bookie)
            wanted = [acts[name] for name in names]
            while time.monotonic() - began < seconds and attacker.handled < frames:
                attacker.round(min(FRAMES_A_ROUND, frames - attacker.handled))
                act = self._draw.choice(wanted)
                self.done.append(act())
                target.check()
                counted = (
                    f"{attacker.handled:,} frames ({attacker.fresh:,} new), {attacker.closings:,} connections closed"
                )
                tell(f"{counted}; {self.done[-1]}; {target.cost}")
            self.frames, self.fresh, self.closings = attacker.handled, attacker.fresh, attacker.closings
            self.costs.append(str(target.cost))

    def judge(self) -> dict[str, Any]:
        """End the load, restart the attacked bookie, read back what was acknowledged. Raises Broken."""
        if self._writers is not None:
            status = self._writers.poll()
            if status not in (None, 0):
                raise Broken(f"honest writers ended with {status}: {children.tail(self._folder / 'writers.log')}")
            children.end(self._writers, timeout_s=60)
            self._writers = None
        self._restart(self.fleet.bookies[0])
        with blocking.connect(self.fleet.uri) as client, client.open(self.honest.ledger_id, b"honest") as reader:
            found = reader.read(0, HONEST_ENTRIES - 1)
        if [entry.payload for entry in found] != [_payload(number) for number in range(HONEST_ENTRIES)]:
            raise Broken("entries that were acknowledged before the attack have other bytes after it")
        return self._verified()

    def _verified(self) -> dict[str, Any]:
        if not self._acknowledged.exists():
            return {"clean": True, "verified": 0}
        try:
            verdict = noted_support.verdict(self.fleet.uri, self._acknowledged)
        except AssertionError as mute:
            raise Broken(f"nothing was verified: {mute}") from None
        if not verdict["clean"]:
            raise Broken(f"acknowledged entries were lost or changed: {verdict}")
        return verdict

    def end(self) -> None:
        if self._writers is not None:
            children.end(self._writers, timeout_s=60)
        self._own.close()

    # ---- what is done ------------------------------------------------------------------------------------------------

    def _acts(self, target: Target, bookie: LocalBookie) -> dict[str, Callable[[], str]]:
        draw = self._draw
        acts: tuple[Callable[[], str], ...] = (
            lambda: attack_actors.hoard(target, draw),
            lambda: attack_actors.idle(target, draw),
            lambda: attack_actors.deafen(target, draw),
            lambda: attack_actors.http(target, draw, bookie.metrics_port),
            lambda: attack_actors.grpc_calls(target, draw, bookie.admin_port),
            self._litter,
        )
        return dict(zip(ACTS, acts, strict=True))

    def _litter(self) -> str:
        """Nodes in the metadata store that no one of BookKeeper's kind wrote. Nothing of others is touched."""
        from kazoo.client import KazooClient

        parsed = paths.parse_uri(self.fleet.uri)
        client = KazooClient(hosts=parsed.hosts)
        client.start(timeout=30)
        try:
            number = self._draw.randrange(10_000)
            for path in (
                f"{parsed.root}/00/{number:04}/L{self._draw.randrange(10_000):04}",
                f"{parsed.root}/00/{number:04}/junk",
                f"{parsed.root}/cookies/attacker{number}",
                f"{parsed.root}/available/no bookie {number}",
                f"{parsed.root}/underreplication/incarnations/attacker{number}",
            ):
                client.ensure_path(path)
                client.set(path, self._draw.randbytes(self._draw.choice((0, 7, 5000))))
        finally:
            client.stop()
            client.close()
        return "nodes of nobody's in the metadata store"

    def _restart(self, bookie: LocalBookie) -> None:
        """Stop it in good order, and start it again over what the attack left on its disks."""
        local_support.stop(bookie)
        try:
            self._own.enter_context(local_support.again(bookie))
        except AssertionError as error:
            told = children.tail(Path(bookie.facts["log"]))
            raise Broken(f"the bookie does not start after the attack: {error}: {told}") from None


def _payload(number: int) -> bytes:
    return f"acknowledged before the attack {number}".encode() * 20


def write_honest(fleet: LocalFleet) -> Honest:
    """A closed ledger on every bookie of `fleet`; with the bytes each bookie must answer for each entry."""
    count = len(fleet.bookies)
    with (
        blocking.connect(fleet.uri) as client,
        client.create(password=b"honest", ensemble_size=count, write_quorum=count, ack_quorum=count) as writer,
    ):
        for number in range(HONEST_ENTRIES):
            writer.append(_payload(number))
        ledger_id = writer.id
    digest, length, bodies = Digest(DigestType.CRC32C, b"honest"), 0, []
    for number in range(HONEST_ENTRIES):
        length += len(_payload(number))
        bodies.append(b"".join(digest.seal(ledger_id, EntryId(number), number - 1, length, _payload(number))))
    return Honest(ledger_id, tuple(bodies))


@contextlib.contextmanager
def attacking(folder: Path, *, seed: int, budget: Budget, bookies: int = 3) -> Iterator[Campaign]:
    """Run a fleet in `folder` until the body ends."""
    with local_support.fleet(folder / "data", folder / "fleet.log", bookies=bookies) as fleet:
        campaign = Campaign(fleet, folder, seed, budget)
        try:
            yield campaign
        finally:
            campaign.end()

"""Holds a boot back until the verdict, or a grant, allows it to go on; answers questions meanwhile.

Waiting is alive and harmless: nothing is written, the storage report is readable, and every look is a fresh one. A
grant is accepted only for what a fresh inspection shows, and looked at once more before it is acted on.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable

from bookie.base import errors
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.base.units import NS_PER_MS
from bookie.integrity import cookie_restoring
from bookie.integrity import grant as grants
from bookie.integrity.grant import Situation
from bookie.integrity.inspection import BookieInspector, Inspection
from bookie.integrity.metadata_retry import MetadataRetry
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.progress import BootProgress
from bookie.integrity.verdict import Decision
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports import World
from bookie.ports.admin import OPERATOR_EPOCH_MAX, Grant, State, StorageReport, Verdict, credible_epoch
from bookie.ports.time_limit import TimeLimit
from bookie.storage.options import StorageOptions

log = logging.getLogger(__name__)

_LOSSES = ("limbo", "regeneration", "partial-loss", "stale-volume", "cookie")
CAPABILITIES = (*_LOSSES, "live-writers", "turn", "drain", "aside", "marks", "ledger-loss")


class BootPhase:
    """The steps of a boot, in order; every change is reported once."""

    def __init__(self, progress: BootProgress) -> None:
        self.state = State.STARTING
        self._progress = progress
        self.on_state: Callable[[State], None] = lambda state: None

    def enter(self, state: State) -> None:
        if state is not self.state:
            self.state = state
            self._progress.notify()
        self.on_state(state)


class BootGate:
    """The gate of one boot. `inspector` is set once the metadata store has answered for the first time."""

    def __init__(
        self,
        bookie_id: BookieId,
        storage: StorageOptions,
        options: IntegrityOptions,
        world: World,
        retry: MetadataRetry,
        phase: BootPhase,
        *,
        boot_id: str,
    ) -> None:
        self.inspector: BookieInspector | None = None
        self._bookie_id = bookie_id
        self._storage = storage
        self._options = options
        self._world = world
        self._retry = retry
        self._phase = phase
        self._boot_id = boot_id
        self._seen: Inspection | None = None
        self._seen_at_ns = 0
        self._served: IncarnationRecord | None = None
        self._granted: Grant | None = None
        self._grant_expires_ns = 0
        self._operator_epoch = 0
        self._poke = asyncio.Event()
        self._told = ""  # why it waits, as it was logged last
        self._other = ""  # the process of this id whose end it waits for

    async def until_allowed(self) -> tuple[Inspection, str]:
        """Wait, perhaps for ever, until the boot may go on. Return what was seen, and the id of what allows
        a new incarnation ("": none begins)."""
        while True:
            self._poke.clear()
            seen = await self._look()
            if seen.decision.stale and (granted := self._take_grant(seen)) is not None:
                return seen, granted.grant_id
            if seen.decision.is_held:
                self._phase.enter(State.HELD)
            elif seen.decision.verdict is Verdict.BOOTSTRAP:
                return seen, f"bootstrap-{self._boot_id}"
            elif seen.decision.verdict is not Verdict.LOST:
                return seen, ""
            elif not self._options.waits_for_grant:
                return seen, f"local-{self._boot_id}"
            elif (granted := self._take_grant(seen)) is not None:
                return seen, granted.grant_id
            else:
                self._phase.enter(State.WAITING_GRANT)
            self._tell(seen.decision)
            await self._pause()

    def wait_for(self, other: str) -> None:
        """Note that the boot waits for the end of another process of this id, as `other` says; "": it does not."""
        self._other = other

    def _tell(self, decision: Decision) -> None:
        """Log why the boot waits, once for each reason: a person may see nothing but the log."""
        self._other = ""
        if decision.reason != self._told:
            self._told = decision.reason
            log.warning(
                "boot waits for a person verdict=%s reason=%s",
                decision.verdict and decision.verdict.name,
                decision.reason,
            )

    def passed(self, record: IncarnationRecord) -> None:
        """End the boot: `record` is ours and current. Forget what was seen before."""
        self._served = record
        self._seen = None

    async def missing_cookie(self, *, evidence_hash: str) -> Inspection:
        """Return a fresh look by which the cookie may be made again. Raises GrantRefused."""
        if self.inspector is None:
            raise errors.GrantRefused("not_waiting", "this bookie has not looked at anything yet")
        seen = await self._look()
        cookie_restoring.check(seen, self._phase.state, evidence_hash=evidence_hash)
        return seen

    def look_again(self) -> None:
        """Have a boot that waits look at once, and one that serves at the next report."""
        if self._served is not None:
            self._seen = None
        self._poke.set()

    @property
    def granted_by(self) -> str:
        """Return who allowed the incarnation that begins now; "" when nobody needed to."""
        if self._granted is not None:
            return self._granted.given_by or f"not proven: {self._granted.issued_by}"
        return "" if self._options.waits_for_grant else "the bookie itself (regeneration=local)"

    def epoch_seen(self, record: IncarnationRecord | None) -> int:
        """Return the highest operator epoch that ever gave us a grant, in this process or an earlier one, or asked
        this process for anything."""
        return max(self._operator_epoch, credible_epoch(record.operator_epoch) if record else 0)

    def heed(self, operator_epoch: int) -> None:
        """Remember the epoch of an operator that asks for something. Raise GrantRefused when a newer one was here
        (spec/operator.md#Q11), or when no operator can have this epoch: one forged number would shut out all."""
        if not 0 <= operator_epoch <= OPERATOR_EPOCH_MAX:
            raise errors.GrantRefused(
                "epoch_out_of_range",
                f"operator epoch {operator_epoch} is not possible: epochs go from 0 to {OPERATOR_EPOCH_MAX}",
            )
        record = self._served or (self._seen.identity.record if self._seen is not None else None)
        if operator_epoch < (newest := self.epoch_seen(record)):
            raise errors.GrantRefused(
                "old_epoch", f"it is of operator epoch {operator_epoch}, but epoch {newest} was seen already"
            )
        self._operator_epoch = operator_epoch

    async def grant(self, grant: Grant) -> None:
        """Accept the grant, or raise GrantRefused. Accepts the same grant again:
        its sender may have missed the answer."""
        received_ns = self._world.clock.monotonic_ns()
        if grant.grant_id and grant.grant_id == self._grant_id():
            return
        waiting = (State.WAITING_GRANT, State.HELD) if grant.accepts_stale else (State.WAITING_GRANT,)
        if self._phase.state not in waiting:
            raise errors.GrantRefused("not_waiting", f"this bookie waits for no grant; it is {self._phase.state.value}")
        seen = await self._look()
        # Everything below happens in one step of the loop: what was checked is what is accepted.
        record = seen.identity.record
        situation = Situation(
            bookie_id=self._bookie_id,
            pod_uid=self._world.host.pod_uid,
            is_waiting=self._phase.state in waiting and self._granted is None,
            verdict=seen.decision.verdict,
            volumes=seen.volumes,
            evidence_hash=seen.evidence_hash,
            cookie_version=seen.identity.cookie_version,
            incarnation=record.incarnation if record else Incarnation(0),
            operator_epoch_seen=self.epoch_seen(record),
            age_ms=(self._world.clock.monotonic_ns() - received_ns) // NS_PER_MS,
            is_stale_repairable=bool(seen.decision.stale),
        )
        grants.check(grant, situation)
        # Only now: a refused grant moves no epoch, or one forged number would shut out every operator for ever.
        self._operator_epoch = grant.operator_epoch
        self._granted = grant
        self._grant_expires_ns = received_ns + grant.ttl_ms * NS_PER_MS
        log.warning("grant accepted grant_id=%s given_by=%s", grant.grant_id, self.granted_by)
        self._poke.set()

    async def report(self, *, fresh: bool) -> StorageReport:
        """Report what this bookie sees of itself: by the newest inspection, or by a new one."""
        is_reachable = self.inspector is not None and self._retry.is_reachable
        if is_reachable and (fresh or self._seen is None):
            await self._look()
        seen = self._seen
        blank = StorageReport(
            bookie_id=self._bookie_id,
            pod_uid=self._world.host.pod_uid,
            state=self._phase.state,
            verdict=None,
            reason="the metadata store has not answered yet",
            capabilities=CAPABILITIES,
            grant_id=self._grant_id(),
            journal_write_data=self._storage.journal_write_data,
            metadata_reachable=is_reachable,
        )
        if seen is None:
            return blank
        identity, record, why = seen.identity, self._served or seen.identity.record, seen.decision.reason
        return dataclasses.replace(
            blank,
            verdict=seen.decision.verdict,
            reason=f"it waits for the end of another process of this id: {self._other}" if self._other else why,
            instance_id=identity.instance_id,
            cookie_present=identity.cookie is not None,
            cookie_version=identity.cookie_version,
            cookie_digest=identity.cookie_digest,
            incarnation=record.incarnation if record else Incarnation(0),
            boot_epoch=record.boot_epoch if record else BootEpoch(0),
            operator_epoch_seen=self.epoch_seen(record),
            granted_by=record.granted_by if record else "",
            ledger_count=seen.ledger_count,
            ledgers_naming_me=seen.ledgers_naming_me,
            volumes=seen.volumes,
            evidence_hash=seen.evidence_hash,
            inspection_age_ms=(self._world.clock.monotonic_ns() - self._seen_at_ns) // NS_PER_MS,
            unclean_shutdown=seen.is_dirty and self._served is None,
            aside=identity.aside,
        )

    def _take_grant(self, seen: Inspection) -> Grant | None:
        """Return the accepted grant, if it still fits what was seen just now."""
        granted = self._granted
        if granted is None:
            return None
        is_late = self._world.clock.monotonic_ns() >= self._grant_expires_ns
        if is_late or granted.evidence_hash != seen.evidence_hash:
            log.warning("grant dropped grant_id=%s late=%s", granted.grant_id, is_late)
            self._granted = None
            return None
        return granted

    def _grant_id(self) -> str:
        """Return the id of the grant in force or last used; "" when there is none."""
        if self._granted is not None:
            return self._granted.grant_id
        return self._served.grant_id if self._served is not None else ""

    async def _look(self) -> Inspection:
        assert self.inspector is not None
        began_ns = self._world.clock.monotonic_ns()
        was_serving = self._served is not None
        seen = await self.inspector.look(is_serving=was_serving)
        if not was_serving and self._served is not None:
            # It began to serve meanwhile: the marker on disk that was read is its own, and not of the last stop.
            seen = await self.inspector.look(is_serving=True)
        self._seen = seen
        self._seen_at_ns = began_ns  # what was read first is as old as this
        return seen

    async def _pause(self) -> None:
        """Wait until the next look is due, or a grant has arrived."""
        with contextlib.suppress(TimeoutError):
            async with TimeLimit(self._options.inspect_interval_ms / 1000):
                await self._poke.wait()

"""What a boot's gate tells of the bookie's past, once it serves."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import integrity_support as build
from bookie.base.ids import BookieId, BootEpoch, Incarnation
from bookie.base.units import NS_PER_MS
from bookie.integrity.gate import BootGate, BootPhase
from bookie.integrity.inspection import Inspection
from bookie.integrity.options import IntegrityOptions
from bookie.integrity.verdict import Decision
from bookie.metadata.cookie import IncarnationRecord
from bookie.ports.admin import Contents, State, Verdict

UNCLEAN = Decision(Verdict.UNCLEAN, "the last stop was not clean")
HEALTHY = Decision(Verdict.HEALTHY, "")
RECORD = IncarnationRecord("instance", Incarnation(1), BootEpoch(2))


class StraddlingInspector:
    """Its first look begins before the bookie serves, and reads the marker that the bookie writes when it does."""

    def __init__(self, gate: BootGate) -> None:
        self._gate = gate

    async def look(self, *, is_serving: bool = False) -> Inspection:
        if not is_serving:
            self._gate.passed(RECORD)
        identity = SimpleNamespace(
            record=RECORD,
            instance_id="instance",
            cookie=object(),
            cookie_version=0,
            cookie_digest="",
            aside=None,
        )
        return Inspection(
            identity=cast(Any, identity),
            master=cast(Any, None),
            volumes=(),
            decision=HEALTHY if is_serving else UNCLEAN,
            evidence_hash="",
            is_dirty=True,
            is_set_back=False,
            ledger_count=0,
            ledgers_naming_me=0,
        )


class Looks:
    """An inspector that sees one thing after the other, and the last one from then on."""

    def __init__(self, *evidence: str) -> None:
        self._evidence = list(evidence)

    async def look(self, *, is_serving: bool = False) -> Inspection:
        found = self._evidence.pop(0) if len(self._evidence) > 1 else self._evidence[0]
        identity = SimpleNamespace(record=build.RECORD, cookie_version=build.grant().cookie_version)
        return Inspection(
            identity=cast(Any, identity),
            master=cast(Any, None),
            volumes=(build.volume("ledgers", Contents.EMPTY),),
            decision=HEALTHY if found == "healthy" else Decision(Verdict.LOST, "empty", ("ledgers",)),
            evidence_hash=found,
            is_dirty=False,
            is_set_back=False,
            ledger_count=0,
            ledgers_naming_me=0,
        )


def what_is_granted(*evidence: str, waits_ms: int = 0) -> str:
    """Which grant the boot goes on with, when a grant for the first evidence is accepted, and then `waits_ms` pass."""
    now_ns = [0]
    host = SimpleNamespace(pod_uid=build.grant().pod_uid)
    world = SimpleNamespace(clock=SimpleNamespace(monotonic_ns=lambda: now_ns[0]), host=host)
    phase = BootPhase(cast(Any, SimpleNamespace(notify=lambda: None)))
    phase.enter(State.WAITING_GRANT)
    options = IntegrityOptions(inspect_interval_ms=1)
    anything = cast(Any, None)
    gate = BootGate(build.ME, anything, options, cast(Any, world), anything, phase, boot_id="1")
    gate.inspector = cast(Any, Looks(*evidence))

    async def story() -> str:
        await gate.grant(build.grant(evidence_hash=evidence[0]))
        now_ns[0] += waits_ms * NS_PER_MS
        _, granted = await gate.until_allowed()
        return granted

    return asyncio.run(story())


def test_an_accepted_grant_is_used_while_a_fresh_look_shows_the_same() -> None:
    assert what_is_granted("empty") == build.grant().grant_id


def test_an_accepted_grant_is_dropped_when_the_facts_change_before_it_is_used() -> None:
    """spec/operator.md#K7: the bookie looks once more before it acts."""
    assert what_is_granted("empty", "something else", "healthy") == ""


def test_an_accepted_grant_is_dropped_when_its_time_is_over() -> None:
    assert what_is_granted("empty", "empty", "healthy", waits_ms=build.grant().ttl_ms) == ""


def test_a_look_that_began_before_the_service_says_nothing_of_the_last_stop() -> None:
    world = SimpleNamespace(clock=SimpleNamespace(monotonic_ns=lambda: 0), host=SimpleNamespace(pod_uid="pod"))
    phase = SimpleNamespace(state=State.SERVING)
    options = SimpleNamespace(journal_write_data=True)
    gate = BootGate(
        BookieId("b:1"),
        cast(Any, options),
        cast(Any, None),
        cast(Any, world),
        cast(Any, SimpleNamespace(is_reachable=True)),
        cast(BootPhase, phase),
        boot_id="1",
    )
    gate.inspector = cast(Any, StraddlingInspector(gate))

    report = asyncio.run(gate.report(fresh=True))

    assert (report.verdict, report.reason) == (Verdict.HEALTHY, "")

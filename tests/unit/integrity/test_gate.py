"""What a boot's gate tells of the bookie's past, once it serves."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

import integrity_support as build
from bookie.base import errors
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
    """Its first look begins before the bookie serves, and reads the marker that the bookie writes when it does. Not
    `straddles`: the bookie does not begin meanwhile."""

    def __init__(self, gate: BootGate, *, on_look: Callable[[], None], straddles: bool) -> None:
        self._gate = gate
        self._on_look = on_look
        self._straddles = straddles

    async def look(self, *, is_serving: bool = False) -> Inspection:
        self._on_look()
        if self._straddles and not is_serving:
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

    def __init__(self, *evidence: str, on_look: Callable[[], None]) -> None:
        self._evidence = list(evidence)
        self._on_look = on_look

    async def look(self, *, is_serving: bool = False) -> Inspection:
        self._on_look()
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


def what_is_granted(*evidence: str, waits_ms: int = 0, look_ms: int = 0, becomes: State = State.WAITING_GRANT) -> str:
    """Which grant the boot goes on with, when a grant for the first evidence is accepted, and then `waits_ms` pass.
    Each look takes `look_ms`, and when it ends the bookie `becomes` that."""
    now_ns = [0]

    def pass_time(ms: int) -> None:
        now_ns[0] += ms * NS_PER_MS

    def on_look() -> None:
        pass_time(look_ms)
        phase.enter(becomes)

    host = SimpleNamespace(pod_uid=build.grant().pod_uid)
    world = SimpleNamespace(clock=SimpleNamespace(monotonic_ns=lambda: now_ns[0]), host=host)
    phase = BootPhase(cast(Any, SimpleNamespace(notify=lambda: None)))
    phase.enter(State.WAITING_GRANT)
    options = IntegrityOptions(inspect_interval_ms=1)
    anything = cast(Any, None)
    gate = BootGate(build.ME, anything, options, cast(Any, world), anything, phase, boot_id="1")
    gate.inspector = cast(Any, Looks(*evidence, on_look=on_look))

    async def story() -> str:
        await gate.grant(build.grant(evidence_hash=evidence[0]))
        pass_time(waits_ms)
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


def test_the_time_of_a_grant_begins_when_it_came_and_not_after_the_look_at_it() -> None:
    ttl_ms = build.grant().ttl_ms
    assert what_is_granted("empty", waits_ms=ttl_ms - 25, look_ms=10) == build.grant().grant_id
    assert what_is_granted("empty", "empty", "healthy", waits_ms=ttl_ms - 15, look_ms=10) == ""


def test_a_grant_whose_time_is_over_after_the_look_at_it_is_refused() -> None:
    with pytest.raises(errors.GrantRefused, match="are over"):
        what_is_granted("empty", "healthy", look_ms=build.grant().ttl_ms)


def test_a_grant_is_refused_by_a_bookie_that_went_on_while_it_looked() -> None:
    with pytest.raises(errors.GrantRefused, match="waits for no grant"):
        what_is_granted("empty", "healthy", becomes=State.REPLAYING)


def a_gate(*, straddles: bool) -> BootGate:
    """A gate whose reports come from a `StraddlingInspector`, each look of which takes 5 ms."""
    now_ns = [0]

    def pass_time() -> None:
        now_ns[0] += 5 * NS_PER_MS

    clock = SimpleNamespace(monotonic_ns=lambda: now_ns[0])
    gate = BootGate(
        BookieId("b:1"),
        cast(Any, SimpleNamespace(journal_write_data=True)),
        cast(Any, None),
        cast(Any, SimpleNamespace(clock=clock, host=SimpleNamespace(pod_uid="pod"))),
        cast(Any, SimpleNamespace(is_reachable=True)),
        cast(BootPhase, SimpleNamespace(state=State.SERVING)),
        boot_id="1",
    )
    gate.inspector = cast(Any, StraddlingInspector(gate, on_look=pass_time, straddles=straddles))
    return gate


def test_a_look_that_began_before_the_service_says_nothing_of_the_last_stop() -> None:
    report = asyncio.run(a_gate(straddles=True).report(fresh=True))

    assert (report.verdict, report.reason) == (Verdict.HEALTHY, "")
    assert report.inspection_age_ms == 10  # since the first of the two looks began


def test_what_was_seen_before_the_service_is_not_told_after_it_began() -> None:
    gate = a_gate(straddles=False)
    assert asyncio.run(gate.report(fresh=True)).verdict is Verdict.UNCLEAN
    gate.passed(RECORD)

    assert asyncio.run(gate.report(fresh=False)).verdict is Verdict.HEALTHY

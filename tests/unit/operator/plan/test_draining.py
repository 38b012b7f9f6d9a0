"""A bookie that drains: what proves that no ledger names it, and how it comes back (spec/operator.md#J3 to J5)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import DrainStatus, Member, References, State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.status import BookieClusterStatus, Departure, LeavingStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import CancelDrain, StartDrain
from bookie_operator.plan.departure import draining
from bookie_operator.plan.departure.state import Next
from bookie_operator.plan.observation import Leadership, Observation

ONE, READER, FIRST_READER = "ledgers-zone-a-0", "ledgers-zone-b-0", "ledgers-zone-c-0"
MINUTE_MS = 60_000
BEGAN = format_time(make.NOW_MS - 60 * MINUTE_MS)
WRITABLE = Member("", has_cookie=True, is_registered=True, is_writable=True)
EMPTY = DrainStatus(is_draining=True, is_empty=True, ledgers_total=5)


def looked(by: str = FIRST_READER, ago_ms: int = 10 * MINUTE_MS, **changes: Any) -> dict[str, Any]:
    clean = {"by": by, "at": format_time(make.NOW_MS - ago_ms), "references": 0, "instance_id": "instance"}
    return clean | changes


def drains(*looks: dict[str, Any], **changes: Any) -> LeavingStatus:
    """A departure that began to drain an hour ago."""
    return LeavingStatus.model_validate({"state": Departure.DRAINING, "since": BEGAN, "looks": looks} | changes)


def found(count: int = 0, *, age_ms: int = 1_000, unreadable: int = 0) -> dict[str, Any]:
    """What READER said in this pass, whose look began `age_ms` ago."""
    told = References("data.ledgers.zone-a.0", count, unreadable=unreadable, age_ms=age_ms)
    return {"references": told, "references_by": READER}


def case(drain: DrainStatus | None = EMPTY, **changes: Any) -> BookieCase:
    one = make.bookie_case(report=make.report(state=State.READ_ONLY, read_only=True, is_draining=True))
    member = Member(one.bookie_id, has_cookie=True, is_registered=True, is_writable=False)
    there = {"drain": drain, "member": member, "is_listed": True, "is_leaving": True}
    return replace(one, **(there | changes))


def seen(one: BookieCase, **changes: Any) -> Observation:
    known = BookieClusterStatus(observed_generation=1, instance_id="instance")
    cases = changes.pop("bookies", make.fleet(one))
    return make.observation(cases, status=known, **({"children": make.rolled_out()} | changes))


def gone_on(one: BookieCase, stored: LeavingStatus, **changes: Any) -> Next:
    look = seen(one, **changes)
    every = fleet.assess(look)
    return draining.go_on(look, every, every[0], stored)


def looks(after: Next) -> list[str]:
    assert after.status is not None
    return [one.by for one in after.status.looks]


def state(after: Next) -> Departure:
    assert after.status is not None
    return after.status.state


def test_two_bookies_that_find_no_ledger_one_after_the_other_are_the_proof() -> None:
    first = gone_on(case(**found()), drains())
    second = gone_on(case(**found()), drains(looked()))

    assert (state(first), looks(first)) == (Departure.DRAINING, [READER])
    assert (state(second), looks(second)) == (Departure.DRAINED, [FIRST_READER, READER])


@pytest.mark.parametrize(
    ("after", "left"),
    [
        # It read what was there before the bookie drained, or before the first look had ended.
        (gone_on(case(**found(age_ms=61 * MINUTE_MS)), drains()), []),
        (gone_on(case(**found(age_ms=11 * MINUTE_MS)), drains(looked())), [FIRST_READER]),
        # It found something, or could not read all: what was found before it proves nothing any more.
        (gone_on(case(**found(1)), drains(looked())), [READER]),
        (gone_on(case(**found(1, unreadable=1)), drains(looked())), [READER]),
        # The same bookie twice, or a look into another store.
        (gone_on(case(**found()), drains(looked(by=READER))), [READER, READER]),
        (gone_on(case(**found()), drains(looked(instance_id="another"))), [FIRST_READER, READER]),
        # It is not empty (any more), or begins to drain again: all looks are of before.
        (gone_on(case(replace(EMPTY, is_empty=False, ledgers_left=1), **found()), drains(looked())), []),
        (gone_on(case(replace(EMPTY, is_draining=False), **found()), drains(looked())), []),
        # Another order than the one that is carried out.
        (gone_on(case(replace(EMPTY, recovers_open_ledgers=True), **found()), drains(looked())), []),
        # Nobody could look, or it cannot be asked.
        (gone_on(case(is_listed=False, **found()), drains(looked())), [FIRST_READER]),
        (gone_on(case(None, **found()), drains(looked())), [FIRST_READER]),
    ],
    ids=[
        "before the drain", "before the first look ended", "named", "unreadable", "one reader", "another store",
        "not empty", "restarted", "another order", "unlisted", "silent",
    ],
)  # fmt: skip
def test_nobody_counts_as_drained_while_one_word_of_the_proof_is_missing(after: Next, left: list[str]) -> None:
    assert state(after) is Departure.DRAINING
    assert looks(after) == left


@pytest.mark.parametrize("changes", [{}, {"record_problem": "the record is damaged"}])
def test_one_that_restarted_is_told_again_unless_nobody_knows_what_was_stored(changes: dict[str, Any]) -> None:
    after = gone_on(case(replace(EMPTY, is_draining=False)), drains(), **changes)

    assert [isinstance(one, StartDrain) for one in after.steps] == ([] if changes else [True])


def test_a_drain_that_is_paused_for_lack_of_room_proved_nothing_so_far() -> None:
    """It takes writes meanwhile, and who asks it next may find it empty."""
    gib = 1 << 30
    one = case(replace(EMPTY, is_empty=False, ledgers_left=5))
    assert one.report is not None
    one = replace(one, report=replace(one.report, ledger_bytes_used=100 * gib, ledger_bytes_room=0))
    others = (replace(mate, member=replace(WRITABLE, bookie_id=mate.bookie_id)) for mate in make.fleet()[1:])
    full = (replace(mate, report=replace(one.report, ledger_bytes_used=gib, ledger_bytes_room=0)) for mate in others)

    after = gone_on(one, drains(looked()), bookies=(one, *full))

    assert after.status is not None
    assert (after.status.waiting_for or "").startswith("paused: ")
    assert [isinstance(step, CancelDrain) for step in after.steps] == [True]
    assert looks(after) == []


def back(one: BookieCase, stored: LeavingStatus | None = None, **changes: Any) -> Next:
    look = seen(replace(one, is_leaving=False), **changes)
    return draining.cancelled(look, fleet.assess(look)[0], stored or drains(looked()))


def test_who_is_to_stay_after_all_is_told_so_until_it_serves_and_drains_no_more() -> None:
    told = back(case())
    done = back(case(replace(EMPTY, is_draining=False)))
    silent = back(case(None))

    assert [isinstance(one, CancelDrain) for one in told.steps] == [True]
    assert looks(told) == [], "its proof is void"
    assert back(case(), leadership=Leadership("operator-1", 7, is_held=False)).steps == ()
    assert (done.status, done.steps) == (None, ())
    assert silent.status is not None, "it may be read-only, and nobody would take it back"


def test_one_without_a_pod_comes_back_by_its_stateful_set_and_its_cookie() -> None:
    """Without a cookie it is none that could come back; without a place in its set nobody starts it."""
    off = case(None, pod=None, report=None)
    one, *_ = [one for (kind, name), one in seen(off).children.items() if (kind, name) == SET]
    fewer = {SET: one | {"spec": one["spec"] | {"replicas": 0}}}

    assert back(off).status is None
    assert back(replace(off, member=None)).status is not None
    assert back(replace(off, is_listed=False)).status is not None
    assert back(off, children=fewer).status is not None


SET = ("StatefulSet", "ledgers-zone-a")

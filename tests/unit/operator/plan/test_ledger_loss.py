"""Which ledger is ended next by a person's word, by which bookie, and what keeps one from it (spec/operator.md#U15)."""

from dataclasses import replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import State
from bookie_operator.evidence.facts import BookieCase
from bookie_operator.model.operation import BookieOperation, EndedLedger, OperationPhase, OperationStatus
from bookie_operator.model.status import BookieClusterStatus, HibernationState, HibernationStatus
from bookie_operator.model.values import format_time
from bookie_operator.plan import ledger_loss
from bookie_operator.plan.observation import Leadership, LedgerAnswer, Observation

FIRST, SECOND = "ledgers-zone-a-0", "ledgers-zone-c-0"
WHY = "the rack burnt, and both disks with it"
ASKED_MS = make.NOW_MS - 60_000
UID = "uid-burnt"
FRESH = 1_000  # an answer of a second ago


def able(case: BookieCase, **report: Any) -> BookieCase:
    """It knows the order."""
    assert case.report is not None
    said = replace(case.report, capabilities=(*make.CAPABILITIES, ledger_loss.CAPABILITY), **report)
    return replace(case, report=said)


def asked(status: OperationStatus | None = None, name: str = "burnt", **changes: Any) -> BookieOperation:
    target = {"ledgers": ["7", "8"], "givenUp": [FIRST, SECOND]} | changes
    return make.operation(name, status=status, type="AcceptLedgerLoss", target=target, reason=WHY)


def seen(*operations: BookieOperation, fleet: tuple[BookieCase, ...] | None = None, **changes: Any) -> Observation:
    bookies = tuple(able(one) for one in make.fleet()) if fleet is None else fleet
    status = BookieClusterStatus(instance_id="instance", hibernation=changes.pop("hibernation", None))
    return make.observation(bookies, operations=operations or (asked(),), status=status, **changes)


def answered(ledger: str, ago_ms: int, *, is_done: bool = False, took_ms: int = 0, text: str = "it answers") -> Any:
    return {(UID, ledger): LedgerAnswer(is_done, text, make.NOW_MS - ago_ms, took_ms)}


def ledgers(of: Observation) -> list[str]:
    return [one.ledger for one in ledger_loss.orders(of)]


def test_the_first_ledger_is_asked_for_by_the_ids_of_those_that_were_named() -> None:
    (order,) = ledger_loss.orders(seen())

    assert (order.operation_uid, order.ledger, order.reason, order.epoch) == (UID, "7", WHY, 7)
    assert order.bookie_ids == ("data.ledgers.zone-a.0", "data.ledgers.zone-c.0")
    assert order.by.startswith("BookieOperation data/burnt (")


def test_bookies_of_another_fleet_are_nobody_whom_a_person_can_give_up() -> None:
    strange = replace(able(make.sibling("zone-z", 9)), is_ours=False)
    of = seen(asked(givenUp=[strange.name]), fleet=(*map(able, make.fleet()), strange))

    assert ledgers(of) == []
    assert (
        f"no bookie of this cluster is called {strange.name}" in ledger_loss.tell(of, asked(givenUp=[strange.name]))[1]
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"leadership": Leadership("operator-1", 7, is_held=False)}, "does not hold the lease"),
        (
            {"hibernation": HibernationStatus(state=HibernationState.WAKING, since=format_time(make.NOW_MS))},
            "hibernates, or wakes up",
        ),
        ({"fleet": make.fleet()}, "no bookie serves that can end a ledger"),
        ({"fleet": tuple(able(one, state=State.REPAIRING) for one in make.fleet())}, ""),
        ({"fleet": tuple(able(one, state=State.WAITING_GRANT) for one in make.fleet())}, "no bookie serves"),
    ],
    ids=["lease", "asleep", "older release", "who repairs serves", "who waits does not"],
)
def test_nothing_is_ended_while_one_thing_is_in_the_way(changes: dict[str, Any], words: str) -> None:
    of = seen(**changes)

    assert ledgers(of) == ([] if words else ["7"])
    phase, text = ledger_loss.tell(of, asked())
    assert words in text
    assert phase is (OperationPhase.QUEUED if words else OperationPhase.RUNNING)


def test_consent_ends_with_its_time() -> None:
    late_ms = asked().expires_ms
    begun = asked(OperationStatus(phase=OperationPhase.RUNNING, started_at=format_time(ASKED_MS)))

    assert ledgers(seen(begun, now_ms=late_ms - 1)) == ["7"]
    assert ledgers(seen(begun, now_ms=late_ms)) == []
    phase, text = ledger_loss.tell(seen(begun, now_ms=late_ms), begun)
    assert phase is OperationPhase.FAILED
    assert "not settled within 24h: 7, 8." in text


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({}, "7"),
        (answered("7", FRESH), "8"),
        (answered("7", 60_000), "8"),
        (answered("7", 60_000) | answered("8", 59_999), "7"),
        (answered("7", 59_999) | answered("8", FRESH), None),
        (answered("7", 61_000) | answered("8", 62_000), "8"),
        (answered("7", FRESH, is_done=True), "8"),
        (answered("7", -5_000, took_ms=1_000) | answered("8", FRESH), "7"),  # a clock was set back since
        (answered("7", -500, took_ms=1_000) | answered("8", FRESH), None),
        (answered("7", FRESH, took_ms=1_001), None),
        (answered("7", FRESH, took_ms=1_000), "8"),
    ],
)
def test_who_waited_longest_is_next_after_a_minute_and_a_rest(answers: Any, expected: str | None) -> None:
    assert ledgers(seen(ledger_answers=answers)) == ([expected] if expected else [])


def test_of_two_operations_each_has_its_turn() -> None:
    second = asked(None, "flooded", ledgers=["9"])

    assert ledgers(seen(asked(), second, ledger_answers=answered("7", FRESH) | answered("8", FRESH))) == ["9"]


def test_what_is_ended_stays_so_with_its_first_words() -> None:
    stored = OperationStatus(ledgers=(EndedLedger(id="7", said="closed after 41"),))
    of = seen(
        asked(stored),
        ledger_answers=answered("7", FRESH, is_done=True, text="closed") | answered("8", FRESH, text="x" * 999),
    )

    assert ledger_loss.ended(of, asked(stored)) == stored.ledgers
    assert ledger_loss.tell(of, asked(stored))[1].startswith("1 of 2 ledgers are settled. xxx")
    done = seen(asked(stored), ledger_answers=answered("8", FRESH, is_done=True, text="y" * 999))
    assert [(one.id, len(one.said)) for one in ledger_loss.ended(done, asked(stored))] == [("7", 15), ("8", 256)]
    assert ledger_loss.tell(done, asked(stored))[0] is OperationPhase.COMPLETE


def test_a_ledger_that_is_not_there_is_told_as_such_and_done() -> None:
    absent = {(UID, "7"): LedgerAnswer(True, "ledger 7 does not exist", make.NOW_MS, is_missing=True)}
    stored = OperationStatus(ledgers=ledger_loss.ended(seen(ledger_answers=absent), asked()))

    assert ledger_loss.tell(seen(), asked(stored)) == (
        OperationPhase.RUNNING,
        "0 of 2 ledgers are settled (there is no ledger 7).",
    )
    done = seen(ledger_answers=answered("8", FRESH, is_done=True))
    assert ledger_loss.tell(done, asked(stored)) == (
        OperationPhase.COMPLETE,
        "1 of 2 ledgers are settled (there is no ledger 7); status.ledgers has the words of each",
    )
    alone = asked(None, ledgers=["7"])
    assert ledger_loss.tell(seen(alone, ledger_answers=absent), alone) == (
        OperationPhase.COMPLETE,
        "nothing was given up: there is no ledger 7",
    )


def test_of_many_ledgers_a_few_are_named_and_the_others_counted() -> None:
    many = asked(None, ledgers=[str(number) for number in range(20)])

    assert "0, 1, 2, 3, 4, 5, 6, 7 and 12 more. Look" in ledger_loss.tell(seen(many, now_ms=many.expires_ms), many)[1]

"""Orders to bookies that stop nobody: by whom they are given, when not, and what becomes of an answer."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import Aside
from bookie.rpc.calls import GrantAnswer, OrderAnswer
from bookie_operator.crash import CrashPoint
from bookie_operator.evidence.facts import Door
from bookie_operator.execute.hand import Hand, LostLease
from bookie_operator.execute.orders import Orders
from bookie_operator.gateways.bookies import BookieUnreachable
from bookie_operator.model.status import GrantRecord
from bookie_operator.plan import fleet
from bookie_operator.plan.actions import AcceptLedgerLoss, ChangeSettings, FillHoles, RestoreCookie, SendGrant, SetAside
from bookie_operator.plan.fleet import FleetPlan
from bookie_operator.plan.observation import Hindrance
from bookie_operator.plan.operations import Told

POD, DOOR, EPOCH = "ledgers-zone-a-0", Door("10.0.0.1:3184", "cluster-uid"), 7
GRANT = GrantRecord(
    id="grant",
    bookie_id="data.ledgers.zone-a.0",
    pod_uid="pod-1",
    evidence="ours",
    report_evidence="its own",
    cookie_version=0,
    new_incarnation=2,
    profile="Full",
    epoch=EPOCH,
    issued_at="2027-01-15T08:00:00Z",
    expires_at="2027-01-15T08:05:00Z",
    issued_by="operator-1",
)
ASIDE = SetAside(POD, "data.ledgers.zone-a.0", DOOR, Aside(True, "its disk clicks", "order", 1), EPOCH)
COOKIE = RestoreCookie(POD, DOOR, "what was judged", EPOCH)
LOSS = AcceptLedgerLoss("uid-burnt", "7", ("data.ledgers.zone-a.0",), "somebody", "the rack burnt", DOOR, EPOCH)
SETTINGS = ChangeSettings(POD, DOOR, (("logLevel", "DEBUG"),), EPOCH)


@dataclass
class Bookies:
    """They answer every order with `answer`, or cannot be reached."""

    answer: OrderAnswer = OrderAnswer(True)
    is_reachable: bool = True
    calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    takes_s: float = 0.0
    clock_s: float = 1_000.0

    def __getattr__(self, name: str) -> Any:
        async def call(*args: Any, **how: Any) -> Any:
            self.calls.append((name, args, how))
            self.clock_s += self.takes_s
            if not self.is_reachable:
                raise BookieUnreachable("nobody answers")
            if name == "grant":
                return GrantAnswer(self.answer.is_done, self.answer.refused_reason, self.answer.text)
            return self.answer

        return call


def orders(bookies: Any, *, has_lease: bool = True) -> Orders:
    kube: Any = None  # an order needs no API server
    return Orders(Hand(kube, bookies, CrashPoint(0, ""), may_act=lambda: has_lease, loop_s=lambda: bookies.clock_s))


def plan(**changes: Any) -> FleetPlan:
    """One in which nothing is asked for but what `changes` say. Its operation is of whom LOSS says."""
    found = fleet.decide(make.observation())
    operation = replace(make.operation("burnt"), uid=LOSS.operation_uid)
    return replace(found, operations=(Told(operation, operation.status),), **changes)


Give = Callable[[Orders], Any]
GIVEN: dict[str, Give] = {
    "grant": lambda one: one.grant(SendGrant(POD, DOOR, GRANT, 300_000)),
    "set_aside": lambda one: one.set_aside("data", ASIDE),
    "fill_holes": lambda one: one.fill("data", FillHoles(POD, DOOR)),
    "change_settings": lambda one: one.change_settings("data", SETTINGS),
    "restore_cookie": lambda one: one.give(plan(cookies=(COOKIE,))),
    "accept_ledger_loss": lambda one: one.give(plan(losses=(LOSS,))),
}


@pytest.mark.parametrize("name", GIVEN)
def test_without_the_lease_no_order_is_given(name: str) -> None:
    bookies = Bookies()

    with pytest.raises(LostLease):
        asyncio.run(GIVEN[name](orders(bookies, has_lease=False)))

    assert bookies.calls == []


@pytest.mark.parametrize("name", GIVEN)
def test_a_bookie_that_nobody_reaches_ends_no_pass(name: str) -> None:
    bookies = Bookies(is_reachable=False)

    asyncio.run(GIVEN[name](orders(bookies)))

    assert [call[0] for call in bookies.calls] == [name], "asked once; the next pass asks again"


@pytest.mark.parametrize("name", [one for one in GIVEN if one not in ("grant", "fill_holes")])
def test_an_order_says_which_operator_gives_it(name: str) -> None:
    """The epoch of a grant is in its record; to fill holes harms nobody."""
    bookies = Bookies()

    asyncio.run(GIVEN[name](orders(bookies)))

    assert [how["operator_epoch"] for _, _, how in bookies.calls] == [EPOCH]


def test_a_bookie_hears_what_was_decided_and_nothing_else() -> None:
    bookies = Bookies()
    one = orders(bookies)

    for name in ("set_aside", "change_settings", "restore_cookie", "accept_ledger_loss"):
        asyncio.run(GIVEN[name](one))

    said = {
        name: (args, {key: how[key] for key in how if key != "operator_epoch"}) for name, args, how in bookies.calls
    }
    assert said == {
        "set_aside": ((DOOR, ASIDE.bookie_id, ASIDE.order), {}),
        "change_settings": ((DOOR, {"logLevel": "DEBUG"}), {}),
        "restore_cookie": ((DOOR, "what was judged"), {}),
        "accept_ledger_loss": ((DOOR, "7", LOSS.bookie_ids), {"by": "somebody", "reason": "the rack burnt"}),
    }


def test_why_an_order_of_a_person_was_not_carried_out_is_told_by_bookie() -> None:
    refused = Bookies(OrderAnswer(False, "newer", "a newer operator was here"))
    done = Bookies()
    other = replace(COOKIE, bookie="ledgers-zone-b-0")
    asked = plan(asides=(ASIDE,), cookies=(other,))

    assert asyncio.run(orders(refused).give(asked)) == {
        POD: Hindrance("newer: a newer operator was here"),
        "ledgers-zone-b-0": Hindrance("newer: a newer operator was here"),
    }
    assert asyncio.run(orders(done).give(asked)) == {}


@pytest.mark.parametrize(
    ("answer", "is_done"),
    [
        (OrderAnswer(True, "", "closed"), True),
        (OrderAnswer(False, "missing", "there is no ledger 7"), True),
        (OrderAnswer(False, "in_use", "somebody answers for it"), False),
    ],
)
def test_what_was_said_of_a_ledger_is_kept_with_its_end_and_how_long_it_took(
    answer: OrderAnswer, is_done: bool
) -> None:
    bookies = Bookies(answer, takes_s=20.0)
    one, asked = orders(bookies), plan(losses=(LOSS,))

    asyncio.run(one.give(asked))

    (known,) = one.ledger_answers(asked.observation.cluster).values()
    assert (known.is_done, known.text) == (is_done, answer.text)
    assert known.is_missing is (answer.refused_reason == "missing")
    assert (known.told_ms, known.took_ms) == (asked.observation.now_ms + 20_000, 20_000)


def test_what_was_said_is_forgotten_with_its_operation_and_kept_by_cluster() -> None:
    one, asked = orders(Bookies()), plan(losses=(LOSS,))
    asyncio.run(one.give(asked))
    other = replace(asked.observation.cluster, name="other")
    assert one.ledger_answers(other) == {}

    asyncio.run(one.give(plan()))
    assert len(one.ledger_answers(asked.observation.cluster)) == 1
    asyncio.run(one.give(replace(plan(), operations=())))
    assert one.ledger_answers(asked.observation.cluster) == {}

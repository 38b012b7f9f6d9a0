"""Which ledgers a drain tries when, and when it may say that none is left (spec/metadata.md#M41)."""

from bookie.base.ids import LedgerId
from bookie.base.units import NS_PER_S
from bookie.client.repair.naming import AffectedLedger
from bookie.ports.admin import BlockedLedger
from bookie.server.drain_list import BLOCKED_SHOWN_MAX, DrainList, look_again_ns

ONE, TWO = LedgerId(1), LedgerId(2)


def listed(*ledger_ids: LedgerId) -> DrainList:
    drained = DrainList()
    drained.looked([AffectedLedger(each) for each in ledger_ids], 0, is_proof=True)
    return drained


def test_it_is_empty_by_a_look_and_never_because_the_last_ledger_was_moved() -> None:
    drained = listed(ONE)

    drained.moved(ONE)

    assert (drained.left_count, drained.moved_count, drained.is_empty) == (0, 1, False)
    drained.looked([], 5, is_proof=True)
    assert drained.is_empty


def test_a_look_that_could_not_see_all_proves_nothing() -> None:
    drained = DrainList()

    drained.looked([], 0, is_proof=False)

    assert not drained.is_empty


def test_it_is_empty_no_more_when_a_later_look_finds_a_ledger() -> None:
    drained = listed()
    assert drained.is_empty

    drained.looked([AffectedLedger(TWO)], 7, is_proof=True)

    assert (drained.is_empty, drained.due(7)) == (False, [TWO])


def test_what_a_look_does_not_find_any_more_is_done() -> None:
    drained = listed(ONE, TWO)
    drained.blocked(ONE, "no other bookie", 0, is_open=False)

    drained.looked([AffectedLedger(TWO)], 1, is_proof=True)

    assert (drained.left_count, drained.moved_count, drained.blocked_count) == (1, 1, 0)


def test_a_blocked_ledger_is_tried_again_after_pauses_that_grow_to_a_bound() -> None:
    drained, now_ns, pauses = listed(ONE), 0, []

    for _ in range(20):
        drained.blocked(ONE, "no other bookie", now_ns, is_open=False)
        assert drained.due(now_ns) == []
        due_ns = drained.next_due_ns()
        assert due_ns is not None
        pauses.append((due_ns - now_ns) / NS_PER_S)
        now_ns = due_ns
        assert drained.due(now_ns) == [ONE]

    assert pauses[:4] == [1, 2, 4, 8]
    assert set(pauses[10:]) == {300}


def test_a_look_in_between_does_not_shorten_the_pause() -> None:
    drained = listed(ONE)
    drained.blocked(ONE, "no other bookie", 0, is_open=False)

    drained.looked([AffectedLedger(ONE)], 1, is_proof=True)

    assert drained.due(2) == []


def test_ledgers_that_wait_for_a_writer_are_counted_and_looked_at_often() -> None:
    drained = listed(ONE, TWO)
    for turn in range(20):
        drained.blocked(ONE, "OPEN", turn, is_open=True)

    assert (drained.open_count, drained.blocked_count, drained.left_count) == (1, 1, 2)
    assert drained.due(19 + 60 * NS_PER_S) == [ONE, TWO]


def test_a_ledger_that_is_blocked_for_another_kind_of_reason_begins_with_short_pauses_again() -> None:
    """Its writer closed it after an hour: to move it is tried within a second, and not after five minutes."""
    drained, now_ns = listed(ONE), 100 * NS_PER_S
    for _ in range(20):
        drained.blocked(ONE, "OPEN", 0, is_open=True)

    drained.blocked(ONE, "no other bookie", now_ns, is_open=False)

    assert (drained.open_count, drained.blocked_count) == (0, 1)
    assert drained.next_due_ns() == now_ns + NS_PER_S
    drained.blocked(ONE, "no other bookie", now_ns, is_open=False)
    drained.blocked(ONE, "OPEN", now_ns, is_open=True)
    assert drained.next_due_ns() == now_ns + 2 * NS_PER_S


def test_the_first_blocked_ledgers_are_shown_with_their_reasons() -> None:
    drained = listed(*map(LedgerId, range(100)))
    for number in range(99, -1, -1):
        drained.blocked(LedgerId(number), f"reason {number}" + "x" * 1000, 0, is_open=False)

    shown = drained.shown()

    assert [each.ledger_id for each in shown] == list(range(BLOCKED_SHOWN_MAX))
    assert isinstance(shown[0], BlockedLedger)
    assert shown[7].reason.startswith("reason 7x")
    assert len(shown[7].reason) == 400
    assert drained.blocked_count == 100


def test_only_a_new_reason_is_news() -> None:
    drained = listed(ONE)

    assert drained.blocked(ONE, "no other bookie", 0, is_open=False)
    assert not drained.blocked(ONE, "no other bookie", 1, is_open=False)


def test_looking_takes_a_fifth_of_the_time_at_most() -> None:
    assert look_again_ns(0, NS_PER_S) == 31 * NS_PER_S
    assert look_again_ns(0, 100 * NS_PER_S) == 500 * NS_PER_S

"""What a ledger needs so that every named bookie holds its share (spec/metadata.md#M44, M46, M47); when who looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bookie.base.ids import BookieId, EntryId
from bookie.metadata import lost_entries
from bookie.metadata.ledger import LedgerMetadata, new_ledger
from bookie.quorum import absences, mending
from bookie.quorum.absences import Absences
from bookie.quorum.audits import Audit, AuditTimes
from bookie.quorum.mending import Holding, Shortage, Standing

A, B, C, D = (BookieId(f"{name}:1") for name in "abcd")
PRESENT, AWAY, LOST = Standing.PRESENT, Standing.AWAY, Standing.LOST
ALL = Holding([(0, 0, 100, 0)])


def ledger(size: int = 3, write: int = 3, ack: int = 2) -> LedgerMetadata:
    return new_ledger(ensemble_size=size, write_quorum=write, ack_quorum=ack, bookies=(A, B, C)[:size])


CLOSED = ledger().closed(EntryId(9), 100)


def judged(metadata: LedgerMetadata, **of: Standing | Holding) -> mending.Mending:
    """`of`: per bookie (a, b, ...) its standing, or what it holds."""
    given = {BookieId(f"{name}:1"): value for name, value in of.items()}
    standings = {each: given[each] if isinstance(given[each], Standing) else PRESENT for each in given}
    held = {each: value for each, value in given.items() if isinstance(value, Holding)}
    return mending.judge(metadata, standings, held)  # type: ignore[arg-type]


def test_a_ledger_whose_bookies_hold_their_shares_needs_nothing() -> None:
    assert judged(CLOSED, a=ALL, b=ALL, c=ALL).is_whole


def test_what_a_bookie_lacks_is_filled_in_place_and_the_metadata_is_let_alone() -> None:
    found = judged(CLOSED, a=ALL, b=Holding([(0, 0, 3, 0), (5, 5, 2, 0)]), c=Holding(()))

    assert found.fills == (Shortage(B, 5, EntryId(3)), Shortage(C, 10, EntryId(0)))
    assert found.lost == ()
    assert found.missing == (B, C)


def test_a_bookie_that_cannot_say_is_waited_for_and_nothing_is_copied_to_it() -> None:
    found = judged(CLOSED, a=ALL, b=Holding(None, "limbo"), c=ALL)

    assert (found.fills, found.lost, found.missing) == ((), (), ())
    assert not found.is_whole
    assert found.waits == ("bookie b:1 does not say what it holds: limbo",)


def test_a_bookie_that_is_away_is_waited_for_and_one_that_is_lost_is_replaced() -> None:
    found = judged(CLOSED, a=ALL, b=AWAY, c=LOST)

    assert found.lost == (C,)
    assert not found.must_end
    assert len(found.waits) == 1


def test_a_ledger_that_names_a_lost_bookie_is_not_whole_whatever_the_others_hold() -> None:
    found = judged(CLOSED, a=ALL, b=ALL, c=LOST)

    assert not found.is_whole
    assert found.missing == (C,)


def test_a_ledger_in_recovery_whose_bookies_are_there_is_left_to_who_recovers_it() -> None:
    assert judged(ledger().in_recovery(), a=ALL, b=ALL, c=ALL).is_whole


@pytest.mark.parametrize(
    ("metadata", "must_end"),
    [
        (ledger(), True),
        (ledger().in_recovery(), True),
        (CLOSED, False),
        (ledger().with_ensemble(EntryId(5), (A, B, D)), False),
    ],
)
def test_a_ledger_must_end_before_a_lost_bookie_of_its_last_ensemble_is_replaced(
    metadata: LedgerMetadata, must_end: bool
) -> None:
    standings = {each: LOST if each == C else PRESENT for each in mending.named(metadata)}

    assert mending.judge(metadata, standings, {}).must_end is must_end


def test_entries_without_an_end_are_no_holes() -> None:
    """Of an open ledger only what an ensemble change has sealed counts."""
    metadata = ledger().with_ensemble(EntryId(5), (A, B, D))

    found = judged(metadata, a=Holding(()), b=ALL, c=ALL, d=Holding(()))

    assert found.fills == (Shortage(A, 5, EntryId(0)),)


@given(held=st.sets(st.integers(0, 9)), index=st.integers(0, 2), write=st.integers(1, 3))
def test_missing_entries_are_those_of_the_write_sets_that_are_not_there(held: set[int], index: int, write: int) -> None:
    metadata = ledger(write=write, ack=1).closed(EntryId(9), 100)
    groups = [(each, each, 1, 0) for each in sorted(held)]
    bookie = metadata.last_segment.bookies[index]
    wanted = [each for each in range(10) if bookie in metadata.write_set(EntryId(each)) and each not in held]

    shortage = mending.shortage_of(metadata, bookie, Holding(groups))

    assert list(mending.missing_entries(metadata, bookie, groups)) == wanted
    assert shortage == (Shortage(bookie, len(wanted), EntryId(wanted[0])) if wanted else None)


def test_what_a_bookie_lists_and_gives_no_good_copy_of_is_missing_beside_what_it_does_not_list() -> None:
    five = Holding([(0, 0, 5, 0)], damaged=[EntryId(0)])

    found = judged(CLOSED, a=ALL, b=five, c=Holding(ALL.groups, damaged=[EntryId(9)]))

    assert found.fills == (Shortage(B, 6, EntryId(0), damaged=1), Shortage(C, 1, EntryId(9), damaged=1))
    assert found.missing == (B, C)


def test_one_that_gives_no_list_is_known_to_lack_what_was_read_and_the_rest_is_waited_for() -> None:
    found = judged(CLOSED, a=ALL, b=Holding(None, "no lists", damaged=[EntryId(9)]), c=ALL)

    assert found.fills == (Shortage(B, 1, EntryId(9), damaged=1),)
    assert found.waits == ("bookie b:1 does not say what it holds: no lists",)


def test_one_that_lists_all_and_did_not_let_it_be_read_is_not_whole_and_lacks_nothing() -> None:
    found = judged(CLOSED, a=ALL, b=Holding(ALL.groups, "too busy"), c=ALL)

    assert not found.is_whole
    assert found.missing == ()


def test_the_ends_of_a_share_are_those_of_each_segment_with_an_end_as_far_as_they_are_listed() -> None:
    metadata = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=(A, B, C))
    metadata = metadata.with_ensemble(EntryId(5), (D, B, C)).closed(EntryId(9), 1)  # b's share: 0, 1, 3, 4 and 6, 7, 9

    assert mending.ends_of(metadata, B, None) == [0, 4, 6, 9]
    assert mending.ends_of(metadata, B, [(4, 4, 3, 0)]) == [4, 6]
    assert mending.ends_of(metadata, D, None) == [5, 9]


def test_what_has_no_end_or_holds_none_of_a_share_has_no_ends() -> None:
    made = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=(A, B, C))

    assert mending.ends_of(made, A, None) == []
    assert mending.ends_of(made.with_ensemble(EntryId(5), (A, B, D)), A, None) == [0, 3]
    assert mending.ends_of(made.closed(EntryId(0), 1), C, None) == []  # entry 0 is on a and b


def test_entries_declared_lost_are_no_ends_and_do_not_cut_a_segment_in_pieces() -> None:
    made = new_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2, bookies=(A, B, C)).closed(EntryId(19), 7)
    lost = [(EntryId(each), EntryId(each)) for each in (0, 1, 4, 7, 19)]
    act = lost_entries.Act("ann", "burnt", 1, (A,), tuple(lost))
    metadata = made.with_custom(lost_entries.KEY, lost_entries.dump([act]))
    owed = [entry for entry in range(20) if B in made.write_set(EntryId(entry)) and (entry, entry) not in lost]

    assert mending.ends_of(metadata, B, None) == [owed[0], owed[-1]]
    assert mending.share_size(metadata, B) == len(owed)
    assert list(mending.missing_entries(metadata, B, ())) == owed
    shortage = mending.shortage_of(metadata, B, Holding(()))
    assert shortage is not None
    assert (shortage.count, shortage.first) == (len(owed), owed[0])


# ---- who is lost -----------------------------------------------------------------------------------------------------


def test_each_bookie_has_its_own_delay_and_one_that_came_back_begins_anew() -> None:
    seen = Absences()

    assert seen.seen([A, B, C], [A], 0) == []
    assert seen.seen([A, B, C], [A, C], 50) == [C]
    assert seen.seen([A, B, C], [A], 60) == []

    assert seen.lost(99, delay_ns=100) == frozenset()
    assert seen.lost(100, delay_ns=100) == {B}
    assert seen.lost(160, delay_ns=100) == {B, C}
    assert seen.away_ns(B, 70) == 70
    assert seen.away_ns(A, 70) == 0


def test_the_next_loss_is_that_of_the_bookie_that_is_away_longest_and_not_lost_yet() -> None:
    seen = Absences()
    for count, at_ns in enumerate((0, 50, 60), 1):
        seen.seen([A, B, C][:count], [], at_ns)

    assert seen.next_loss_ns(99, delay_ns=100) == 100
    assert seen.next_loss_ns(100, delay_ns=100) == 150
    assert seen.next_loss_ns(150, delay_ns=100) == 160
    assert seen.next_loss_ns(160, delay_ns=100) is None


@pytest.mark.parametrize(("present", "is_believed"), [((A, B, C), True), ((A, B), True), ((A,), False), ((), False)])
def test_no_bookie_is_lost_while_more_than_half_are_away(present: tuple[BookieId, ...], is_believed: bool) -> None:
    assert absences.is_believable(present, [A, B, C]) is is_believed


# ---- when the auditor looks ------------------------------------------------------------------------------------------


NOBODY: frozenset[BookieId] = frozenset()


def test_a_loss_is_looked_at_once_and_again_after_the_bookie_came_back() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=0, probe_ns=0, grace_ns=10)
    first = plan.due(NOBODY, 0)
    assert first is not None
    plan.done(first, NOBODY, 0)

    lost = plan.due(frozenset({A}), 1)
    assert lost == Audit("lost: a:1")
    assert plan.due(frozenset({A}), 2) == lost  # it broke off: due still
    plan.done(lost, frozenset({A}), 2)
    assert plan.due(frozenset({A}), 3) is None
    assert plan.due(NOBODY, 4) is None
    assert plan.due(frozenset({A}), 5) == lost


def test_a_look_for_a_loss_does_not_wait_for_a_comparison_that_is_due_too() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=1_000, probe_ns=1_000, grace_ns=10)
    plan.returned([B], 0)

    lost = plan.due(frozenset({A}), 20)

    assert lost == Audit("lost: a:1")
    assert not lost.asks_bookies
    plan.done(lost, frozenset({A}), 20)
    after = plan.due(frozenset({A}), 21)
    assert after == Audit("interval of the comparison", compares_all=True, compared=frozenset({B}), probes=True)


def test_a_look_asks_bookies_when_it_compares_all_or_some() -> None:
    asks = [Audit("x"), Audit("x", compares_all=True), Audit("x", compared=frozenset({A}))]

    assert [each.asks_bookies for each in asks] == [False, True, True]


def test_a_bookie_that_came_back_is_compared_after_its_grace() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=0, probe_ns=0, grace_ns=10)
    plan.done(Audit(""), NOBODY, 0)

    plan.returned([B], 5)

    assert plan.due(NOBODY, 14) is None
    audit = plan.due(NOBODY, 15)
    assert audit is not None
    assert audit.compares(B)
    assert not audit.compares(A)
    plan.done(audit, NOBODY, 15)
    assert plan.due(NOBODY, 16) is None


def test_a_comparison_with_all_counts_for_who_was_back_when_it_began_and_for_nobody_who_came_later() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=300, probe_ns=0, grace_ns=10)
    plan.returned([A], 20)
    plan.returned([B], 21)

    plan.done(Audit("", compares_all=True), NOBODY, 20)

    audit = plan.due(NOBODY, 31)
    assert audit is not None
    assert audit.compared == {B}


def test_looks_come_at_their_intervals_and_when_somebody_asks() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=300, probe_ns=0, grace_ns=10)
    first = plan.due(NOBODY, 0)
    assert first is not None
    assert first.compares_all
    plan.done(first, NOBODY, 0)

    assert plan.due(NOBODY, 299) is None
    compared = plan.due(NOBODY, 300)
    assert compared is not None
    assert compared.compares_all
    plan.done(compared, NOBODY, 300)
    plan.ask()
    asked = plan.due(NOBODY, 301)
    assert asked == Audit("asked for")
    plan.done(asked, NOBODY, 301)
    assert plan.due(NOBODY, 302) is None


def test_a_comparison_reads_when_the_time_for_that_is_over_and_no_look_reads_without_one() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=300, probe_ns=500, grace_ns=10)
    first = plan.due(NOBODY, 0)
    assert first is not None
    assert first.probes
    plan.done(first, NOBODY, 0)

    lists = plan.due(NOBODY, 300)
    assert lists == Audit("interval of the comparison", compares_all=True)
    plan.done(lists, NOBODY, 300)
    plan.ask()
    asked = plan.due(NOBODY, 599)
    assert asked == Audit("asked for")
    plan.done(asked, NOBODY, 599)
    reads = plan.due(NOBODY, 600)
    assert reads == Audit("interval of the comparison", compares_all=True, probes=True)
    assert plan.due(NOBODY, 601) == reads  # it broke off: due still


def test_it_is_told_how_long_it_is_until_the_next_look() -> None:
    plan = AuditTimes(audit_ns=1_000, check_ns=300, probe_ns=500, grace_ns=10)
    assert plan.until_due_ns(0) is None  # it is due
    plan.done(Audit("", compares_all=True), NOBODY, 0)

    assert plan.until_due_ns(100) == 200
    plan.returned([B], 150)
    assert plan.until_due_ns(155) == 5
    assert plan.until_due_ns(300) == 700  # the others are due, and something stands against them
    assert AuditTimes(audit_ns=9, check_ns=0, probe_ns=0, grace_ns=1).until_due_ns(5) is None

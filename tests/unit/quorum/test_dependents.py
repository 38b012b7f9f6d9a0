"""Which ledgers depend on bookies that are away together (spec/metadata.md#M54)."""

import itertools
import random
from collections.abc import Collection
from dataclasses import replace

import pytest

from bookie.base.ids import BookieId, EntryId
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment, new_ledger
from bookie.quorum import leaving

BOOKIES = tuple(BookieId(f"b{number}") for number in range(8))


def ledger(
    bookies: Collection[BookieId],
    write_quorum: int,
    ack_quorum: int,
    *,
    later: Collection[BookieId] = (),
    last: int = -2,
) -> LedgerMetadata:
    """`later`: the ensemble from entry 10 on. `last`: of a closed ledger; -2 = it is open."""
    made = new_ledger(
        ensemble_size=len(bookies), write_quorum=write_quorum, ack_quorum=ack_quorum, bookies=tuple(bookies), ctoken=1
    )
    if later:
        made = replace(made, segments=(*made.segments, Segment(EntryId(10), tuple(later))))
    if last > -2:
        made = replace(made, state=LedgerState.CLOSED, last_entry=EntryId(last), length=0)
    return made


def may_be_alone(metadata: LedgerMetadata, away: Collection[BookieId]) -> bool:
    """The plain version: some entry, and some ack quorum of its write set, is on `away` alone."""
    return any(
        set(ackers) <= set(away)
        for segment, first, last in metadata.segment_ranges()
        for number in range(first, (first + 40 if last is None else last) + 1)
        for ackers in itertools.combinations(
            [segment.bookies[(number + k) % len(segment.bookies)] for k in range(metadata.write_quorum)],
            metadata.ack_quorum,
        )
    )


def drawn(draw: random.Random) -> LedgerMetadata:
    """A ledger of any shape, of one segment or two."""
    ack_quorum = draw.randint(1, 3)
    write_quorum = draw.randint(ack_quorum, 4)
    size = draw.randint(write_quorum, 5)
    later = draw.sample(BOOKIES, size) if draw.random() < 0.5 else ()
    last = draw.choice((-2, -1, 0, 2, 9, 11, 30)) if not later else draw.choice((-2, 9, 11, 30))
    return ledger(draw.sample(BOOKIES, size), write_quorum, ack_quorum, later=later, last=last)


def test_a_ledger_depends_on_bookies_exactly_when_an_ack_quorum_of_some_entry_may_be_on_them_alone() -> None:
    draw, found = random.Random(44), {True: 0, False: 0}
    for _ in range(1500):
        metadata = drawn(draw)
        away = draw.sample(BOOKIES, draw.randint(1, 4))

        depends = leaving.depends_on(metadata, away)

        assert depends == may_be_alone(metadata, away), (metadata, away)
        found[depends] += 1
    assert min(found.values()) > 300, "both happen"


@pytest.mark.parametrize("away", [BOOKIES[6:], BOOKIES[:1]])
def test_a_ledger_in_recovery_counts_whoever_it_names(away: Collection[BookieId]) -> None:
    recovering = replace(ledger(BOOKIES[:3], 3, 2), state=LedgerState.IN_RECOVERY)

    assert leaving.depends_on(recovering, away)


def is_worse_without(metadata: LedgerMetadata, one: BookieId, missing: Collection[BookieId]) -> bool:
    """The plain version: some entry has an ack quorum away that has `one` in it, and another one missing before."""
    return any(
        set(ackers) <= {one, *missing} and one in members and set(members) & (set(missing) - {one})
        for segment, first, last in metadata.segment_ranges()
        for number in range(first, (first + 40 if last is None else last) + 1)
        for members in [[segment.bookies[(number + k) % len(segment.bookies)] for k in range(metadata.write_quorum)]]
        for ackers in itertools.combinations(members, metadata.ack_quorum)
    )


def test_a_stop_makes_a_ledger_undecidable_exactly_when_it_completes_an_ack_quorum_that_is_away() -> None:
    draw, found = random.Random(38), {True: 0, False: 0}
    for _ in range(1500):
        metadata = drawn(draw)
        one, missing = draw.choice(BOOKIES), draw.sample(BOOKIES, draw.randint(0, 4))

        is_worse = leaving.is_undecidable_without(metadata, one, missing)

        assert is_worse == is_worse_without(metadata, one, missing), (metadata, one, missing)
        found[is_worse] += 1
    assert min(found.values()) > 200, found


def test_in_a_ledger_in_recovery_anybody_may_be_the_one_too_many_but_beside_himself() -> None:
    recovering = replace(ledger(BOOKIES[:3], 3, 2), state=LedgerState.IN_RECOVERY)

    assert leaving.is_undecidable_without(recovering, BOOKIES[7], BOOKIES[:1])
    assert not leaving.is_undecidable_without(recovering, BOOKIES[0], BOOKIES[:1])


def test_what_has_no_end_is_no_fragment_to_copy() -> None:
    """spec/metadata.md#M34: nobody knows yet which entries it has."""
    is_open = ledger(BOOKIES[:3], 3, 2, later=BOOKIES[1:4])

    found = list(leaving.fragments(is_open, BOOKIES[1:2]))

    assert [(one.first, one.last, one.slots) for one in found] == [(0, 9, (1,))]


def test_a_ledger_in_recovery_is_closed_first_although_its_last_ensemble_does_not_name_them() -> None:
    """spec/wire.md#W55: where its recovery puts entries it says only when it closes it."""
    is_open = ledger(BOOKIES[:3], 3, 2, later=BOOKIES[1:4])

    assert not leaving.must_end_first(is_open, BOOKIES[:1])
    assert leaving.must_end_first(replace(is_open, state=LedgerState.IN_RECOVERY), BOOKIES[:1])

"""The comparison of one ledger, against a model that goes entry by entry."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wire_support
from bookie.base import bitmaps
from bookie.base.bitmaps import Group
from bookie.base.errors import BadInput
from bookie.base.ids import BookieId, EntryId
from bookie.metadata import lost_entries
from bookie.metadata.ledger import LedgerMetadata, LedgerState, Segment
from bookie.wire import availability
from pyspark_bookkeeper.audit import compare, tally
from pyspark_bookkeeper.audit.compare import MISSING, UNEXPECTED, UNREACHABLE, ReplicaFinding, Unknown

BOOKIES = [BookieId(f"b{number}") for number in range(6)]
STRANGER = BookieId("stranger")
ZONES = {BookieId(f"b{number}"): "xyz"[number % 3] for number in range(5)}  # the last one is not registered


def runs_of(ids: set[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for entry in sorted(ids):
        if runs and runs[-1][1] + 1 == entry:
            runs[-1] = (runs[-1][0], entry)
        else:
            runs.append((entry, entry))
    return runs


def groups_of(ids: set[int]) -> list[Group]:
    """As a bookie would send them."""
    return availability.decode_groups(wire_support.encode_runs(runs_of(ids)))


def closed(*ensembles: str, last: int, quorum: int = 2, firsts: tuple[int, ...] = (0,)) -> LedgerMetadata:
    """A closed ledger; "012" is the ensemble b0, b1, b2."""
    segments = tuple(
        Segment(EntryId(first), tuple(BOOKIES[int(letter)] for letter in letters))
        for first, letters in zip(firsts, ensembles, strict=True)
    )
    return LedgerMetadata(len(ensembles[0]), quorum, 1, segments, LedgerState.CLOSED, EntryId(last), 7)


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    size = draw(st.integers(1, 5))
    quorum = draw(st.integers(1, size))
    firsts = sorted({0, *draw(st.lists(st.integers(1, 60), max_size=3))})
    ensembles = [draw(st.permutations(BOOKIES)) for _ in firsts]
    segments = tuple(Segment(EntryId(f), tuple(e[:size])) for f, e in zip(firsts, ensembles, strict=True))
    if draw(st.booleans()):
        return LedgerMetadata(size, quorum, 1, segments)
    last = EntryId(draw(st.integers(max(firsts) - 1, 70)))
    lost = sorted(draw(st.one_of(st.just(set()), st.sets(st.integers(0, 75), max_size=8))))
    act = lost_entries.Act("ann", "burnt", 1, (), tuple((EntryId(each), EntryId(each)) for each in lost))
    made = LedgerMetadata(size, quorum, 1, segments, LedgerState.CLOSED, last, 7)
    return made.with_custom(lost_entries.KEY, lost_entries.dump([act])) if lost else made


def promised(metadata: LedgerMetadata, end: int) -> dict[BookieId, set[int]]:
    """The model: one entry after the other."""
    wanted: dict[BookieId, set[int]] = {bookie: set() for bookie in BOOKIES}
    for entry in owed(metadata, end):
        for bookie in metadata.write_set(EntryId(entry)):
            wanted[bookie].add(entry)
    return wanted


def owed(metadata: LedgerMetadata, end: int) -> list[int]:
    return [entry for entry in range(end) if metadata.loss_of(EntryId(entry)) is None]


def told(result: compare.Comparison, kind: str, bookie: BookieId, universe: set[int]) -> set[int]:
    """The entries that the findings of one kind and bookie tell of; each range counts exactly its own, and has no
    neighbour that it could have been one with."""
    entries: set[int] = set()
    ends: list[int] = []
    for one in result.findings(1):
        if (one.kind, one.bookie) == (kind, bookie):
            inside = {entry for entry in universe if one.first <= entry <= one.last}
            assert one.count == len(inside)
            assert {one.first, one.last} <= inside
            assert not inside & entries
            assert not ends or any(ends[-1] < entry < one.first for entry in universe), "two ranges could be one"
            entries |= inside
            ends.append(one.last)
    return entries


@settings(deadline=None)
@given(st.data(), ledgers(), st.sampled_from([3, 8, 64, 1 << 22]))
def test_findings_are_what_a_model_that_goes_entry_by_entry_finds(
    data: st.DataObject, metadata: LedgerMetadata, window: int
) -> None:
    end = metadata.last_entry + 1 if metadata.is_closed else data.draw(st.integers(0, 70))
    wanted = promised(metadata, end)
    holdings: dict[BookieId, compare.Holding] = {}
    held: dict[BookieId, set[int]] = {}
    for bookie in BOOKIES:
        changed = data.draw(st.one_of(st.just(set()), st.sets(st.integers(0, 80), max_size=12)))
        held[bookie] = data.draw(st.sampled_from([wanted[bookie], set()])) ^ changed
        unknown = data.draw(st.integers(0, 5)) == 0
        holdings[bookie] = Unknown("it did not answer") if unknown else groups_of(held[bookie])

    result = compare.compare(metadata, end, holdings, ZONES, is_final=metadata.is_closed, window=window)

    seen: dict[BookieId, set[int]] = {}
    for bookie in BOOKIES:
        judged = held[bookie] if metadata.is_closed else {entry for entry in held[bookie] if entry < end}
        is_unknown = isinstance(holdings[bookie], Unknown)
        seen[bookie] = set() if is_unknown else wanted[bookie] & judged
        assert told(result, MISSING, bookie, wanted[bookie]) == (set() if is_unknown else wanted[bookie] - judged)
        assert told(result, UNEXPECTED, bookie, judged) == (set() if is_unknown else judged - wanted[bookie])
        assert told(result, UNREACHABLE, bookie, wanted[bookie]) == (wanted[bookie] if is_unknown else set())
        assert result.replicas[bookie].expected == len(wanted[bookie])
    counts = [sum(entry in seen[bookie] for bookie in BOOKIES) for entry in owed(metadata, end)]
    assert result.lost == end - len(owed(metadata, end))
    assert result.replicas_min == min(counts, default=metadata.write_quorum)
    for zone, least in result.survivors.items():
        outside = [bookie for bookie in BOOKIES if ZONES.get(bookie, "") != zone]
        counts = [sum(entry in seen[bookie] for bookie in outside) for entry in owed(metadata, end)]
        assert least == min(counts, default=metadata.write_quorum)


def test_a_whole_striped_replica_that_is_missing_is_one_range() -> None:
    metadata = closed("012", last=9_999)
    holdings: dict[BookieId, compare.Holding] = {b: groups_of(ids) for b, ids in promised(metadata, 10_000).items()}
    holdings[BOOKIES[1]] = ()

    result = compare.compare(metadata, 10_000, holdings, ZONES, is_final=True)

    assert list(result.findings(7)) == [ReplicaFinding(7, "b1", MISSING, 0, 9_999, 6_667)]
    assert result.replicas_min == 1


def test_a_bookie_that_does_not_know_is_unreachable_and_neither_missing_nor_clean() -> None:
    metadata = closed("012", last=5, quorum=3)
    whole = groups_of(set(range(6)))
    holdings: dict[BookieId, compare.Holding] = {BOOKIES[0]: whole, BOOKIES[1]: Unknown("in limbo"), BOOKIES[2]: whole}

    result = compare.compare(metadata, 6, holdings, ZONES, is_final=True)

    assert list(result.findings(7)) == [ReplicaFinding(7, "b1", UNREACHABLE, 0, 5, 6, "in limbo")]
    assert not result.is_clean
    assert result.replicas_min == 2


def test_a_bookie_that_owes_nothing_and_does_not_know_is_no_finding_and_counts_as_unanswered() -> None:
    metadata = closed("012", last=5, quorum=3)
    whole = groups_of(set(range(6)))
    holdings: dict[BookieId, compare.Holding] = dict.fromkeys(BOOKIES[:3], whole)
    holdings |= {BOOKIES[0]: Unknown("in limbo"), BOOKIES[3]: (), BOOKIES[4]: Unknown("it did not answer")}

    holdings[STRANGER] = groups_of({0})  # it has a forgotten copy: it did say, and its copy was looked at
    read = {STRANGER: compare.Bytes()}

    result = compare.compare(metadata, 6, holdings, ZONES, is_final=True, read=read)
    figures = tally.of(result, tally.CLOSED, write_quorum=3)

    assert [one.bookie for one in result.findings(7)] == ["b0", STRANGER]
    assert [bookie for bookie in holdings if result.is_unanswered(bookie)] == [BOOKIES[4]]
    assert {key[1]: count for key, count in figures.items() if key[-1] == tally.UNANSWERED} == {"b4": 1}
    assert figures["reasons", "it did not answer"] == 1


def test_a_ledger_on_a_bookie_that_never_had_it_is_missing_there_and_unexpected_where_it_is() -> None:
    metadata = closed("01", last=3)
    whole = groups_of(set(range(4)))
    holdings: dict[BookieId, compare.Holding] = {BOOKIES[0]: whole, BOOKIES[1]: (), BOOKIES[4]: whole}

    result = compare.compare(metadata, 4, holdings, ZONES, is_final=True)

    assert list(result.findings(7)) == [
        ReplicaFinding(7, "b1", MISSING, 0, 3, 4),
        ReplicaFinding(7, "b4", UNEXPECTED, 0, 3, 4),
    ]


def test_beyond_the_end_a_closed_ledger_is_judged_and_an_open_one_is_not() -> None:
    holdings: dict[BookieId, compare.Holding] = {BOOKIES[0]: groups_of(set(range(9))), BOOKIES[1]: groups_of({0, 1})}
    metadata = closed("01", last=1)

    final = compare.compare(metadata, 2, holdings, ZONES, is_final=True)

    assert list(final.findings(1)) == [ReplicaFinding(1, "b0", UNEXPECTED, 2, 8, 7)]
    assert compare.compare(metadata, 2, holdings, ZONES, is_final=False).is_clean


def test_a_zone_that_holds_two_of_three_replicas_leaves_one() -> None:
    metadata = closed("014", last=5, quorum=3)
    zones = {BOOKIES[0]: "x", BOOKIES[1]: "x", BOOKIES[4]: "y"}
    whole = groups_of(set(range(6)))

    result = compare.compare(
        metadata, 6, dict.fromkeys((BOOKIES[0], BOOKIES[1], BOOKIES[4]), whole), zones, is_final=True
    )

    assert result.survivors == {"x": 1, "y": 2}


def test_a_copy_that_is_corrupt_or_was_not_given_is_no_replica() -> None:
    metadata = closed("012", last=5, quorum=3)
    whole = groups_of(set(range(6)))
    found = compare.Bytes(read=6, corrupt={2}, unread={4}, why_corrupt="rot", why_unread="silence")

    result = compare.compare(
        metadata, 6, dict.fromkeys(BOOKIES[:3], whole), ZONES, is_final=True, read={BOOKIES[0]: found}
    )

    assert list(result.findings(7)) == [
        ReplicaFinding(7, "b0", "corrupt", 2, 2, 1, "rot"),
        ReplicaFinding(7, "b0", UNREACHABLE, 4, 4, 1, "silence"),
    ]
    assert result.replicas_min == 2


@pytest.mark.parametrize("window", [1, 2, 3, 4, 7, 8, 100])
def test_what_lies_over_the_edges_of_windows_is_told_once_and_whole(window: int) -> None:
    metadata = closed("01", last=6)
    holdings: dict[BookieId, compare.Holding] = {BOOKIES[0]: groups_of({0, 6}), BOOKIES[1]: groups_of(set(range(9)))}

    result = compare.compare(metadata, 7, holdings, ZONES, is_final=True, window=window)

    assert list(result.findings(7)) == [
        ReplicaFinding(7, "b0", MISSING, 1, 5, 5),
        ReplicaFinding(7, "b1", UNEXPECTED, 7, 8, 2),
    ]
    assert (result.replicas["b0"].expected, result.replicas_min) == (7, 1)  # type: ignore[index]


@pytest.mark.parametrize("window", [1, 2, 3, 5, 100])
def test_each_entry_is_looked_for_in_its_segment_whatever_the_window(window: int) -> None:
    metadata = closed("01", last=9).replaced(EntryId(0), BOOKIES[0], BOOKIES[2])
    assert metadata.segments[0].bookies == (BOOKIES[2], BOOKIES[1])
    whole = groups_of(set(range(10)))
    holdings: dict[BookieId, compare.Holding] = {BOOKIES[2]: whole, BOOKIES[1]: whole}

    assert compare.compare(metadata, 10, holdings, ZONES, is_final=True, window=window).is_clean


def test_an_id_that_cannot_be_is_refused_before_it_is_drawn() -> None:
    metadata = closed("0", last=1, quorum=1)
    holdings: dict[BookieId, compare.Holding] = {BOOKIES[0]: [(0, 1 << 60, 1, 1 << 59)]}

    with pytest.raises(BadInput, match="beyond"):
        compare.compare(metadata, 2, holdings, ZONES, is_final=True)


@settings(deadline=None)
@given(st.sets(st.integers(0, 400)), st.integers(0, 300), st.integers(1, 200))
def test_drawing_a_window_keeps_exactly_its_entries(ids: set[int], start: int, length: int) -> None:
    mask = bitmaps.drawn(groups_of(ids), start, start + length)

    assert {start + bit for bit in range(length) if mask >> bit & 1} == {i for i in ids if start <= i < start + length}


@settings(deadline=None)
@given(
    st.integers(0, 50),
    st.integers(1, 6),
    st.integers(0, 5),
    st.integers(1, 40),
    st.integers(0, 300),
    st.integers(1, 99),
)
def test_a_periodic_group_is_drawn_as_its_runs(
    first: int, size: int, gap: int, times: int, start: int, length: int
) -> None:
    period = size + gap
    group = (first, first + (times - 1) * period, size, period)
    ids = {first + run * period + offset for run in range(times) for offset in range(size)}

    mask = bitmaps.drawn([group], start, start + length)

    assert {start + bit for bit in range(length) if mask >> bit & 1} == {i for i in ids if start <= i < start + length}


def test_ranges_beyond_the_bound_are_counted_in_the_last_one() -> None:
    ranges = bitmaps.Ranges()
    count = bitmaps.RANGES_MAX + 500

    ranges.add(bitmaps.repeated(1, 2, count), bitmaps.ones(2 * count), 0)

    assert len(ranges.found) == bitmaps.RANGES_MAX
    assert ranges.count == sum(found for _, _, found in ranges.found) == count
    assert ranges.found[-1] == (2 * bitmaps.RANGES_MAX - 2, 2 * count - 2, 501)

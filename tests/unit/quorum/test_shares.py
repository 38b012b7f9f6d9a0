"""Counting by arithmetic is counting: against the plain way, on everything small; and nothing large takes time."""

from hypothesis import given, settings
from hypothesis import strategies as st

import wire_support
from bookie.base.ids import EntryId
from bookie.quorum.shares import Group, Share, Stretch, entries_from
from bookie.wire import availability


@st.composite
def shares(draw: st.DrawFn) -> Share:
    size = draw(st.integers(1, 7))
    return Share(size, draw(st.integers(1, size)), draw(st.integers(0, size - 1)))


@st.composite
def lists_of_groups(draw: st.DrawFn) -> list[Group]:
    groups, end = list[Group](), -1
    for _ in range(draw(st.integers(0, 4))):
        size, count = draw(st.integers(1, 4)), draw(st.integers(1, 40))
        period = draw(st.integers(size + 1, 9)) if count > 1 else 0
        start = end + draw(st.integers(1, 9))
        groups.append((start, start + (count - 1) * period, size, period))
        end = groups[-1][1] + size - 1
    return groups


def plain(share: Share, first: int, last: int) -> list[int]:
    return [entry for entry in range(first, last + 1) if (share.index - entry) % share.size < share.quorum]


@settings(deadline=None)  # a loaded machine is no defect
@given(share=shares(), first=st.integers(0, 60), more=st.integers(-3, 60))
def test_a_share_is_every_entry_whose_write_set_has_the_bookie(share: Share, first: int, more: int) -> None:
    wanted = plain(share, first, first + more)

    assert share.count(first, first + more) == len(wanted)
    assert list(share.entries(first, first + more)) == wanted
    assert share.ends(first, first + more) == sorted({*wanted[:1], *wanted[-1:]})


@settings(deadline=None)
@given(share=shares(), groups=lists_of_groups(), first=st.integers(0, 200), more=st.integers(-1, 300))
def test_what_a_list_holds_and_lacks_of_a_share_is_what_one_by_one_says(
    share: Share, groups: list[Group], first: int, more: int
) -> None:
    held = {
        run + number
        for start, last_start, size, period in groups
        for run in range(start, last_start + 1, period or 1)
        for number in range(size)
    }
    wanted = plain(share, first, first + more)

    assert share.count_held(groups, first, first + more) == len(held & set(wanted))
    assert share.first_absent(groups, first, first + more) == min(set(wanted) - held, default=None)


def test_the_entries_of_stretches_go_on_from_any_of_them() -> None:
    share = Share(3, 2, 0)
    stretches = [Stretch(share, EntryId(0), EntryId(4)), Stretch(share, EntryId(9), EntryId(12))]
    everything = [*plain(share, 0, 4), *plain(share, 9, 12)]

    for begin in range(14):
        assert list(entries_from(stretches, EntryId(begin))) == [entry for entry in everything if entry >= begin]


def test_a_list_that_claims_half_of_all_entries_is_compared_at_once() -> None:
    groups = availability.decode_groups(wire_support.encode_runs([(0, 2**31 - 1)]))
    groups.append((2**31, 2**31 + 2**40 * 5, 3, 5))
    share = Share(3, 2, 1)

    held = share.count_held(groups, 0, 2**62)

    assert held == share.count(0, 2**31 - 1) + (2**40 + 1) * 2
    assert share.first_absent(groups, 0, 2**62) == next(share.entries(2**31 + 3, 2**31 + 9))

"""Which bookies an ensemble gets (metadata 12)."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bookie.base import errors
from bookie.base.ids import BookieId
from bookie.quorum import placement
from bookie.quorum.placement import Candidate
from bookie.quorum.schedule import Schedule


def fleet(*zones: str) -> list[Candidate]:
    return [Candidate(BookieId(f"{zone}{number}"), zone) for number, zone in enumerate(zones)]


def test_a_new_ensemble_spans_as_many_zones_as_it_has_bookies() -> None:
    ensemble = placement.choose(Schedule(3, 3, 2), fleet("a", "a", "b", "b", "c"))

    assert ensemble == ("a0", "b2", "c4")


def test_every_write_set_of_a_striped_ensemble_spans_the_zones() -> None:
    ensemble = placement.choose(Schedule(4, 2, 2), fleet("a", "a", "b", "b"))

    zones = [bookie[0] for bookie in ensemble]
    assert all(zones[slot] != zones[(slot + 1) % 4] for slot in range(4))


def test_too_few_zones_are_no_reason_to_refuse() -> None:
    assert len(placement.choose(Schedule(3, 3, 2), fleet("a", "a", "a"))) == 3


def test_too_few_bookies_are_refused_with_a_reason() -> None:
    with pytest.raises(errors.NotEnoughBookies, match="there are 2"):
        placement.choose(Schedule(3, 3, 2), fleet("a", "b"))


def test_the_draw_order_decides_among_equals() -> None:
    candidates = fleet("a", "a", "a")

    assert placement.choose(Schedule(1, 1, 1), candidates[::-1]) == ("a2",)


def test_a_failed_bookie_is_replaced_by_one_of_the_zone_that_is_missing() -> None:
    ensemble = (BookieId("x"), BookieId("y"), BookieId("z"))
    zones = {BookieId("x"): "a", BookieId("y"): "b", BookieId("z"): "c"}

    found = placement.replace(Schedule(3, 3, 2), ensemble, [1], fleet("a", "c", "b"), zones=zones)

    assert found == {1: "b2"}


def test_members_of_the_ensemble_are_never_chosen_again_and_a_slot_may_stay_empty() -> None:
    ensemble = (BookieId("a0"), BookieId("b1"), BookieId("c2"))

    found = placement.replace(Schedule(3, 3, 2), ensemble, [0, 1], fleet("a", "b", "c", "d"), zones={})

    assert found == {0: "d3"}


@settings(deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=5, max_size=9), st.integers(1, 5), st.data())
def test_no_bookie_is_twice_in_an_ensemble(zones: list[str], size: int, data: st.DataObject) -> None:
    write_quorum = data.draw(st.integers(1, size))
    candidates = data.draw(st.permutations(fleet(*zones)))

    ensemble = placement.choose(Schedule(size, write_quorum, 1), candidates)

    assert len(set(ensemble)) == len(ensemble) == size


def test_regions_are_spread_over_before_zones_are() -> None:
    """Java's region-aware policy: /region/zone."""
    where = ("/east/a", "/east/b", "/east/c", "/west/a", "/west/a")

    ensemble = placement.choose(Schedule(2, 2, 2), fleet(*where))
    larger = placement.choose(Schedule(4, 4, 3), fleet(*where))

    assert [bookie[:5] for bookie in ensemble] == ["/east", "/west"]
    assert sorted(bookie[:7] for bookie in larger) == ["/east/a", "/east/b", "/west/a", "/west/a"]


def test_zones_that_are_a_must_are_refused_when_they_are_not_there() -> None:
    """Java: enforceMinNumRacksPerWriteQuorum; bookies of unknown zone are never chosen then."""
    two_zones = fleet("a", "a", "b", "b")

    assert len(placement.choose(Schedule(3, 3, 2), two_zones, zones_min=2)) == 3
    with pytest.raises(errors.NotEnoughBookies, match=r"must be in 3 zones at least, and the 4 .* are in 2"):
        placement.choose(Schedule(3, 3, 2), two_zones, zones_min=3)
    with pytest.raises(errors.NotEnoughBookies):
        placement.choose(Schedule(2, 2, 2), fleet("a", "", ""), zones_min=2)


def test_copies_go_to_as_many_zones_as_there_are_copies_where_more_are_asked_for() -> None:
    ensemble = placement.choose(Schedule(3, 2, 2), fleet("a", "b", "c"), zones_min=3)

    assert len(ensemble) == 3


def test_a_bookie_that_is_told_of_twice_is_one() -> None:
    twice = [*fleet("a"), *fleet("a")]

    with pytest.raises(errors.NotEnoughBookies, match="there are 1"):
        placement.choose(Schedule(2, 2, 2), twice)
    found = placement.replace(Schedule(2, 2, 2), [BookieId("x"), BookieId("y")], [0, 1], twice, zones={})
    assert found == {0: "a0"}


def test_a_replacement_that_would_leave_too_few_zones_is_none() -> None:
    ensemble = [BookieId("a0"), BookieId("b1")]
    zones = {BookieId("a0"): "a", BookieId("b1"): "b"}

    def replaced(*candidates: str) -> dict[int, BookieId]:
        schedule = Schedule(2, 2, 2)
        return placement.replace(schedule, ensemble, [1], fleet("", "", *candidates), zones=zones, zones_min=2)

    assert replaced("a") == {}
    assert replaced("a", "c") == {1: "c3"}


def test_bookies_without_any_free_space_are_drawn_too() -> None:
    """Their writers are refused by them, with a reason; an error of ours would stop all writers."""
    full = fleet("a", "b")

    assert set(placement.weighted(full, {one.bookie_id: 0 for one in full}, Random(1).randrange)) == set(full)


@settings(deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_weights_reorder_and_lose_nobody(weights: list[int], random: Random) -> None:
    candidates = fleet(*("a" * len(weights)))
    known = {candidate.bookie_id: weight for candidate, weight in zip(candidates, weights, strict=True) if weight}

    order = placement.weighted(candidates, known, random.randrange)

    assert sorted(order, key=lambda c: c.bookie_id) == sorted(candidates, key=lambda c: c.bookie_id)


def test_who_has_more_room_comes_first_more_often_and_an_empty_newcomer_is_not_flooded() -> None:
    candidates = fleet("a", "b", "c")
    weights = {BookieId("a0"): 100, BookieId("b1"): 200, BookieId("c2"): 1_000_000}
    random = Random(1)

    firsts = [str(placement.weighted(candidates, weights, random.randrange)[0].bookie_id) for _ in range(9_000)]

    # 100 : 200 : 600, three times the median at most.
    assert 800 < firsts.count("a0") < 1_200
    assert 1_800 < firsts.count("b1") < 2_200


def shared(*machines: str, zone: str = "") -> list[Candidate]:
    return [Candidate(BookieId(f"{machine}-{number}"), zone, machine) for number, machine in enumerate(machines)]


def machines_of(bookies: tuple[BookieId, ...]) -> list[str]:
    return [bookie.partition("-")[0] for bookie in bookies]


def test_no_two_copies_go_to_one_machine_while_another_would_do() -> None:
    ensemble = placement.choose(Schedule(3, 3, 2), shared("h", "h", "h", "i", "j"))

    assert machines_of(ensemble) == ["h", "i", "j"]


def test_a_machine_counts_more_than_a_region_and_a_zone() -> None:
    """Five slots in windows of three: the region that is rarer has but one machine."""
    east = [Candidate(BookieId(f"e-{n}"), "/east/a", "e") for n in range(3)]
    west = [Candidate(BookieId(f"w{n}-0"), f"/west/{n}", f"w{n}") for n in range(4)]

    found = machines_of(placement.choose(Schedule(5, 3, 2), east + west))

    windows = [{found[(slot + step) % 5] for step in range(3)} for slot in range(5)]
    assert all(len(window) == 3 for window in windows), found


def test_a_draw_that_would_use_up_the_small_machines_is_arranged_anew() -> None:
    ensemble = placement.choose(Schedule(4, 2, 2), shared("i", "j", "h", "h"))

    found = machines_of(ensemble)
    assert all(found[slot] != found[(slot + 1) % 4] for slot in range(4)), found


def test_bookies_of_no_shared_machine_do_not_count_as_being_on_one() -> None:
    where = [Candidate(BookieId(name), name[0]) for name in ("a1", "a2", "b1")]

    assert placement.choose(Schedule(2, 2, 2), where) == ("a1", "b1")


def test_with_too_few_machines_the_ensemble_is_still_filled() -> None:
    assert len(placement.choose(Schedule(3, 3, 2), shared("h", "h", "h"))) == 3


def test_a_replacement_comes_from_a_machine_that_has_no_copy_yet() -> None:
    ensemble = (BookieId("h-0"), BookieId("i-0"), BookieId("j-0"))
    machines = {bookie: bookie[0] for bookie in ensemble}
    candidates = [Candidate(BookieId("h-1"), "", "h"), Candidate(BookieId("i-1"), "", "i")]

    found = placement.replace(Schedule(3, 3, 2), ensemble, [0], candidates[::-1], zones={}, machines=machines)

    assert found == {0: "h-1"}


@settings(deadline=None)
@given(st.lists(st.sampled_from("hijk"), min_size=3, max_size=9), st.integers(1, 4), st.data())
def test_an_ensemble_of_one_write_set_is_on_as_many_machines_as_there_are(
    names: list[str], size: int, data: st.DataObject
) -> None:
    size = min(size, len(names))
    candidates = data.draw(st.permutations(shared(*names)))

    found = machines_of(placement.choose(Schedule(size, size, 1), candidates))

    assert len(set(found)) == min(size, len(set(names)))

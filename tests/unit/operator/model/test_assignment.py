"""How bookies are split over zones: by name, evenly, and never taking an id away."""

from hypothesis import given
from hypothesis import strategies as st

import operator_support as make
from bookie_operator.model import assignment
from bookie_operator.model.spec import BookieClusterSpec

NAMES = st.lists(st.sampled_from("abcdefghi"), min_size=1, max_size=9, unique=True)


def spec(replicas: int, zones: list[str] | None) -> BookieClusterSpec:
    wanted = [{"name": name} for name in zones] if zones is not None else None
    whole = make.spec(replicas=replicas, zones=wanted)
    whole["storage"] = whole["storage"] | {"journalWriteData": True}
    return BookieClusterSpec.model_validate(whole)


def sizes(replicas: int, zones: list[str] | None, held: dict[str, int] | None = None) -> dict[str, int]:
    return {pool.name: pool.replicas for pool in assignment.assign(spec(replicas, zones), held or {})}


def wanted(replicas: int, zones: list[str] | None, held: dict[str, int]) -> dict[str, int]:
    return {pool.name: pool.wanted for pool in assignment.assign(spec(replicas, zones), held)}


def test_bookies_are_split_evenly_and_the_first_names_get_the_rest() -> None:
    assert sizes(5, ["zone-c", "zone-a", "zone-b"]) == {"zone-a": 2, "zone-b": 2, "zone-c": 1}
    assert sizes(4, None) == {"default": 4}


@given(replicas=st.integers(1, 150), zones=NAMES, data=st.data())
def test_the_order_of_zones_changes_nothing(replicas: int, zones: list[str], data: st.DataObject) -> None:
    other = data.draw(st.permutations(zones))

    assert sizes(replicas, zones) == sizes(replicas, other)


@given(
    first=st.integers(1, 150),
    then=st.integers(1, 150),
    zones=NAMES,
    other=NAMES,
    scaled=st.dictionaries(st.sampled_from("abc"), st.integers(0, 150)),
)
def test_no_pool_ever_gets_smaller(
    first: int, then: int, zones: list[str], other: list[str], scaled: dict[str, int]
) -> None:
    held = sizes(first, zones) | scaled

    after = sizes(then, other, held)

    assert all(after[pool] >= held.get(pool, 0) for pool in after)
    assert sum(after.values()) >= then
    asked = wanted(then, other, held)
    assert sum(asked.values()) == then
    assert {pool for pool, size in asked.items() if size} <= set(other)
    assert all(size <= max(held.get(pool, 0), asked[pool]) for pool, size in after.items())


def test_bookies_leave_from_the_largest_pool_and_of_equals_from_the_last_by_name() -> None:
    assert wanted(4, ["a", "b", "c"], {"a": 2, "b": 2, "c": 1}) == {"a": 2, "b": 1, "c": 1}
    assert wanted(3, ["a", "b", "c"], {"a": 5, "b": 1, "c": 1}) == {"a": 1, "b": 1, "c": 1}
    assert wanted(3, None, {"default": 7}) == {"default": 3}


def test_all_bookies_of_a_zone_that_is_not_in_the_spec_leave_and_the_others_make_up_for_them() -> None:
    assert sizes(4, ["a", "b"], {"a": 2, "b": 1, "c": 1}) == {"a": 2, "b": 2, "c": 1}
    assert wanted(4, ["a", "b"], {"a": 2, "b": 1, "c": 1}) == {"a": 2, "b": 2, "c": 0}


@given(first=st.integers(1, 150), then=st.integers(1, 150), zones=NAMES)
def test_a_number_that_is_lowered_and_raised_again_gives_the_fleet_that_it_was(
    first: int, then: int, zones: list[str]
) -> None:
    began = sizes(first, zones)
    low = min(first, then)

    assert wanted(first, zones, sizes(low, zones, began)) == began  # raised while they leave
    assert wanted(first, zones, wanted(low, zones, began)) == began  # raised after they left


def test_what_was_found_asks_for_no_more_than_a_spec_may() -> None:
    assert sizes(3, ["a"], {"a": 9_999}) == {"a": assignment.POOL_SIZE_MAX}


ZONES = ["zone-a", "zone-b", "zone-c"]
SIX = {"zone-a": 2, "zone-b": 2, "zone-c": 2}


def after(replicas: int, held: dict[str, int], *first: str) -> list[int]:
    return [pool.wanted for pool in assignment.assign(spec(replicas, ZONES), held, first)]


def test_a_zone_that_a_person_names_becomes_smaller_first_and_only_where_the_spec_asks_for_fewer() -> None:
    assert after(5, SIX) == [2, 2, 1]
    assert after(5, SIX, "zone-b") == [2, 1, 2]
    assert after(6, SIX, "zone-b") == [2, 2, 2]
    assert after(7, SIX, "zone-b") == [3, 2, 2]
    assert after(5, SIX, "zone-b", "zone-a") == [2, 1, 2], "the oldest wish comes first"
    assert after(4, SIX, "zone-b", "zone-a") == [1, 1, 2]
    assert after(4, SIX, "zone-b", "zone-b") == [2, 1, 1], "the last bookie of a zone stays"
    assert after(5, SIX, "zone-x") == [2, 2, 1]


@given(
    replicas=st.integers(3, 20),
    held=st.dictionaries(st.sampled_from(ZONES), st.integers(0, 8)),
    first=st.lists(st.sampled_from([*ZONES, "zone-x"]), max_size=6),
)
def test_whatever_is_named_the_number_is_that_of_the_spec_and_it_comes_to_rest(
    replicas: int, held: dict[str, int], first: list[str]
) -> None:
    found = after(replicas, held, *first)

    assert sum(found) == replicas
    reached = dict(zip(ZONES, found, strict=True))
    assert after(replicas, reached, *first) == found, "nobody else leaves after it, with the wish or without"
    assert after(replicas, reached) == found
    assert all(size >= 1 for name, size in reached.items() if name in first and held.get(name, 0) >= 1)

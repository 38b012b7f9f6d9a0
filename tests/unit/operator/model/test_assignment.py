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
    if sum(held.get(pool, 0) for pool in after) <= then:
        assert sum(after.values()) == then


def test_what_was_found_asks_for_no_more_than_a_spec_may() -> None:
    assert sizes(3, ["a"], {"a": 9_999}) == {"a": assignment.POOL_SIZE_MAX}

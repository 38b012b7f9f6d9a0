"""Two clusters of one namespace never get one name for two things: the younger one is refused."""

from typing import Any

import pytest

import operator_support as make
from bookie_operator.model import cluster as clusters
from bookie_operator.model import collisions
from bookie_operator.model.cluster import SpecInvalid


def cluster(name: str, zones: tuple[str, ...], volume: str = "data", created: str = "2027-01-01T00:00:00Z") -> Any:
    storage = {"journal": {"volumes": [{"name": volume, "size": "1Gi"}]}, "ledgers": {"volumes": []}}
    return {
        "metadata": {"name": name, "namespace": "data", "uid": f"uid-{name}", "creationTimestamp": created},
        "spec": {"zones": [{"name": zone} for zone in zones], "storage": storage},
    }


def claim(name: str, owner: str | None) -> Any:
    return {"metadata": {"name": name, "labels": {"bookie.dev/cluster": owner} if owner else {}}}


OLD = "2026-12-31T23:59:59Z"


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (cluster("a", ("x-b",), created=OLD), "StatefulSet a-x-b"),
        (cluster("a", ("c", "x-b"), volume="other", created=OLD), "StatefulSet a-x-b"),
        (cluster("x", ("b",), volume="data-a", created=OLD), "claim data-a-x-b-0"),
    ],
)
def test_the_younger_of_two_with_one_name_is_told_which(other: Any, shared: str) -> None:
    mine = cluster("a-x", ("b",))

    told = collisions.find(mine, [mine, other], ())

    assert shared in told
    assert f"BookieCluster {other['metadata']['name']}" in told
    assert collisions.find(other, [mine, other], ()) == ""


def test_of_two_of_one_second_exactly_one_is_refused() -> None:
    first, second = cluster("a", ("x-b",)), cluster("a-x", ("b",))

    told = [collisions.find(one, [first, second], ()) for one in (first, second)]

    assert [bool(text) for text in told] == [False, True]


def test_clusters_whose_names_differ_do_not_meet() -> None:
    others = [cluster("a", ("b", "x"), created=OLD), cluster("ax", ("b",), created=OLD), cluster("b", (), created=OLD)]

    assert collisions.find(cluster("a-x", ("b",)), others, ()) == ""


def test_the_one_pool_of_a_cluster_without_zones_counts_too() -> None:
    without, other = make.manifest(zones=None), cluster("a", ("ledgers-default",), volume="none", created=OLD)
    without["metadata"] |= {"name": "a-ledgers", "creationTimestamp": "2027-01-01T00:00:00Z"}

    assert "StatefulSet a-ledgers-default" in collisions.find(without, [other], ())


@pytest.mark.parametrize(
    ("left", "is_refused"),
    [
        (claim("data-a-x-b-7", "a"), True),
        (claim("data-a-x-b-0", "a-x"), False),
        (claim("data-a-x-b-0", None), False),  # made by hand, to bring a volume back
        (claim("data-a-x-c-0", "a"), False),
    ],
)
def test_claims_that_another_cluster_left_behind_are_not_taken(left: Any, *, is_refused: bool) -> None:
    assert bool(collisions.find(cluster("a-x", ("b",)), (), [left])) is is_refused


def test_two_volumes_of_one_cluster_never_have_one_claim() -> None:
    spec = make.spec()
    volumes = [{"name": "v", "size": "1Gi"}, {"name": "v-ledgers", "size": "1Gi"}]
    storage = spec["storage"] | {"ledgers": {"volumes": volumes}, "index": {"volumes": []}}
    manifest = make.manifest(zones=[{"name": "ledgers-b"}, {"name": "b"}, {"name": "c"}], storage=storage)

    with pytest.raises(SpecInvalid, match="two volumes would have the claim v-ledgers-ledgers-b-0"):
        clusters.parse(manifest)


def test_each_claim_of_two_volumes_is_told_once_and_no_other() -> None:
    volumes = [{"name": "v", "size": "1Gi"}, {"name": "w", "size": "1Gi"}]
    more = [{"name": f"{name}-ledgers", "size": "1Gi"} for name in "wv"]
    manifest = cluster("ledgers", ("b", "ledgers-b"))
    manifest["spec"]["storage"] = {"journal": {"volumes": more}, "ledgers": {"volumes": volumes}, "index": None}

    told = collisions.within(manifest)

    names = [f"{name}-ledgers-ledgers-b-0" for name in "vw"]
    assert told == tuple(
        f"spec.zones (or pools) and spec.storage: two volumes would have the claim {name}: rename a volume or a zone"
        for name in names
    )
    assert collisions.within(cluster("ledgers", ("b", "ledgers-b"))) == ()


def test_the_first_name_is_told_of_several() -> None:
    mine, other = cluster("a-x", ("c", "b")), cluster("a", ("x-c", "x-b"), created=OLD)
    left = [claim(f"data-a-x-{zone}-0", "a") for zone in "cb"]

    assert "would use StatefulSet a-x-b, and" in collisions.find(mine, [other], ())
    assert "would use claim data-a-x-b-0, and" in collisions.find(mine, (), left)
    assert "would use claim data-a-x-b-0, and" in collisions.find(
        cluster("a-x", ("c", "b")), [cluster("x", ("c", "b"), volume="data-a", created=OLD)], ()
    )


def test_pools_count_as_zones_do_each_with_its_own_volumes() -> None:
    mine, other = cluster("a-x", ()), cluster("a", (), created=OLD)
    mine["spec"]["pools"] = [{"name": "b"}]
    other["spec"]["pools"] = [{"name": "x-b"}]
    assert "StatefulSet a-x-b" in collisions.find(mine, [other], ())

    own = {"ledgers": {"volumes": [{"name": "own", "size": "1Gi"}]}}
    mine["spec"]["pools"] = [{"name": "b", "storage": own}]
    assert "claim own-a-x-b-0" in collisions.find(mine, (), [claim("own-a-x-b-0", "a")])
    assert collisions.find(mine, (), [claim("data-a-x-b-0", "a")]) == "", "its pool has other volumes"


@pytest.mark.parametrize("spec", [None, {}, {"zones": [{"name": "b"}], "storage": None}])
def test_a_resource_that_says_next_to_nothing_is_compared_by_what_it_says(spec: Any) -> None:
    """A spec that is refused today may have had bookies yesterday."""
    bare = {"metadata": {"name": "a-x", "creationTimestamp": None, "uid": None}, "spec": spec}
    made_by_hand = {"metadata": {"name": "data-a-x-b-0", "labels": None}}

    assert collisions.within(bare) == ()
    assert collisions.find(bare, [cluster("a", ("x-b", "x-default"))], [made_by_hand]) == ""
    told = collisions.find(cluster("a", ("x-b", "x-default")), [bare], [made_by_hand])
    assert told.startswith("this BookieCluster would use StatefulSet a-x-")


def test_who_has_the_claims_keeps_the_names_though_its_resource_is_the_younger_one() -> None:
    again, waits = cluster("a", ("x-b",)), cluster("a-x", ("b",), created=OLD)
    claims = [claim("data-a-x-b-0", "a")]

    assert collisions.find(again, [waits], claims) == ""
    assert "BookieCluster a " in collisions.find(waits, [again], claims)

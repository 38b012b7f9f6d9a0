"""Pools of different shape: what each says is laid over the spec, for its own bookies and for nobody else."""

from typing import Any

import pytest

import operator_support as make
from bookie_operator import discover
from bookie_operator.model import assignment, collisions, config, pools, rules, volume_rules
from bookie_operator.model.cluster import Cluster, SpecInvalid
from bookie_operator.model.status import BookieClusterStatus, BookieStatus, VolumeStatus
from bookie_operator.resources import fleet, inputs, memory, settings

BIG = {
    "journal": {"volumes": [{"name": "fast", "size": "10Gi", "storageClassName": "nvme"}]},
    "ledgers": {"volumes": [{"name": "l0", "size": "4Ti", "kind": "LocalDisk"}, {"name": "l1", "size": "4Ti"}]},
}
ADDED = {"volumes": [{"name": "late", "size": "10Gi", "added": True}]}
ZONES = [{"name": f"zone-{letter}", "zone": f"zone-{letter}", "replicas": 1} for letter in "abc"]
QUORUM_4 = {"ensembleSize": 4, "writeQuorum": 2, "ackQuorum": 2}
QUORUM_5 = {"ensembleSize": 5, "writeQuorum": 3, "ackQuorum": 2}


def pool(name: str, replicas: int = 1, **said: Any) -> dict[str, Any]:
    return {"name": name, "replicas": replicas, **said}


def cluster(*more: dict[str, Any], status: BookieClusterStatus | None = None, **changes: Any) -> Cluster:
    return make.cluster(status, **{"replicas": None, "zones": None, "pools": [*ZONES, *more]} | changes)


def sets(of: Cluster) -> dict[str, Any]:
    assigned = assignment.assign(of.spec, {})
    return {one["metadata"]["labels"]["bookie.dev/pool"]: one for one in fleet.stateful_sets(of, assigned, make.IMAGE)}


def container(one: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = one["spec"]["template"]["spec"]["containers"][0]
    return found


def test_a_cluster_that_goes_over_from_zones_has_the_same_stateful_sets_to_the_letter() -> None:
    """So nobody restarts, and no id, claim or selector changes."""
    before = sets(make.cluster(replicas=3))

    assert sets(cluster()) == before


def test_the_selector_of_a_zone_goes_over_too_and_nobody_restarts() -> None:
    own = {"nodeSelector": {"site": "north"}}
    before = sets(make.cluster(replicas=3, zones=[{"name": f"zone-{letter}"} | own for letter in "abc"]))

    assert sets(cluster(pools=[one | own for one in ZONES])) == before


def test_a_cluster_without_zones_goes_over_to_a_pool_named_default() -> None:
    journaled = make.spec()["storage"] | {"journalWriteData": True}
    before = sets(make.cluster(replicas=3, zones=None, storage=journaled))

    assert sets(cluster(pools=[pool("default", 3)], storage=journaled)) == before


def test_what_a_pool_says_is_laid_over_the_spec_for_its_own_pods_alone() -> None:
    own = pool(
        "big",
        2,
        zone="zone-a",
        nodeSelector={"disk": "large"},
        tolerations=[{"key": "large", "operator": "Exists"}],
        resources={"limits": {"memory": "64Gi"}},
        storage=BIG,
        config={"flushInterval": "7", "gcWaitTime": "8"},
    )
    made = cluster(own, config={"flushInterval": "1", "maxPendingReadRequestsPerThread": "9"})

    found = sets(made)
    big, plain = found["big"], found["zone-a"]

    assert (big["spec"]["replicas"], plain["spec"]["replicas"]) == (2, 1)
    pod = big["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disk": "large"}
    assert pod["tolerations"] == [{"key": "large", "operator": "Exists"}]
    assert {"name": "BOOKIE_ZONE", "value": "zone-a"} in container(big)["env"]
    assert container(big)["resources"]["limits"] == {"memory": "64Gi"}
    assert container(big)["resources"]["requests"] == container(plain)["resources"]["requests"]
    claims = [one["metadata"]["name"] for one in big["spec"]["volumeClaimTemplates"]]
    assert claims == ["fast", "l0", "l1"]
    said = settings.properties(made.of("big").spec)
    assert (said["flushInterval"], said["gcWaitTime"]) == ("7", "8")
    assert said["maxPendingReadRequestsPerThread"] == "9"
    assert (said["ledgerDirectories"], "indexDirectories" in said) == ("/bookie/ledgers/l0,/bookie/ledgers/l1", False)
    assert settings.properties(made.of("zone-a").spec)["flushInterval"] == "1"
    assert plain == sets(cluster(config=made.spec.config))["zone-a"]


def test_every_pod_reads_settings_that_exist() -> None:
    made = cluster(pool("big", storage=BIG), pool("odd", config={"flushInterval": "7"}))

    maps = {one["metadata"]["name"] for one in fleet.before_metadata(made, 1) if one["kind"] == "ConfigMap"}
    read = {
        volume["configMap"]["name"]
        for one in sets(made).values()
        for volume in one["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    }

    assert len(read) == 3
    assert read <= maps


def test_a_pool_of_big_nodes_has_so_many_bookies_on_each_and_no_pool_beside_it() -> None:
    made = cluster(pool("big", 6, perNode=2))

    big = sets(made)["big"]["spec"]["template"]["spec"]

    (apart,) = big["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    assert apart["labelSelector"]["matchExpressions"] == [
        {"key": "bookie.dev/pool", "operator": "NotIn", "values": ["big"]}
    ]
    (spread,) = big["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == apart["labelSelector"]["matchLabels"] | {"bookie.dev/pool": "big"}
    assert (spread["maxSkew"], spread["whenUnsatisfiable"]) == (2, "DoNotSchedule")
    assert spread["minDomains"] > 100_000, "counted from 0, and not from the emptiest node"
    machine = {"name": "BOOKIE_MACHINE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    assert machine in container(sets(made)["big"])["env"]
    assert sets(made)["zone-a"] == sets(cluster())["zone-a"], "nobody else is made otherwise"


def test_one_bookie_a_node_is_what_everybody_has_to_the_letter() -> None:
    assert sets(cluster(pool("big", 2, perNode=1))) == sets(cluster(pool("big", 2)))


@pytest.mark.parametrize(
    ("replicas", "per_node", "quorum", "is_good"),
    [
        (6, 2, {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 2}, True),
        (5, 2, {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 2}, True),
        (4, 2, {"ensembleSize": 3, "writeQuorum": 3, "ackQuorum": 2}, False),
        (6, 2, {"ensembleSize": 6, "writeQuorum": 3, "ackQuorum": 2}, True),  # each node has two slots, three apart
        (5, 2, {"ensembleSize": 5, "writeQuorum": 3, "ackQuorum": 2}, False),
        (5, 1, {"ensembleSize": 5, "writeQuorum": 3, "ackQuorum": 2}, True),
        (8, 4, {"ensembleSize": 4, "writeQuorum": 2, "ackQuorum": 2}, True),
    ],
)
def test_bookies_that_may_all_be_on_too_few_nodes_are_refused(
    replicas: int, per_node: int, quorum: dict[str, int], is_good: bool
) -> None:
    journaled = make.spec()["storage"] | {"journalWriteData": True}
    made = {"pools": [pool("big", replicas, perNode=per_node)], "quorum": quorum, "storage": journaled}

    if is_good:
        cluster(**made)
    else:
        with pytest.raises(SpecInvalid, match="copies of one entry"):
            cluster(**made)


def test_a_pool_without_a_zone_goes_where_its_own_labels_say_besides_everybodys() -> None:
    made = cluster(pool("big", nodeSelector={"disk": "large"}), placement={"nodeSelector": {"os": "linux"}})

    assert sets(made)["big"]["spec"]["template"]["spec"]["nodeSelector"] == {"os": "linux", "disk": "large"}
    assert all(one["name"] != "BOOKIE_ZONE" for one in container(sets(made)["big"])["env"])


def test_a_change_of_one_pool_is_noted_on_its_pods_alone() -> None:
    def digests(*more: dict[str, Any]) -> dict[str, str]:
        made = cluster(*more)
        zones = assignment.zones_by_pool(made.spec)
        return {name: inputs.digest(made.spec.of(name), zone) for name, zone in zones.items()}

    before = digests(pool("big", config={"flushInterval": "7"}))
    after = digests(pool("big", config={"flushInterval": "8"}))
    shared = digests(pool("big", config={"flushInterval": "7"}, perNode=2))

    assert {name for name in before if before[name] != after[name]} == {"big"}
    assert {name for name in before if before[name] != shared[name]} == {"big"}


def test_pools_say_themselves_how_many_they_are_and_keep_who_is_there_until_he_left() -> None:
    spec = cluster(pool("big", 2)).spec

    found = assignment.assign(spec, {"big": 5, "zone-a": 1, "gone": 2})

    assert [(one.name, one.replicas, one.wanted, one.is_in_spec) for one in found] == [
        ("big", 5, 2, True),
        ("zone-a", 1, 1, True),
        ("zone-b", 1, 1, True),
        ("zone-c", 1, 1, True),
        ("gone", 2, 0, False),
    ]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"replicas": 3}, "replicasOrPools"),
        ({"pools": None}, "replicasOrPools"),
        ({"zones": [{"name": "zone-a"}]}, "poolsOrZones"),
        ({"pools": ZONES[:2]}, "poolsOfEnsemble"),
        ({"pools": [*ZONES, pool("many", 148)]}, "poolsMost"),
        ({"pools": [*ZONES, pool("two", perNode=2)], "placement": {"antiAffinity": "Preferred"}}, "perNodeAffinity"),
        ({"pools": [pool("a", 4, zone="zone-a", perNode=2), *ZONES[1:]], "quorum": QUORUM_5}, "perNodeHosts"),
        ({"pools": [pool("a", 4, perNode=4), pool("b", 0)], "quorum": QUORUM_4}, "perNodeHosts"),
        ({"pools": [*ZONES[:2], pool("c", zone="zone-a")]}, "noJournal"),
        ({"pools": [*ZONES[:2], pool("zone-c", 0, zone="zone-c"), pool("more", 2)]}, "noJournal"),
        (
            {"pools": [*ZONES, pool("x", storage=BIG | {"index": {"volumes": [{"name": "i", "size": "1Gi"}]}})]},
            "poolIndexVolumes",
        ),
        ({"pools": [*ZONES, pool("x", storage=BIG | {"journal": ADDED})]}, "poolAddedJournal"),
        ({"pools": [*ZONES, pool("x", storage=BIG | {"ledgers": BIG["journal"]})]}, "poolVolumeNames"),
        (
            {"pools": [*ZONES, pool("x", storage=BIG | {"journal": {"volumes": [{"name": "bookie-j", "size": "1"}]}})]},
            "poolReservedVolumes",
        ),
    ],
)
def test_bad_pools_are_refused_with_the_sentence_of_their_cel_rule(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(SpecInvalid) as caught:
        cluster(**changes)

    (rule,) = [one for one in (*rules.SPEC, *rules.POOL, *volume_rules.POOL_STORAGE) if one.name == name]
    assert rule.message in str(caught.value)


def test_what_is_wrong_in_one_pool_is_told_with_its_name_and_what_is_wrong_in_all_without() -> None:
    one = cluster(pool("big", config={"flushIntervall": "1"}))
    every = cluster(pool("big"), config={"flushIntervall": "1"})

    assert any(told.startswith("in pool big: spec.config: flushIntervall") for told in told_of(one))
    assert any(told.startswith("spec.config: flushIntervall") for told in told_of(every))


def told_of(made: Cluster) -> tuple[str, ...]:
    return pools.problems(made.spec, config.problems)


def test_memory_is_measured_by_what_each_pool_has() -> None:
    made = cluster(pool("small", resources={"limits": {"memory": "128Mi"}}))

    assert memory.shortage(made.of("zone-a").spec) == ""
    assert memory.shortage(made.of("small").spec).startswith("spec.resources.limits.memory is 128")


def test_volumes_of_two_pools_never_share_a_claim() -> None:
    odd = {"journal": {"volumes": [{"name": "j-ledgers", "size": "1Gi"}]}, "ledgers": BIG["ledgers"]}
    spec = make.spec(replicas=None, zones=None, pools=[pool("b", 3, storage=odd), pool("ledgers-b")])
    spec["storage"] = spec["storage"] | {"journal": {"volumes": [{"name": "j", "size": "1Gi"}]}}
    manifest = {"metadata": {"name": "ledgers"}, "spec": spec}

    (told,) = collisions.within(manifest)

    assert "j-ledgers-ledgers-b-0" in told


def test_a_bookie_of_a_pool_that_was_taken_out_has_the_volumes_that_are_stored_of_it() -> None:
    """Else its claims would be strangers', and the volumes of the others would count as lost."""
    entry = BookieStatus(
        name="ledgers-big-0",
        bookie_id="data.ledgers.big.0",
        pool="big",
        state="Serving",
        verdict="Healthy",
        reason="",
        since="2027-01-15T08:00:00.000Z",
        volumes=(
            VolumeStatus(name="fast", role="journal", claim="fast-ledgers-big-0"),
            VolumeStatus(name="l0", role="ledgers", claim="l0-ledgers-big-0"),
        ),
    )
    status = BookieClusterStatus(bookies=(entry,))

    (case,) = [
        case
        for case in discover.cases(cluster(status=status), (), {}, {})
        if case.name == entry.name and not case.is_desired
    ]

    assert [(volume.role, volume.name) for volume in case.volumes] == [("journal", "fast"), ("ledgers", "l0")]

"""Objects that have the names of our children and are none: nothing of them is changed, none goes with the cluster, and
the status says so. Only a person hands one over."""

import asyncio
import copy
from typing import Any

import pytest

import operator_world_support as worlds
from bookie.ports.admin import Contents
from bookie_operator.gateways.kube import KubeError
from bookie_operator.model import names
from operator_world_support import World

Manifest = dict[str, Any]
MINE = {"app.kubernetes.io/name": "shop"}
# As copies have them whose other marks somebody took away.
AS_OURS = {names.LABEL_CLUSTER: "ledgers", names.LABEL_MANAGED_BY: names.MANAGED_BY}
STRANGERS: dict[str, Manifest] = {
    "Service": {"apiVersion": "v1", "name": "ledgers-bookies", "spec": {"selector": MINE, "ports": [{"port": 80}]}},
    "ServiceAccount": {"apiVersion": "v1", "name": "ledgers-bookie"},
    "PodDisruptionBudget": {
        "apiVersion": "policy/v1",
        "name": "ledgers-bookies",
        "spec": {"selector": {"matchLabels": MINE}, "minAvailable": 1},
    },
    "StatefulSet": {
        "apiVersion": "apps/v1",
        "name": "ledgers-zone-a",
        "spec": {
            "replicas": 0,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": MINE},
            "template": {"metadata": {"labels": MINE}, "spec": {"containers": [{"name": "shop", "image": "shop:1"}]}},
        },
    },
    "Job": {
        "apiVersion": "batch/v1",
        "name": "ledgers-metadata",
        "spec": {"template": {"spec": {"containers": [{"name": "shop", "image": "shop:1"}]}}},
    },
    "Deployment": {"apiVersion": "apps/v1", "name": "ledgers-autorecovery", "spec": {"replicas": 0}},
}
SHARED: dict[str, Manifest] = {
    names.ADMIN_CERTIFICATES: {"apiVersion": "v1", "kind": "Secret", "data": {"tls.crt": "eA=="}},
    names.DATA_CERTIFICATES: {"apiVersion": "v1", "kind": "Secret", "data": {"tls.crt": "eA=="}},
    "ledgers-ca": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"ca.crt": "of the shop"}},
}


def empty() -> World:
    return worlds.world(
        autorecovery={"enabled": True},
        security={"tls": {"mode": "Permissive"}},
    )


def put(world: World, kind: str, body: Manifest, labels: dict[str, str]) -> Manifest:
    said = {key: value for key, value in body.items() if key not in ("name", "kind")}
    metadata = {"name": body["name"], "namespace": "data", "labels": dict(labels)}
    if kind == "StatefulSet":
        metadata["labels"] = labels | {names.LABEL_POOL: "zone-a"}
    world.put(said | {"kind": kind, "metadata": metadata})
    return seen(world, kind, body["name"])


def seen(world: World, kind: str, name: str) -> Manifest:
    """The object, but for what its controller says of it."""
    found = copy.deepcopy(world.objects[(kind, name)])
    del found["metadata"]["resourceVersion"]
    return {key: value for key, value in found.items() if key != "status"}


def run(world: World, passes: int = 16) -> None:
    asyncio.run(world.run(world.operator(), passes=passes))


def stalled(world: World) -> tuple[str, str]:
    found = world.status().condition("Stalled")
    assert found is not None
    return found.reason, found.message


def hand_over(world: World, kind: str, name: str, uid: str) -> None:
    live = world.objects[(kind, name)]
    annotations = (live["metadata"].get("annotations") or {}) | {names.ADOPT: uid}
    world.put(live | {"metadata": live["metadata"] | {"annotations": annotations}})


@pytest.mark.slow
@pytest.mark.parametrize("labels", [MINE, AS_OURS], ids=["unlike ours", "with our labels"])
@pytest.mark.parametrize("kind", STRANGERS)
def test_what_has_the_name_of_a_child_stays_as_it_is_and_is_told(kind: str, labels: dict[str, str]) -> None:
    world, body = empty(), STRANGERS[kind]
    before = put(world, kind, body, labels)

    run(world)

    assert seen(world, kind, body["name"]) == before
    reason, words = stalled(world)
    assert reason == "NameConflict"
    assert f"{kind} {body['name']} is there already" in words
    assert (f"{names.ADOPT}=cluster-uid" in words) is (kind != "Job"), "a Job's template cannot change"
    if kind in ("Service", "ServiceAccount"):
        assert world.of_kind("Pod") == [], "no pod is to be another's account, or to have another's address"
    world.delete_and_apply()
    assert seen(world, kind, body["name"]) == before, "it does not go with the cluster"


def check_that_what_comes_before_the_write_is_not_taken(world: World, kind: str, body: Manifest) -> None:
    """Somebody puts his object there, in ours' place if there is one, after the look and before the write."""
    found = list[Manifest]()

    def come(its_kind: str, name: str) -> None:
        if (its_kind, name) == (kind, body["name"]) and not found:
            world.objects.pop((kind, name), None)
            found.append(put(world, kind, body, MINE))

    world.before_write = come
    with pytest.raises(KubeError, match="409"):
        run(world)
    run(world)

    assert [seen(world, kind, body["name"])] == found
    assert stalled(world)[0] == "NameConflict"


@pytest.mark.slow
@pytest.mark.parametrize("kind", STRANGERS)
def test_what_comes_between_the_look_and_the_apply_is_not_taken(kind: str) -> None:
    check_that_what_comes_before_the_write_is_not_taken(empty(), kind, STRANGERS[kind])


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_certificates_are_not_put_into_what_comes_between_the_look_and_the_write(name: str) -> None:
    check_that_what_comes_before_the_write_is_not_taken(empty(), SHARED[name]["kind"], SHARED[name] | {"name": name})


@pytest.mark.parametrize("kind", ["Service", "ServiceAccount"])
def test_what_took_a_child_s_place_since_the_look_is_not_taken(kind: str, world: World) -> None:
    world.objects[(kind, STRANGERS[kind]["name"])]["metadata"]["labels"] = {}  # there is something to apply

    check_that_what_comes_before_the_write_is_not_taken(world, kind, STRANGERS[kind])


def test_a_record_that_comes_between_the_look_and_the_write_is_not_lost() -> None:
    world, key = empty(), ("ConfigMap", names.record("ledgers"))
    theirs = {"data": {"record.json": "of another process"}}

    def come(kind: str, name: str) -> None:
        if (kind, name) == key and key not in world.objects:
            world.put({"kind": kind, "metadata": {"name": name, "namespace": "data"}} | theirs)

    world.before_write = come
    with pytest.raises(KubeError, match="409"):
        run(world)

    assert world.objects[key]["data"] == theirs["data"]


def test_what_a_child_was_posted_with_goes_when_it_is_applied_no_more(world: World) -> None:
    """To an API server, who posts an object is another manager of its fields than who applies it."""
    key = ("PodDisruptionBudget", "ledgers-bookies")
    wanted, begun = world.objects.pop(key), len(world.writes)
    annotations = wanted["metadata"]["annotations"]
    metadata = {one: wanted["metadata"][one] for one in ("name", "namespace", "labels", "ownerReferences")}
    metadata |= {"annotations": annotations | {"of-before": "1"}}  # an older release made it so
    made = world.posted(wanted | {"metadata": metadata}, names.MANAGER)
    made["metadata"]["labels"] = {}

    run(world, passes=2)

    assert world.objects[key]["metadata"]["annotations"] == annotations
    world.objects[key]["metadata"]["labels"] = {}
    run(world, passes=2)
    assert world.writes[begun:].count("PodDisruptionBudget/ledgers-bookies fields") == 1, "it is handed over once"


@pytest.mark.slow
@pytest.mark.parametrize("kind", [one for one in STRANGERS if one not in ("Job", "StatefulSet")])
def test_only_a_person_hands_it_over_and_to_this_very_cluster(kind: str) -> None:
    world, body = empty(), STRANGERS[kind]
    before = put(world, kind, body, MINE)
    hand_over(world, kind, body["name"], "another-uid")
    run(world, passes=3)
    assert world.objects[(kind, body["name"])].get("spec") == before.get("spec")

    hand_over(world, kind, body["name"], "cluster-uid")
    run(world, passes=6)

    owners = world.objects[(kind, body["name"])]["metadata"]["ownerReferences"]
    assert [one["uid"] for one in owners] == ["cluster-uid"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_certificates_are_not_put_into_another_s_object(name: str) -> None:
    world = empty()
    before = put(world, SHARED[name]["kind"], SHARED[name] | {"name": name}, MINE)

    run(world)

    assert seen(world, SHARED[name]["kind"], name) == before
    reason, words = stalled(world)
    assert reason == "NameConflict"
    assert f"{SHARED[name]['kind']} {name} is there already" in words
    del world.objects[(SHARED[name]["kind"], name)]
    run(world)
    assert world.status().condition("Stalled").status == "False"  # type: ignore[union-attr]


def test_no_bookie_reads_the_settings_of_another(built: World) -> None:
    world = empty()
    (name,) = _settings(worlds.world(autorecovery={"enabled": True}, security={"tls": {"mode": "Permissive"}}))
    before = put(world, "ConfigMap", {"apiVersion": "v1", "name": name, "data": {"bookie.properties": "x=1"}}, MINE)

    run(world)

    assert seen(world, "ConfigMap", name) == before
    assert stalled(world)[0] == "NameConflict"
    assert world.of_kind("StatefulSet") == []
    assert world.of_kind("Job") == []


def _settings(world: World) -> list[str]:
    run(world, passes=2)
    return [one["metadata"]["name"] for one in world.of_kind("ConfigMap") if "settings" in one["metadata"]["name"]]


@pytest.mark.slow
def test_while_another_s_object_has_a_child_s_name_nobody_is_stopped(world: World) -> None:
    del world.objects[("Service", "ledgers-bookies")]
    put(world, "Service", STRANGERS["Service"], MINE)
    running = {one["metadata"]["uid"] for one in world.of_kind("Pod")}
    world.edit(image="bookie:next", rollout={"strategy": "Automatic", "soakSeconds": 1})

    run(world, passes=20)

    assert {one["metadata"]["uid"] for one in world.of_kind("Pod")} == running
    assert stalled(world)[0] == "NameConflict"
    del world.objects[("Service", "ledgers-bookies")]
    run(world, passes=60)
    assert not {one["metadata"]["uid"] for one in world.of_kind("Pod")} & running


@pytest.mark.slow
def test_without_a_budget_of_its_own_a_fleet_gets_no_grant(world: World) -> None:
    del world.objects[("PodDisruptionBudget", "ledgers-bookies")]
    put(world, "PodDisruptionBudget", STRANGERS["PodDisruptionBudget"], MINE)
    world.lose("ledgers-zone-b-0")

    run(world, passes=40)

    assert world.accepted == []
    del world.objects[("PodDisruptionBudget", "ledgers-bookies")]
    run(world, passes=40)
    assert len(world.accepted) == 1


def test_a_stateful_set_made_by_hand_says_nothing_of_how_many_bookies_there_are(world: World) -> None:
    """Its bookies would be drained: nobody asked for them."""
    live = world.objects[("StatefulSet", "ledgers-zone-a")]
    metadata = {key: live["metadata"][key] for key in ("name", "namespace", "labels")}
    world.put(live | {"metadata": metadata, "spec": live["spec"] | {"replicas": 5}})
    world.is_scheduling = False
    operator = world.operator()

    asyncio.run(operator.reconcile(worlds.KEY))

    assert stalled(world)[0] == "NameConflict"
    assert world.objects[("StatefulSet", "ledgers-zone-a")]["spec"]["replicas"] == 5
    assert [one.desired for one in world.status().pools] == [2, 1, 1]
    hand_over(world, "StatefulSet", "ledgers-zone-a", "cluster-uid")
    run(world)
    owners = world.objects[("StatefulSet", "ledgers-zone-a")]["metadata"]["ownerReferences"]
    assert [one["uid"] for one in owners] == ["cluster-uid"]


def test_a_child_whose_label_is_gone_gets_it_again_and_so_does_the_record(world: World) -> None:
    for key in (("Service", "ledgers-bookies"), ("ConfigMap", "ledgers-record"), ("StatefulSet", "ledgers-zone-a")):
        world.objects[key]["metadata"]["labels"] = {}
    world.edit(replicas=5)

    run(world, passes=20)

    assert world.objects[("Service", "ledgers-bookies")]["metadata"]["labels"][names.LABEL_CLUSTER] == "ledgers"
    assert world.objects[("ConfigMap", "ledgers-record")]["metadata"]["labels"][names.LABEL_CLUSTER] == "ledgers"
    assert len(world.bookies) == 5
    assert world.is_quiet(), world.status()


def test_a_record_of_another_cluster_says_nothing_of_this_one(world: World) -> None:
    """As a backup that is restored into another namespace brings it; where a bookie has left there, its namesake lives
    here."""
    key = ("ConfigMap", "ledgers-record")
    mine = copy.deepcopy(world.objects[key])
    text = mine["data"]["record.json"].replace("data.ledgers.", "shop.ledgers.")
    world.put(mine | {"data": {"record.json": text}})
    world.objects[(names.KIND, "ledgers")].pop("status")

    run(world, passes=3)

    assert stalled(world)[0] == "RecordUnreadable"
    assert "is of another cluster (it has bookie shop.ledgers.zone-a.0)" in stalled(world)[1]
    assert world.objects[key]["data"]["record.json"] == text, "who restores it may still want to see it"
    assert not {one.bookie_id for one in world.status().bookies if one.bookie_id.startswith("shop")}
    del world.objects[key]
    run(world, passes=6)
    assert world.is_quiet()
    assert "data.ledgers.zone-a.0" in world.objects[key]["data"]["record.json"]


@pytest.mark.slow
@pytest.mark.parametrize("is_paused", [False, True], ids=["as always", "paused when it was seen"])
def test_a_volume_with_something_on_it_is_not_deleted_as_one_that_never_held_data(
    is_paused: bool, world: World
) -> None:
    """A backup, or a local disk that was used before: its bookie has no cookie and no mark, and after its pod nobody
    looks. A number that is corrected then must not delete it."""
    pod, claims = "ledgers-zone-b-1", [f"{one}-ledgers-zone-b-1" for one in ("journal", "ledgers", "index")]
    world.edit(scaleDown={"proofInterval": "4s"})
    for claim in claims:
        like = copy.deepcopy(world.objects[("PersistentVolumeClaim", claim.replace("-b-1", "-a-0"))])
        world.put(like | {"metadata": {"name": claim, "namespace": "data", "labels": like["metadata"]["labels"]}})
    world.contents["data.ledgers.zone-b.1"] = dict.fromkeys(("journal", "ledgers", "index"), Contents.VALID)
    world.claim_uids["data.ledgers.zone-b.1"] = {
        one: world.claim_uid(one, pod) for one in ("journal", "ledgers", "index")
    }
    world.refused.clear()
    world.is_scheduling = not is_paused
    world.edit(replicas=5)
    run(world, passes=8)
    if is_paused:
        world.edit(lifecycle={"paused": True})
        world.is_scheduling = True
        run(world, passes=8)
    assert world.status().bookie(pod).state == "Held"  # type: ignore[union-attr]

    world.is_scheduling = False
    world.kill(pod)
    run(world, passes=3)
    world.edit(replicas=4, lifecycle={"paused": False})
    run(world, passes=60)

    assert [("PersistentVolumeClaim", one) in world.objects for one in claims] == [True, True, True]
    leaving = world.status().bookie(pod).leaving  # type: ignore[union-attr]
    assert leaving is not None
    assert "contents" in (leaving.waiting_for or "")
    for one in claims:
        del world.objects[("PersistentVolumeClaim", one)]  # a person knows what it was
    world.contents.pop("data.ledgers.zone-b.1", None)
    run(world, passes=60)
    assert world.status().bookie(pod) is None, world.status().bookie(pod)


# What an API server takes as the data of a ControllerRevision: anything (a RawExtension).
ODD_DATA = (
    None,
    7,
    "text",
    ["spec"],
    {"spec": "text"},
    {"spec": {"template": ["text"]}},
    {"spec": {"template": {"spec": 7}}},
    {"spec": {"template": {"spec": {"containers": "text"}}}},
    {"spec": {"template": {"spec": {"containers": [None]}}}},
)


@pytest.mark.parametrize("data", ODD_DATA, ids=str)
@pytest.mark.parametrize("is_ours", [False, True], ids=["beside ours", "in the place of ours"])
def test_a_revision_that_holds_no_template_ends_no_pass(data: object, is_ours: bool, world: World) -> None:
    """Whoever may make a ControllerRevision may label one as of this cluster."""
    name, ours = next((name, one) for (kind, name), one in world.objects.items() if kind == "ControllerRevision")
    name = name if is_ours else "strange"
    metadata = {key: one for key, one in ours["metadata"].items() if key != "uid"} | {"name": name}
    world.put(ours | {"metadata": metadata, "data": data, "revision": 99})

    run(world, passes=6)

    assert stalled(world)[0] != "OperatorDefect"
    assert world.is_quiet()

"""spec.podTemplate: what of it reaches the pods, what is refused by name, and that ours stays as it is."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import operator_support as make
from bookie_operator.gateways import pod_types
from bookie_operator.model import assignment
from bookie_operator.resources import common, fleet, pod_template, stateful_set

Json = dict[str, Any]


def ours(**changes: Any) -> Json:
    cluster = make.cluster(**changes)
    zone = cluster.spec.zones[0] if cluster.spec.zones is not None else None
    return stateful_set.template(cluster, "zone-a", zone, make.IMAGE)


def template(spec: Json | None = None, metadata: Json | None = None, **changes: Any) -> Json:
    """The pod template of a StatefulSet of a cluster with this overlay."""
    cluster = make.cluster(podTemplate={"spec": spec or {}, "metadata": metadata or {}}, **changes)
    pools = assignment.assign(cluster.spec, {})
    out: Json = fleet.stateful_sets(cluster, pools, make.IMAGE)[0]["spec"]["template"]
    return out


def refusals(spec: Json | None = None, metadata: Json | None = None, **changes: Any) -> tuple[str, ...]:
    cluster = make.cluster(podTemplate={"spec": spec or {}, "metadata": metadata or {}}, **changes)
    return fleet.template_problems(cluster, assignment.assign(cluster.spec, {}), make.IMAGE)


def bookie(**fields: Any) -> Json:
    return {"containers": [{"name": "bookie", **fields}]}


TAKEN: dict[str, Json] = {
    "a sidecar": {"containers": [{"name": "logs", "image": "logs:1", "env": [{"name": "BOOKIE_X", "value": "1"}]}]},
    "a sidecar that begins first": {"initContainers": [{"name": "mesh", "image": "mesh:1", "restartPolicy": "Always"}]},
    "a variable": bookie(env=[{"name": "MALLOC_ARENA_MAX", "value": "2"}]),
    "a volume and its mount": bookie(volumeMounts=[{"name": "tls", "mountPath": "/secrets/tls", "readOnly": True}])
    | {"volumes": [{"name": "tls", "secret": {"secretName": "bookies"}}]},
    "one more port": bookie(ports=[{"containerPort": 8080, "name": "http"}]),
    "spread": {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        ]
    },
    "another scheduler": {"schedulerName": "volcano", "runtimeClassName": "kata"},
    "another account, with a token": {"serviceAccountName": "other", "automountServiceAccountToken": True},
    "addresses": {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["zk"]}], "dnsConfig": {"nameservers": ["1.1.1.1"]}},
    "pull secrets": {"imagePullSecrets": [{"name": "more"}]},
    "tolerations": {"tolerations": [{"key": "disks", "operator": "Exists"}]},
    "SELinux": {"securityContext": {"seLinuxOptions": {"level": "s0:c1,c2"}, "supplementalGroups": [7]}},
    "how groups are set": {"securityContext": {"fsGroupChangePolicy": "Always"}},
    "where it runs": {
        "nodeSelector": {"disk": "nvme"},
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    },
    "far from writers": {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "writer"}}}
                ]
            }
        }
    },
    "what we say too": bookie(securityContext={"readOnlyRootFilesystem": True}) | {"enableServiceLinks": False},
}  # fmt: skip

ROWS = (
    ({"hostNetwork": True}, "hostNetwork is the operator's"),
    ({"terminationGracePeriodSeconds": 5}, "use spec.lifecycle.terminationGrace"),
    ({"restartPolicy": "Never"}, "restartPolicy"),
    ({"shareProcessNamespace": True}, "shareProcessNamespace"),
    ({"resources": {"limits": {"memory": "1Gi"}}}, "use spec.resources"),
    ({"nodeSelector": {"topology.kubernetes.io/zone": "zone-b"}}, "use spec.placement.nodeSelector"),
    ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser"),
    ({"securityContext": {"fsGroup": 0}}, "securityContext.fsGroup is set by the operator"),
    ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccompProfile.type"),
    ({"securityContext": {"runAsNonRoot": False}}, "runAsNonRoot"),
    ({"volumes": [{"name": "bookie-tmp", "emptyDir": {}}]}, "bookie-tmp is the name of a volume of the operator"),
    ({"volumes": [{"name": "bookie-new", "emptyDir": {}}]}, "bookie-new is the name"),
    ({"volumes": [{"name": "journal", "emptyDir": {}}]}, "journal is the name"),
    (
        {"volumes": [{"name": "x", "persistentVolumeClaim": {"claimName": "ledgers-ledgers-zone-b-0"}}]},
        "is the claim ledgers-ledgers-zone-b-0 of a bookie",
    ),
    (
        {"containers": [{"name": "x", "volumeMounts": [{"name": "ledgers", "mountPath": "/x"}]}]},
        "container x: volume ledgers is the bookie's own",
    ),
    (
        {"initContainers": [{"name": "x", "volumeMounts": [{"name": "bookie-admin-tls", "mountPath": "/x"}]}]},
        "volume bookie-admin-tls is the bookie's own",
    ),
    (bookie(volumeMounts=[{"name": "journal", "mountPath": "/elsewhere"}]), "volume journal is the bookie's own"),
    ({"initContainers": [{"name": "bookie", "image": "x"}]}, "name of the bookie's container"),
    (bookie(image="other"), "use spec.image"),
    (bookie(command=["sh"]), "command is the operator's"),
    (bookie(args=["serve"]), "args is the operator's"),
    (bookie(livenessProbe={"exec": {"command": ["true"]}}), "livenessProbe"),
    (bookie(readinessProbe={}), "readinessProbe"),
    (bookie(lifecycle={"preStop": {"sleep": {"seconds": 600}}}), "lifecycle"),
    (bookie(envFrom=[{"secretRef": {"name": "x"}}]), "envFrom is the operator's: remove it and use env"),
    (bookie(env=[{"name": "BOOKIE_JOURNAL_WRITE_DATA", "value": "false"}]), "variable BOOKIE_JOURNAL_WRITE_DATA"),
    (bookie(env=[{"name": "POD_UID", "value": "1"}]), "variable POD_UID"),
    (bookie(env=[{"name": "NODE_NAME", "value": "1"}]), "variable NODE_NAME"),
    (bookie(securityContext={"runAsUser": 0}), "securityContext.runAsUser"),
    (bookie(securityContext={"privileged": True}), "securityContext.privileged"),
    (bookie(securityContext={"allowPrivilegeEscalation": True}), "allowPrivilegeEscalation is set by the operator"),
    (bookie(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}), "capabilities.add"),
    (bookie(ports=[{"containerPort": 3181, "name": "mine"}]), "ports.name"),
    (bookie(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), "A stands there twice"),
    ({"containers": [{"image": "nameless"}]}, "an item has no name"),
    *(
        (bookie(volumeMounts=[{"name": "x", "mountPath": path}]), "hides or enters a volume of the operator")
        for path in ("/bookie", "/bookie/ledgers/ledgers/", "bookie/x", "/etc/../bookie/journal", "/", "/etc", "//tmp")
    ),
)


@pytest.mark.parametrize("overlay", TAKEN.values(), ids=TAKEN)
def test_what_is_not_ours_reaches_the_pods_and_ours_stays(overlay: Json) -> None:
    plain, made = ours(), template(overlay)

    assert refusals(overlay) == ()
    assert pod_types.problems(make.cluster(podTemplate={"spec": overlay}).spec.pod_template) == ()
    assert common.is_applied({"spec": kept(plain["spec"], overlay)}, made)
    assert has(made["spec"], overlay), made["spec"]


def kept(spec: Json, overlay: Json) -> Json:
    """Ours without the few places where the user's word counts."""
    out = {
        key: value for key, value in spec.items() if key not in ("serviceAccountName", "automountServiceAccountToken")
    }
    return out | {"securityContext": {k: v for k, v in spec["securityContext"].items() if k != "fsGroupChangePolicy"}}


def has(found: Any, wanted: Any) -> bool:
    """Every leaf of `wanted` is in `found`; items of lists anywhere in theirs."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(key in found and has(found[key], one) for key, one in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and all(any(has(one, each) for one in found) for each in wanted)
    return bool(found == wanted)


@pytest.mark.parametrize(("overlay", "words"), ROWS, ids=[words for _, words in ROWS])
def test_what_is_ours_is_refused_by_name_and_never_changed(overlay: Json, words: str) -> None:
    plain, found = ours(), refusals(overlay)

    assert [one for one in found if words in one], found
    assert all(one.startswith("spec.podTemplate") for one in found), found
    assert common.is_applied(plain["spec"]["containers"][0], template(overlay)["spec"]["containers"][0])


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({"labels": {"bookie.dev/cluster": "other"}}, "bookie.dev/cluster is the operator's"),
        ({"annotations": {"bookie.dev/inputs": "x"}}, "bookie.dev/inputs is the operator's"),
        ({"labels": {"app.kubernetes.io/component": "x"}}, "is set by the operator"),
        ({"labels": {"apps.kubernetes.io/pod-index": "0"}}, "is the StatefulSet controller's"),
        ({"labels": {"team": "a"}, "annotations": {"sidecar.istio.io/inject": "false"}}, ""),
    ],
)
def test_labels_and_annotations_by_which_pods_are_known_are_ours(metadata: Json, words: str) -> None:
    found, made = refusals(metadata=metadata), template(metadata=metadata)["metadata"]

    assert [words in one for one in found] == ([True] if words else []), found
    assert all(made["labels"][key] == value for key, value in ours()["metadata"]["labels"].items())
    assert words or (made["labels"]["team"], made["annotations"]["sidecar.istio.io/inject"]) == ("a", "false")


def test_a_zone_that_comes_from_the_label_cannot_be_the_same_for_all() -> None:
    metadata = {"labels": {"topology.kubernetes.io/zone": "a"}}

    assert refusals(metadata=metadata) == ()
    assert "would be the same for all" in refusals(metadata=metadata, placement={"zoneSource": "PodLabel"})[0]


def test_a_template_that_says_nothing_changes_no_byte() -> None:
    assert template() == ours()


def test_our_containers_and_variables_come_first_whatever_the_users_order() -> None:
    made = template(
        {
            "containers": [
                {"name": "a", "image": "a"},
                {"name": "bookie", "env": [{"name": "A", "value": "$(POD_NAME)"}]},
            ]
        }
    )

    assert [one["name"] for one in made["spec"]["containers"]] == ["bookie", "a"]
    assert made["spec"]["containers"][0]["env"][-1] == {"name": "A", "value": "$(POD_NAME)"}


NAMES = st.sampled_from(["bookie", "a", "b", "bookie-tmp", "journal"])
LEAVES: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), st.integers(0, 3), st.sampled_from(["x", "3181"]))
FIELDS = st.sampled_from(
    [
        *("name", "image", "env", "volumeMounts", "mountPath", "ports", "containerPort", "command", "securityContext"),
        *("containers", "volumes", "tolerations", "nodeSelector", "affinity", "runAsUser", "serviceAccountName"),
        *("labels", "annotations", "bookie.dev/cluster", "podAntiAffinity", "restartPolicy", "value", "key"),
    ]
)
ITEMS = st.fixed_dictionaries(
    {}, optional={"name": NAMES, "mountPath": st.sampled_from(["/x", "/tmp"]), "value": LEAVES}
)
ANYTHING = st.recursive(
    LEAVES | ITEMS, lambda inner: st.lists(inner | ITEMS, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4)
)
OVERLAYS = st.dictionaries(FIELDS, ANYTHING, max_size=5)


@given(spec=OVERLAYS, labels=st.dictionaries(st.sampled_from(["team", "bookie.dev/cluster"]), st.just("x"), max_size=2))
@settings(max_examples=300, deadline=None)
def test_any_overlay_leaves_ours_as_it_is_and_is_merged_once_and_for_all(spec: Json, labels: Json) -> None:
    plain, theirs = ours(), {"spec": spec, "metadata": {"labels": labels}}
    before = copy.deepcopy((plain, theirs))

    made = pod_template.merged(plain, theirs)

    assert (plain, theirs) == before, "neither is changed"
    assert common.is_applied({"spec": kept(plain["spec"], spec), "metadata": plain["metadata"]}, made)
    assert pod_template.merged(plain, theirs) == made, "order is stable"
    assert common.is_applied(made, pod_template.merged(made, theirs)), "once more changes nothing"
    # A server-side apply keeps what others added between ours: no drift either.
    others = copy.deepcopy(made)
    others["spec"]["containers"].insert(0, {"name": "mesh"})
    others["metadata"]["labels"]["other"] = "y"
    assert common.is_applied(made, others)


@given(rows=st.lists(st.sampled_from([*TAKEN.values(), *(row for row, _ in ROWS)]), min_size=2, max_size=4))
@settings(max_examples=200, deadline=None)
def test_several_overlays_in_one_are_taken_whole_unless_refused(rows: list[Json]) -> None:
    spec: Json = {}
    for row in rows:
        spec = pod_template.merged(spec, row)

    assert refusals(spec) or has(template(spec)["spec"], spec)

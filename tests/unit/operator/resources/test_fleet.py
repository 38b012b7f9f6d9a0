"""Manifests: what safety needs of them, and when a live object counts as applied."""

import copy
import dataclasses
from typing import Any

import pytest

import operator_support as make
from bookie.settings.table import BY_NAME
from bookie_operator.gateways import facts
from bookie_operator.plan import doors
from bookie_operator.resources import common, fleet, settings


def children(**changes: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (one["kind"], one["metadata"]["name"]): one for one in fleet.everything(make.cluster(**changes), make.IMAGE)
    }


def stateful_set(**changes: Any) -> dict[str, Any]:
    return children(**changes)[("StatefulSet", "ledgers-zone-a")]


def pod(**changes: Any) -> dict[str, Any]:
    out: dict[str, Any] = stateful_set(**changes)["spec"]["template"]["spec"]
    return out


def environment(**changes: Any) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in pod(**changes)["containers"][0]["env"]}


def test_there_is_one_stateful_set_per_zone() -> None:
    replicas = {name: one["spec"]["replicas"] for (kind, name), one in children().items() if kind == "StatefulSet"}

    assert replicas == {"ledgers-zone-a": 2, "ledgers-zone-b": 1, "ledgers-zone-c": 1}


def test_nothing_of_ours_ever_deletes_a_claim() -> None:
    spec = stateful_set()["spec"]

    assert spec["persistentVolumeClaimRetentionPolicy"] == {"whenDeleted": "Retain", "whenScaled": "Retain"}
    assert all("ownerReferences" not in claim["metadata"] for claim in spec["volumeClaimTemplates"])


def passing(**changes: Any) -> dict[str, Any]:
    """A cluster whose volumes go with its pods."""
    kept = make.spec()["storage"]
    kind = {"size": "10Gi", "kind": "Ephemeral"}
    volumes = {role: {"volumes": [{"name": role} | kind]} for role in ("journal", "ledgers", "index")}
    return {"storage": kept | volumes, "lifecycle": {"deletionPolicy": "Delete"}} | changes


def test_what_goes_with_the_pod_is_a_directory_without_a_limit_and_its_size_is_requested() -> None:
    spec = stateful_set(**passing())["spec"]
    found = spec["template"]["spec"]
    volumes = {one["name"]: one for one in found["volumes"]}
    (mounts,) = [one["volumeMounts"] for one in found["containers"]]

    assert "volumeClaimTemplates" not in spec
    for role in ("journal", "ledgers", "index"):
        assert volumes[role]["emptyDir"] == {}
        assert {"name": role, "mountPath": f"/bookie/{role}/{role}"}.items() <= next(
            one for one in mounts if one["name"] == role
        ).items()
    assert found["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "30Gi"
    given = passing(resources={"requests": {"cpu": "1", "memory": "4Gi", "ephemeral-storage": "50Gi"}})
    assert pod(**given)["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "50Gi"


def test_a_bookie_on_the_nodes_disk_stops_taking_writes_before_the_kubelet_ends_pods() -> None:
    lines = settings.properties(make.cluster(**passing()).spec)
    own = settings.properties(make.cluster(**passing(config={"diskUsageThreshold": "0.7"})).spec)

    assert float(lines["diskUsageThreshold"]) <= 0.80
    assert own["diskUsageThreshold"] == "0.7"
    assert lines["allowSharedFilesystem"].count(",") == 2
    assert "diskUsageThreshold" not in settings.properties(make.cluster().spec)


def test_no_drain_evicts_a_pod_that_is_not_ready_where_its_data_would_go_with_it() -> None:
    (budget,) = [one for (kind, _), one in children(**passing()).items() if kind == "PodDisruptionBudget"]

    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"


def test_pods_start_side_by_side_and_restart_only_when_told() -> None:
    spec = stateful_set()["spec"]

    assert (spec["podManagementPolicy"], spec["updateStrategy"]) == ("Parallel", {"type": "OnDelete"})


def test_every_child_goes_with_its_cluster() -> None:
    for one in children().values():
        (owner,) = one["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == ("cluster-uid", True)


def test_pods_run_restricted_and_without_a_token() -> None:
    spec = pod()
    container = spec["containers"][0]

    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_bookie_that_waits_is_alive_and_not_ready() -> None:
    container = pod()["containers"][0]

    assert container["livenessProbe"]["grpc"] == {"port": 3182, "service": "process"}
    assert container["startupProbe"]["grpc"] == {"port": 3182, "service": "process"}
    assert container["readinessProbe"]["grpc"] == {"port": 3182, "service": "serving"}


def test_identity_comes_from_ordinal_and_pool_never_from_an_address() -> None:
    env = environment()

    assert env["BOOKIE_BOOKIE_ID"]["value"] == "data.ledgers.zone-a.$(POD_INDEX)"
    assert env["BOOKIE_ADVERTISED_ADDRESS"]["value"] == "$(POD_NAME).ledgers-bookies.data.svc.cluster.local"
    assert env["BOOKIE_ZONE"]["value"] == "zone-a"
    assert list(env).index("POD_INDEX") < list(env).index("BOOKIE_BOOKIE_ID")


def test_the_zone_may_come_from_the_pods_label() -> None:
    path = environment(placement={"zoneSource": "PodLabel"})["BOOKIE_ZONE"]["valueFrom"]["fieldRef"]["fieldPath"]

    assert path == "metadata.labels['topology.kubernetes.io/zone']"


def test_a_zone_selects_its_nodes_by_topology_key_or_by_its_own_selector() -> None:
    zones = [{"name": "zone-a", "nodeSelector": {"rack": "7"}}, {"name": "zone-b"}, {"name": "zone-c"}]

    assert pod()["nodeSelector"] == {"topology.kubernetes.io/zone": "zone-a"}
    assert pod(zones=zones)["nodeSelector"] == {"rack": "7"}


def test_without_zones_there_is_one_pool_without_a_zone() -> None:
    spec = make.spec()["storage"] | {"journalWriteData": True}
    found = children(zones=None, storage=spec)[("StatefulSet", "ledgers-default")]["spec"]

    assert found["replicas"] == 4
    assert "nodeSelector" not in found["template"]["spec"]
    assert "BOOKIE_ZONE" not in {entry["name"] for entry in found["template"]["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("mode", "key"),
    [
        ("Required", "requiredDuringSchedulingIgnoredDuringExecution"),
        ("Preferred", "preferredDuringSchedulingIgnoredDuringExecution"),
        ("None", None),
    ],
)
def test_bookies_keep_apart_as_asked(mode: str, key: str | None) -> None:
    affinity = pod(placement={"antiAffinity": mode}).get("affinity")

    assert (None if affinity is None else next(iter(affinity["podAntiAffinity"]))) == key


def test_optional_placement_and_pull_secrets_reach_pods_and_job() -> None:
    changes: dict[str, Any] = {
        "imagePullSecrets": [{"name": "pull"}],
        "placement": {"tolerations": [{"key": "storage", "operator": "Exists"}], "priorityClassName": "high"},
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
    }
    job = children(**changes)[("Job", "ledgers-metadata")]["spec"]["template"]["spec"]

    assert pod(**changes)["priorityClassName"] == "high"
    assert pod(**changes)["containers"][0]["resources"] == {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}}
    for spec in (job, pod(**changes)):
        assert spec["imagePullSecrets"] == [{"name": "pull"}]
        assert spec["tolerations"] == [{"key": "storage", "operator": "Exists"}]


def test_a_bookie_finds_its_own_cluster_s_certificates_and_no_other_s_in_its_namespace_s_secret() -> None:
    (container,) = pod()["containers"]
    (volume,) = [one for one in pod()["volumes"] if one["name"] == "bookie-admin-tls"]

    assert volume["secret"]["secretName"] == "bookie-admin-certificates"
    assert [(item["key"], item["path"]) for item in volume["secret"]["items"]] == [
        ("ledgers.tls.crt", "tls.crt"),
        ("ledgers.tls.key", "tls.key"),
        ("ledgers.ca.crt", "ca.crt"),
        ("ledgers.clients", "clients"),
    ]
    mount = {"name": "bookie-admin-tls", "mountPath": "/etc/bookie-admin-tls", "readOnly": True}
    assert mount in container["volumeMounts"]
    told = {one["name"]: one.get("value") for one in container["env"]}
    assert (told["BOOKIE_ADMIN_TLS_DIRECTORY"], told["BOOKIE_ADMIN_TLS_PORT"]) == ("/etc/bookie-admin-tls", "3184")
    assert told["BOOKIE_ADMIN_SOCKET"].startswith("/tmp/")


def test_claims_are_used_by_one_pod_at_a_time_unless_told_otherwise() -> None:
    (journal, *_) = stateful_set()["spec"]["volumeClaimTemplates"]
    storage = make.spec()["storage"]
    storage["journal"]["volumes"][0] |= {"accessMode": "ReadWriteOnce", "storageClassName": "fast"}
    (other, *_) = stateful_set(storage=storage)["spec"]["volumeClaimTemplates"]

    assert journal["spec"]["accessModes"] == ["ReadWriteOncePod"]
    assert "storageClassName" not in journal["spec"]
    assert (other["spec"]["accessModes"], other["spec"]["storageClassName"]) == (["ReadWriteOnce"], "fast")


def test_settings_name_what_the_bookie_needs() -> None:
    storage = make.spec()["storage"]
    storage["ledgers"]["volumes"][0]["allowSharedFilesystem"] = True
    found = settings.properties(
        make.cluster(storage=storage, repair={"copyRate": "10M"}, config={"flushInterval": "2000"}).spec
    )

    assert found["journalDirectories"] == "/bookie/journal/journal"
    assert found["indexDirectories"] == "/bookie/index/index"
    assert found["journalWriteData"] == "false"
    assert found["regeneration"] == "gated"
    assert found["volumeProof"] == "kubernetes"
    assert found["allowSharedFilesystem"] == "/bookie/ledgers/ledgers"
    assert found["copyRateBytesPerSecond"] == "10000000"
    assert found["shutdownTimeoutMs"] == "110000"
    assert found["flushInterval"] == "2000"


def test_an_index_on_the_ledger_volumes_has_no_directory_of_its_own() -> None:
    storage = {key: value for key, value in make.spec()["storage"].items() if key != "index"}

    assert "indexDirectories" not in settings.properties(make.cluster(storage=storage).spec)


def test_changed_settings_are_a_new_revision_of_the_pods() -> None:
    def revision(**changes: Any) -> str:
        (name,) = facts.config_maps(stateful_set(**changes)["spec"]["template"]["spec"])
        return name

    assert revision() != revision(config={"x": "1"})


def test_the_metadata_job_is_made_only_when_asked_for() -> None:
    never = children(metadataService={"uri": "zk://zookeeper:2181/ledgers"})

    assert ("Job", "ledgers-metadata") in children()
    assert ("Job", "ledgers-metadata") not in never


def test_one_budget_is_over_every_bookie_and_keeps_no_pod_that_serves_nobody() -> None:
    """Of two that match a pod each forbids its eviction; one for each zone lets a bookie go in each."""
    found = children()
    (budget,) = [one["spec"] for (kind, _), one in found.items() if kind == "PodDisruptionBudget"]
    labels = [
        one["spec"]["template"]["metadata"]["labels"] for (kind, _), one in found.items() if kind == "StatefulSet"
    ]

    assert len(labels) == 3
    assert all(budget["selector"]["matchLabels"].items() <= one.items() for one in labels)
    assert budget["selector"]["matchExpressions"] == []
    assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_a_bookie_s_name_is_of_the_domain_of_its_kubernetes() -> None:
    advertised = environment(network={"clusterDomain": "west.example"})["BOOKIE_ADVERTISED_ADDRESS"]

    assert advertised["value"] == "$(POD_NAME).ledgers-bookies.data.svc.west.example"


def test_without_pdb_there_is_none() -> None:
    assert ("PodDisruptionBudget", "ledgers-bookies") not in children(disruption={"pdb": False})


def test_an_object_as_we_applied_it_needs_nothing() -> None:
    desired = stateful_set()
    live = {**desired, "status": {"replicas": 2}, "spec": {**desired["spec"], "minReadySeconds": 0}}

    assert common.is_applied(desired, live)


def test_an_amount_that_is_a_number_makes_the_same_pods_as_its_text() -> None:
    """Neither who takes the quotes away, nor the API server's way of writing it, rolls anything out."""
    numbers, texts = {"cpu": 2, "memory": 4_294_967_000}, {"cpu": "2", "memory": "4294967000"}
    desired = children(resources={"requests": numbers, "limits": numbers})

    live = copy.deepcopy(desired[("StatefulSet", "ledgers-zone-a")])
    (container,) = live["spec"]["template"]["spec"]["containers"]
    assert container["resources"] == {"requests": texts, "limits": texts}
    container["resources"] = {kind: {"cpu": "2", "memory": "4294967k"} for kind in ("requests", "limits")}

    assert desired == children(resources={"requests": texts, "limits": texts})
    assert common.is_applied(desired[("StatefulSet", "ledgers-zone-a")], live)


def test_a_changed_leaf_is_drift() -> None:
    desired = stateful_set()
    live = {**desired, "spec": {**desired["spec"], "replicas": 7}}

    assert not common.is_applied(desired, live)
    assert not common.is_applied(desired, None)


def test_quantities_are_compared_by_value() -> None:
    assert common.is_applied({"cpu": "1000m"}, {"cpu": "1"})
    assert not common.is_applied({"cpu": "1000m"}, {"cpu": "2"})


def test_what_the_api_server_drops_when_empty_is_no_drift() -> None:
    assert common.is_applied({"a": False, "b": {}, "c": None}, {})


def test_lists_of_another_length_are_drift() -> None:
    assert not common.is_applied({"a": [1]}, {"a": [1, 2]})


def test_the_mark_does_not_depend_on_the_mark() -> None:
    desired = stateful_set()

    assert common.marked(desired) == desired


@pytest.mark.parametrize(
    ("security", "told"),
    [
        ({}, {"zkJaasFile": "/etc/bookie-metadata/jaas.conf", "zkEnableSecurity": "true"}),
        ({"authentication": "Digest", "acls": False}, {"zkDigestFile": "/etc/bookie-metadata/digest"}),
        (
            {"authentication": "None", "tls": "Mutual"},
            {
                "zkTlsEnabled": "true",
                "zkTlsTrustStore": "/etc/bookie-metadata/ca.crt",
                "zkTlsKeyStore": "/etc/bookie-metadata/tls.key",
                "zkTlsCertificatePath": "/etc/bookie-metadata/tls.crt",
            },
        ),
    ],
)
def test_a_secret_says_who_the_pods_are_for_zookeeper(security: dict[str, Any], told: dict[str, str]) -> None:
    service = {
        "uri": "zk+hierarchical://zk:2181/ledgers",
        "initialize": "IfAbsent",
        "security": {"secretName": "zookeeper", **security},
    }
    made = make.cluster(metadataService=service)

    properties = settings.properties(made.spec)
    assert {key: text for key, text in properties.items() if key.startswith("zk") and key != "zkTimeout"} == told
    job = children(metadataService=service)[("Job", "ledgers-metadata")]["spec"]["template"]["spec"]
    given = {entry["name"]: entry["value"] for entry in job["containers"][0]["env"]}
    assert given == {BY_NAME[key].variable: text for key, text in told.items()}
    for spec in (pod(metadataService=service), job):
        (mount,) = [each for each in spec["containers"][0]["volumeMounts"] if each["name"] == "bookie-metadata"]
        assert mount == {"name": "bookie-metadata", "mountPath": "/etc/bookie-metadata", "readOnly": True}
        (volume,) = [each for each in spec["volumes"] if each["name"] == "bookie-metadata"]
        assert volume["secret"]["secretName"] == "zookeeper"


def test_without_security_nothing_is_mounted_for_it() -> None:
    assert not [volume for volume in pod()["volumes"] if volume["name"] == "bookie-metadata"]


@pytest.mark.parametrize(
    ("network", "families"),
    [
        ({}, {}),
        ({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4"]}, ["IPv4"]),
        ({"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv6"]}, ["IPv6"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, {}),
        ({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}, ["IPv6", "IPv4"]),
    ],
)
def test_names_have_the_families_asked_for_and_bookies_listen_to_both(network: dict[str, Any], families: Any) -> None:
    """Where Kubernetes has IPv6 first, kubelets and the operator call that, whatever the names have."""
    service = children(network=network)[("Service", "ledgers-bookies")]["spec"]

    assert settings.properties(make.cluster(network=network).spec)["listeningAddress"] == "::"
    assert service.get("ipFamilies", {}) == families
    assert service.get("ipFamilyPolicy") == network.get("ipFamilyPolicy")


@pytest.mark.parametrize(("ip", "host"), [("10.0.0.1", "10.0.0.1"), ("fd00::7", "[fd00::7]")])
def test_the_operator_calls_a_bookie_at_an_address_of_either_family(ip: str, host: str) -> None:
    case = make.fleet()[0]
    assert case.pod is not None

    door = doors.of(make.cluster(), dataclasses.replace(case.pod, ip=ip))

    assert door.address == f"{host}:3184"

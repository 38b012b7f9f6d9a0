"""The charts as Helm renders them: lint, every switch, and values that nobody may set."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

import kube_shell
import kube_tools
from bookie_operator.model.operation_rules import EXPLAINED_TYPES
from kube_errors import CommandFailed
from monitoring_support import ALERTS
from pages_support import ROOT

CHARTS = ROOT / "charts"
CLUSTER_SCOPE = (
    "ClusterRole",
    "ClusterRoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
SWITCHES: dict[str, tuple[str, ...]] = {
    "as shipped": (),
    "two namespaces": ("--set", "watch.namespaces={data,logs}"),
    "one namespace, nodes and volumes read": (
        *("--set", "watch.namespaces={data}"),
        *("--set", "nodes.read=true", "--set", "persistentVolumes.read=true"),
    ),
    "no policies": ("--set", "networkPolicy.enabled=false", "--set", "deletionProtection.enabled=false"),
    "nobody scrapes": ("--set-json", "networkPolicy.metricsFrom=[]"),
    "everything watched over": (
        *("--set", "monitoring.podMonitors=true", "--set", "monitoring.rules=true"),
        *("--set", "monitoring.dashboards=true", "--set", "monitoring.labels.release=prometheus"),
    ),
    "operations": (
        *("--set", "operations.lossApprovers={data-owners}", "--set", "operations.roles=true"),
        *("--set", "watch.namespaces={data,logs}"),
    ),
    "a process that waits": ("--set", "replicas=2"),
    "an image of one's own": ("--set", "image.repository=ours", "--set-json", 'imagePullSecrets=[{"name":"key"}]'),
}


def helm(*arguments: str) -> str:
    return kube_shell.run(kube_tools.helm_path(), *arguments, timeout_s=120.0)


def rendered(*values: str, chart: str = "bookie-operator") -> list[dict[str, Any]]:
    text = helm("template", "mine", str(CHARTS / chart), "--namespace", "system", *values)
    return [one for one in yaml.safe_load_all(text) if one is not None]


@pytest.mark.parametrize("chart", sorted(path.name for path in CHARTS.iterdir()))
def test_helm_finds_nothing_to_complain_of(chart: str) -> None:
    assert "0 chart(s) failed" in helm("lint", "--strict", str(CHARTS / chart))


@pytest.mark.parametrize("switch", SWITCHES)
def test_whatever_is_switched_each_object_is_whole_named_once_and_labelled(switch: str) -> None:
    objects = rendered(*SWITCHES[switch])

    names = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in objects]
    assert len(names) == len(set(names))
    for one in objects:
        metadata = one["metadata"]
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "Helm", names
        assert ("namespace" in metadata) == (one["kind"] not in CLUSTER_SCOPE), one["kind"]
        if "roleRef" in one:
            bound = (one["roleRef"]["kind"], one["roleRef"]["name"])
            assert bound in {(other["kind"], other["metadata"]["name"]) for other in objects}


@pytest.mark.parametrize("chart", ["bookie-operator", "bookie-cluster"])
@pytest.mark.parametrize("name", ["on", "123", "null", "0x1f"])
def test_a_release_and_its_namespaces_may_have_names_that_yaml_takes_for_something_else(chart: str, name: str) -> None:
    watched = json.dumps([name, "data"])
    more = (*SWITCHES["operations"], "--set-json", f"watch.namespaces={watched}") if chart == "bookie-operator" else ()
    text = helm("template", name, str(CHARTS / chart), "--namespace", name, *more)

    found = [one for document in yaml.safe_load_all(text) if document for one in _names(document)]
    assert name in found
    assert [one for one in found if not isinstance(one, str)] == []


def _names(value: Any, key: str = "") -> Iterator[Any]:
    """Yield each name, namespace and label in a manifest."""
    if isinstance(value, dict):
        for word, one in value.items():
            yield from _names(one, word if key not in ("labels", "matchLabels") else "name")
    elif isinstance(value, list):
        for one in value:
            yield from _names(one, "name" if key in ("values", "resourceNames") else "")
    elif key in ("name", "namespace", "serviceAccountName"):
        yield value


def test_processes_of_one_release_go_to_different_nodes_and_never_beside_another_release() -> None:
    def deployment(switch: str) -> dict[str, Any]:
        (found,) = [one["spec"] for one in rendered(*SWITCHES[switch]) if one["kind"] == "Deployment"]
        return found  # type: ignore[no-any-return]

    alone, two = deployment("as shipped"), deployment("a process that waits")

    assert (alone["replicas"], two["replicas"]) == (1, 2)
    assert "affinity" not in alone["template"]["spec"]
    terms = two["template"]["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    found = {one["podAffinityTerm"]["topologyKey"]: one["podAffinityTerm"]["labelSelector"] for one in terms}
    assert set(found) == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert all(one["matchLabels"].items() <= two["selector"]["matchLabels"].items() for one in found.values())
    assert alone["strategy"] == two["strategy"] == {"type": "Recreate"}


def test_with_namespaces_named_there_is_a_role_in_each_and_no_cluster_role() -> None:
    objects = rendered(*SWITCHES["two namespaces"])

    roles = {one["metadata"]["namespace"] for one in objects if one["kind"] == "Role"}
    assert roles == {"system", "data", "logs"}
    assert not [one for one in objects if one["kind"] == "ClusterRole"]


def test_who_may_give_data_up_is_said_by_groups_and_only_where_groups_are_named() -> None:
    before = rendered()
    found = {one["metadata"]["name"]: one for one in rendered("--set", "operations.lossApprovers={a,b}")}

    assert not [one for one in before if "loss-approval" in one["metadata"]["name"]]
    spec = found["system-mine-loss-approval"]["spec"]
    if "validations" in spec:
        (rule,) = spec["validations"]
        assert rule["expression"].endswith('request.userInfo.groups.exists(group, group in ["a","b"])')
        assert spec["failurePolicy"] == "Fail"
        assert all(f'"{kind}"' in rule["expression"] for kind in EXPLAINED_TYPES), "and nobody else may create these"


def test_roles_for_people_are_made_when_asked_for_and_bound_to_nobody() -> None:
    names = {"system-mine-bookie-operations-editor", "system-mine-bookie-loss-approver"}
    objects = rendered("--set", "operations.roles=true")

    assert {one["metadata"]["name"] for one in objects if one["kind"] == "ClusterRole"} > names
    bound = {one["roleRef"]["name"] for one in objects if "roleRef" in one}
    assert not bound & names
    for one in objects:
        if one["metadata"]["name"] in names:
            assert [rule["resources"] for rule in one["rules"]] == [["bookieoperations"], ["bookieclusters"]]
            assert "update" not in one["rules"][0]["verbs"]
            assert one["rules"][1]["verbs"] == ["get", "list", "watch"]


@pytest.mark.parametrize("switch", SWITCHES)
def test_no_switch_brings_a_webhook_or_a_crd(switch: str) -> None:
    """A webhook that is down blocks every write. A CRD that goes with its release takes every cluster along."""
    kinds = {one["kind"] for one in rendered(*SWITCHES[switch])}

    assert not [kind for kind in kinds if "Webhook" in kind or kind == "CustomResourceDefinition"]


def test_who_may_reach_which_port_of_a_bookie() -> None:
    operator = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}}
    labels = {"app.kubernetes.io/name": "bookie-operator"}
    clients, scrapers = {"podSelector": {"matchLabels": {"a": "client"}}}, {"podSelector": {"matchLabels": {"a": "p"}}}
    objects = rendered(
        *("--set", "networkPolicy.operator.namespace=ops"),
        *("--set-json", f"networkPolicy.dataFrom=[{json.dumps(clients)}]"),
        *("--set-json", f"networkPolicy.metricsFrom=[{json.dumps(scrapers)}]"),
        chart="bookie-cluster",
    )

    (policy,) = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    assert policy["policyTypes"] == ["Ingress"]
    assert policy["podSelector"]["matchLabels"]["bookie.dev/cluster"] == "mine"
    mates = {"podSelector": {"matchLabels": {"bookie.dev/cluster": "mine"}}}
    found = {port["port"]: rule["from"] for rule in policy["ingress"] for port in rule["ports"]}
    admin = [operator | {"podSelector": {"matchLabels": labels}}]
    assert found == {3181: [mates, clients], 3184: admin, 3182: admin, 3183: [scrapers]}


def test_nobody_reaches_the_operator_but_who_scrapes_it() -> None:
    def policy(switch: str) -> dict[str, Any]:
        (found,) = [one["spec"] for one in rendered(*SWITCHES[switch]) if one["kind"] == "NetworkPolicy"]
        return found  # type: ignore[no-any-return]

    (rule,) = policy("as shipped")["ingress"]
    assert rule == {"from": [{"namespaceSelector": {}}], "ports": [{"port": "http", "protocol": "TCP"}]}
    assert (policy("nobody scrapes")["policyTypes"], policy("nobody scrapes")["ingress"]) == (["Ingress"], [])


def test_monitors_rules_and_dashboards_are_there_only_when_asked_for() -> None:
    kinds = {"PodMonitor", "PrometheusRule"}
    before = rendered()
    after = rendered(*SWITCHES["everything watched over"])

    assert not [one for one in before if one["kind"] in kinds or "dashboard" in one["metadata"]["name"]]
    monitors = [one for one in after if one["kind"] == "PodMonitor"]
    (rules,) = [one for one in after if one["kind"] == "PrometheusRule"]
    boards = [one for one in after if one["kind"] == "ConfigMap"]
    assert [one["metadata"]["labels"]["release"] for one in (*monitors, rules)] == ["prometheus"] * 3
    # As written: Helm must not take Prometheus's own braces for its.
    assert [rule for group in rules["spec"]["groups"] for rule in group["rules"]] == ALERTS
    assert sorted(json.loads(text)["uid"] for board in boards for text in board["data"].values()) == [
        "bookie-bookie",
        "bookie-fleet",
        "bookie-operator",
    ]


@pytest.mark.parametrize(
    ("chart", "wrong", "told"),
    [
        ("bookie-operator", "monitoring.ruls=true", "ruls"),
        ("bookie-operator", "logLevel=LOUD", "logLevel"),
        ("bookie-operator", "watch.namespaces=data", "namespaces"),
        ("bookie-operator", "nodes.raed=true", "raed"),
        ("bookie-operator", "operations.lossApprover={a}", "lossApprover"),
        ("bookie-operator", "nodeSelector.disk=true", "/nodeSelector/disk': got boolean, want string"),
        ("bookie-cluster", "networkPolcy.enabled=false", "networkPolcy"),
        ("bookie-cluster", "labels.team=7", "/labels/team': got number, want string"),
        ("bookie-cluster", "annotations.canary=true", "/annotations/canary': got boolean, want string"),
        ("bookie-cluster", "networkPolicy.operator.podLabels.a=true", "/podLabels/a': got boolean, want string"),
    ],
)
def test_a_value_that_nobody_may_set_is_refused_by_its_name(chart: str, wrong: str, told: str) -> None:
    with pytest.raises(CommandFailed, match=told):
        rendered("--set", wrong, chart=chart)

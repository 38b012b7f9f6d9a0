"""The charts as Helm renders them: lint, every switch, and values that nobody may set."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import kube_shell
import kube_tools
from bookie_operator.model import reserved, selectors
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
        who = {one["name"]: one["expression"] for one in spec["variables"]}["isApprover"]
        assert who == 'request.userInfo.groups.exists(group, group in ["a","b"])'
        assert all(rule["expression"].endswith("|| variables.isApprover") for rule in spec["validations"])
        assert spec["failurePolicy"] == "Fail"
        operations, annotation = (rule["expression"] for rule in spec["validations"])
        assert all(f'"{kind}"' in operations for kind in EXPLAINED_TYPES), "and nobody else may create these"
        assert "variables.approval" in annotation


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


PEERS = ([{}], [{"podSelectr": {}}], [{"ipBlock": {"cidr": "10.0.0.0"}}], [{"ipBlock": {"except": []}}])
NONSENSE: dict[str, dict[str, tuple[object, ...]]] = {
    "bookie-operator": {
        "image.repository": ("", "bookie next", "Bookie", "bookie:dev/"),
        "image.tag": ("a b", ":dev", "sha256:00", "-x", 1.2),
        "image.pullPolicy": ("always",),
        "imagePullSecrets": (["key"], [{}], [{"nam": "key"}], [{"name": ""}]),
        "replicas": (-1, 4, 1.5, "2"),
        "watch.namespaces": (["*"], ["data,logs"], ["Data"], [""], ["a", "a"]),
        "watch.selector": ("team in (red", "==", " ", "team: red", ["team"]),
        "persistentVolumes.read": ("yes",),
        "nodes.read": (1,),
        "deletionProtection.enabled": ("yes",),
        "operations.lossApprovers": ([""], ["a\nb"], ['a"b'], ["a", "a"]),
        "operations.roles": ("yes",),
        "networkPolicy.metricsFrom": PEERS,
        "monitoring.interval": ("", "0s", "30", "1s1m", "-1s"),
        "monitoring.labels": ({"a b": "c"}, {"a": "b c"}, {"app.kubernetes.io/name": "x"}),
        "resources": ({"reqests": {}}, {"requests": {"cpu": "much"}}, {"limits": {"memory": "-1Mi"}}),
        "rollingClustersMax": (-1, 1.5, 10**20),
        "logLevel": ("info", ""),
        "nodeSelector": ({"a b": "c"}, {"a": "b c"}),
        "tolerations": (["x"], [{"kee": "a"}], [{"operator": "Exist"}], [{"effect": "NoSchedul"}]),
        "env": (["x"], [{"value": "a"}], [{"name": "A", "value": 1}], [{"name": "A", "valu": "x"}]),
    },
    "bookie-cluster": {
        "name": ("UPPER", "a.b", "-a", "1a", "a\nb", "a" * 31),
        "annotations": ({"a b": "c"}, {"a/b/c": "d"}),
        "labels": ({"a b": "c"}, {"a": "b c"}, {"app.kubernetes.io/instance": "x"}),
        "networkPolicy.enabled": ("false",),
        "networkPolicy.operator.namespace": ("", "Bad_name"),
        "networkPolicy.operator.podLabels": ({"a b": "c"},),
        "networkPolicy.dataFrom": PEERS,
        "networkPolicy.metricsFrom": PEERS,
        "networkPolicy.moreIngress": (
            *([{}], [{"from": [{"podSelector": {}}]}], [{"ports": []}], [{"ports": [{}]}]),
            *(
                [{"form": [], "ports": [{"port": 1}]}],
                [{"ports": [{"port": 0}]}],
                [{"from": [{}], "ports": [{"port": 1}]}],
            ),
        ),
    },
}
# Where Helm's null takes a default away, and a fence or a process went with it, without a word.
NULLS = {
    "bookie-operator": (
        *("image", "image.repository", "replicas", "watch", "persistentVolumes", "nodes", "deletionProtection"),
        *("deletionProtection.enabled", "operations", "networkPolicy", "networkPolicy.enabled"),
        *("networkPolicy.metricsFrom", "monitoring", "monitoring.interval", "resources", "logLevel"),
    ),
    "bookie-cluster": (
        *("spec", "networkPolicy", "networkPolicy.enabled", "networkPolicy.operator", "networkPolicy.dataFrom"),
        *("networkPolicy.operator.namespace", "networkPolicy.operator.podLabels", "networkPolicy.metricsFrom"),
        *("spec.network", "spec.security"),
    ),
}
UNUSUAL: dict[str, dict[str, tuple[object, ...]]] = {
    "bookie-operator": {
        "image": ({"repository": "r.example:5000/a/bookie@sha256:" + "0" * 64, "tag": ""}, {"tag": "1.2_x-Y"}),
        "imagePullSecrets": ([{"name": "a.b"}],),
        "replicas": (0, 3),
        "watch": ({"namespaces": ["0"], "selector": "team in (red, blue),!old"}, {"selector": "a!=b"}),
        "operations.lossApprovers": (["oidc:owners #1: all", "system:masters"],),
        "networkPolicy.metricsFrom": ([{"ipBlock": {"cidr": "fd00::/8", "except": ["fd00::/16"]}}],),
        "monitoring": ({"interval": "1m30s"}, {"interval": "500ms"}, {"labels": {"a.b/c": ""}}),
        "resources": ({}, {"requests": {"cpu": 1, "memory": "1e9"}}, {"limits": {"memory": "0.5Gi"}}),
        "rollingClustersMax": (0, 1_000_000),
        "tolerations": ([{"operator": "Exists"}], [{"key": "a", "effect": "NoExecute", "tolerationSeconds": 5}]),
        "env": ([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}], [{"name": "A"}]),
    },
    "bookie-cluster": {
        "name": ("a" * 30, "a", "a-1"),
        "networkPolicy": ({"dataFrom": []}, {"metricsFrom": []}, {"moreIngress": [{"ports": [{"port": "http"}]}]}),
        "spec": ({"network": {"ports": {"data": 9000}}}, {"security": {"tls": {"mode": "Required"}}}),
    },
}


def _rounds(table: dict[str, dict[str, tuple[object, ...]]]) -> list[tuple[str, dict[str, object]]]:
    """Return the first value of each place, then the second of each, and so on: Helm tells all that is wrong at once,
    and takes a second each time."""
    longest = max(len(values) for found in table.values() for values in found.values())
    return [
        (chart, {path: values[turn] for path, values in found.items() if turn < len(values)})
        for chart, found in table.items()
        for turn in range(longest)
        if any(turn < len(values) for values in found.values())
    ]


def _set(values: dict[str, object]) -> list[str]:
    return [word for path, one in values.items() for word in ("--set-json", f"{path}={json.dumps(one)}")]


def _refusal(chart: str, values: dict[str, object]) -> str:
    """Return all that Helm says against these values; a failed command of ours is told by its last lines."""
    command = [kube_tools.helm_path(), "template", "mine", str(CHARTS / chart), *_set(values)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120.0, check=False)
    assert done.returncode == 1, values
    return done.stderr


@pytest.mark.parametrize(("chart", "values"), _rounds(NONSENSE))
def test_nonsense_is_refused_by_helm_with_the_place_where_it_stands(chart: str, values: dict[str, object]) -> None:
    """It went through, and showed as an operator that keeps nothing, a pod that cannot be made, or not at all."""
    told = _refusal(chart, values)

    assert [path for path in values if f"at '/{path.replace('.', '/')}" not in told] == [], told


@pytest.mark.parametrize(
    ("path", "value"),
    [("spec", []), ("spec.network", "x"), ("spec.network.ports", []), ("spec.security", {"tls": "Required"})],
)
def test_what_the_chart_reads_of_a_spec_is_refused_by_its_place(path: str, value: object) -> None:
    assert f"at '/{path.replace('.', '/')}" in _refusal("bookie-cluster", {path: value})


@pytest.mark.parametrize("chart", NULLS)
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_null_takes_no_fence_and_no_process_away(chart: str, depth: int) -> None:
    paths = [path for path in NULLS[chart] if path.count(".") == depth]
    if not paths:
        return

    told = _refusal(chart, dict.fromkeys(paths))

    missing = [word for line in told.splitlines() if "missing propert" in line for word in re.findall(r"'(\w+)'", line)]
    wrong = re.findall(r"at '([^']+)': got null", told)
    assert [
        one for one in paths if one.split(".")[-1] not in missing and f"/{one.replace('.', '/')}" not in wrong
    ] == []


@pytest.mark.parametrize(("chart", "values"), _rounds(UNUSUAL))
def test_an_unusual_value_that_kubernetes_takes_is_taken(chart: str, values: dict[str, object]) -> None:
    assert rendered(*_set(values), chart=chart)


def test_a_large_number_from_a_file_of_values_is_no_power_of_ten(tmp_path: Path) -> None:
    """Helm reads numbers of a file as floats, and prints 1e+06, which no command line takes."""
    values = tmp_path / "values.yaml"
    values.write_text("rollingClustersMax: 1000000\n", encoding="utf-8")

    (deployment,) = [one for one in rendered("--values", str(values)) if one["kind"] == "Deployment"]

    assert "--rolling-clusters-max=1000000" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


def test_helm_reads_a_selector_and_a_clusters_name_by_the_rules_of_the_operator() -> None:
    def properties(chart: str) -> dict[str, Any]:
        text = (CHARTS / chart / "values.schema.json").read_text(encoding="utf-8")
        return json.loads(text)["properties"]  # type: ignore[no-any-return]

    assert properties("bookie-operator")["watch"]["properties"]["selector"]["pattern"] == selectors.PATTERN
    assert properties("bookie-cluster")["name"]["anyOf"][1]["pattern"] == reserved.CLUSTER_NAME


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "TLS is Disabled, passwords are Disabled. NETWORK ONLY"),
        ({"tls": {"mode": "Permissive"}}, "TLS is Permissive, passwords are Disabled. NETWORK ONLY"),
        ({"tls": {"mode": "Required"}}, "TLS is Required, passwords are Disabled\n"),
        ({"authentication": {"mode": "Required", "secretName": "a"}}, "TLS is Disabled, passwords are Required\n"),
    ],
)
def test_the_notes_say_what_the_spec_protects_the_data_port_by(tmp_path: Path, values: object, said: str) -> None:
    """They said "no TLS, no passwords" whatever `spec.security` asked for."""
    chart = tmp_path / "chart"
    shutil.copytree(CHARTS / "bookie-cluster", chart)
    notes = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    # Helm shows notes of what it installs alone: as a manifest it shows them without a cluster.
    shown = "".join(f"  {line}\n" for line in notes.splitlines())
    (chart / "templates" / "notes.yaml").write_text(f"notes: |\n{shown}", encoding="utf-8")

    for fenced in ("true", "false"):
        told = helm(
            *("template", "mine", str(chart), "--show-only", "templates/notes.yaml"),
            *("--set", f"networkPolicy.enabled={fenced}", "--set-json", f"spec.security={json.dumps(values)}"),
        )
        assert said in told

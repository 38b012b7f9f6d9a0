"""Fields that the API server takes and nobody behind it can use (spec/operator.md#K16)."""

import copy
from typing import Any

import pytest

import operator_support as make
from bookie.ports.admin import OpenLedgers
from bookie.rpc import calls
from bookie_operator.model import bounds, values
from bookie_operator.plan.departure import draining

STORE = make.spec()["metadataService"]


@pytest.mark.parametrize(
    "image",
    [
        "bookie",
        "bookie:dev",
        "localhost:5000/bookie",
        "Registry.Example.com/team/bookie-py_x.y:v1.0_RC-1",
        "[fd00::1]:5000/a/b",
        "ghcr.io/a__b/c--d@sha256:" + "0a" * 32,
        "ghcr.io/a/b:tag@sha256:" + "0a" * 32,
        None,
        "",
    ],
)
def test_an_image_that_can_be_pulled_is_taken(image: str | None) -> None:
    assert bounds.problems(make.cluster(image=image).spec) == ()


@pytest.mark.parametrize(
    "image",
    [
        "Bad Image:tag",
        "Bookie:dev",
        "bookie:",
        "bookie:dev\n",
        "a//b",
        "https://host/a",
        "a:b:c",
        "a@sha256:xx",
        "b\u00fc:1",
    ],
)
def test_an_image_that_nobody_can_pull_is_named(image: str) -> None:
    (said,) = bounds.problems(make.cluster(image=image).spec)

    assert said.startswith(f"spec.image: {image!r} is not the name of an image")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"metadataService": STORE | {"sessionTimeout": "0s"}}, "spec.metadataService.sessionTimeout"),
        ({"metadataService": STORE | {"sessionTimeout": "597h"}}, "spec.metadataService.sessionTimeout"),
        ({"lifecycle": {"terminationGrace": "3000000h"}}, "spec.lifecycle.terminationGrace"),
        ({"lifecycle": {"terminationGrace": "99999999999999999999h"}}, "spec.lifecycle.terminationGrace"),
    ],
)
def test_a_time_that_nobody_can_count_is_named(changes: dict[str, Any], field: str) -> None:
    (said,) = bounds.problems(make.cluster(**changes).spec)

    assert said.startswith(f"{field}: ")


def test_times_at_their_bounds_are_taken() -> None:
    spec = make.cluster(
        metadataService=STORE | {"sessionTimeout": "2147483647ms"}, lifecycle={"terminationGrace": "9000h"}
    )

    assert bounds.problems(spec.spec) == ()


def test_a_copy_rate_beyond_all_numbers_of_the_admin_port_is_no_limit() -> None:
    rate = draining.rate(make.cluster(scaleDown={"copyRate": "9999999999P"}).spec.scale_down)

    assert calls.drain(calls.DrainAction.START, operator_epoch=1, bytes_per_second=rate, open_ledgers=OpenLedgers.WAIT)


@pytest.mark.parametrize("size", ["0", "0Gi", "0.5", "100m", "9223372036854775808", "99999999999999999999999999P"])
def test_a_size_that_no_disk_has_is_named(size: str) -> None:
    storage = copy.deepcopy(make.spec()["storage"])
    storage["ledgers"]["volumes"][0]["size"] = size

    (said,) = bounds.problems(make.cluster(storage=storage).spec)

    assert said.startswith(f"spec.storage: volume {storage['ledgers']['volumes'][0]['name']} of {size} is a size")


@pytest.mark.parametrize("size", ["99999999999999999999999999P", "1024P", "100Gi", "1000", "0.5", "0"])
def test_every_size_can_be_told(size: str) -> None:
    told = values.format_quantity(values.parse_quantity(size))

    assert values.parse_quantity(told) == values.parse_quantity(size)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"placement": {"topologyKey": ""}}, "spec.placement.topologyKey: '' is not the name of a label"),
        ({"placement": {"topologyKey": "a/b/c"}}, "spec.placement.topologyKey: 'a/b/c' is not"),
        ({"placement": {"topologyKey": "Zone.Example/name"}}, "spec.placement.topologyKey: "),
        ({"placement": {"topologyKey": "x" * 64}}, "spec.placement.topologyKey: "),
        ({"placement": {"nodeSelector": {"disk type": "ssd"}}}, "spec.placement.nodeSelector: 'disk type' is not"),
        ({"placement": {"nodeSelector": {"disk": "ssd!"}}}, "spec.placement.nodeSelector: disk: 'ssd!' cannot be"),
        ({"placement": {"nodeSelector": {"disk": "s" * 64}}}, "spec.placement.nodeSelector: disk: "),
        ({"podTemplate": {"metadata": {"labels": {"team": "a b"}}}}, "spec.podTemplate.metadata.labels: team: 'a b'"),
        (
            {"zones": [{"name": "a", "nodeSelector": {"": "x"}}, {"name": "b"}, {"name": "c"}]},
            "spec.zones: nodeSelector of a: '' is not",
        ),
        (
            {"placement": {"tolerations": [{"operator": "Equal"}]}},
            "spec.placement.tolerations: that of every key needs",
        ),
        ({"placement": {"tolerations": [{"key": "a b"}]}}, "spec.placement.tolerations: that of a b has no name"),
        ({"placement": {"tolerations": [{"key": "a", "value": "x y"}]}}, "spec.placement.tolerations: that of a has"),
        (
            {"placement": {"tolerations": [{"key": "a", "operator": "Exists", "value": "x"}]}},
            "spec.placement.tolerations: that of a has operator Exists and the value 'x'",
        ),
        ({"resources": {"requests": {"storage": "1Gi"}}}, "spec.resources.requests: 'storage' is no resource"),
        ({"resources": {"limits": {"memory": "0"}}}, "spec.resources.limits.memory is 0, and no bookie starts in"),
        ({"resources": {"limits": {"memory": "63Mi"}}}, "spec.resources.limits.memory is 63Mi"),
        ({"resources": {"requests": {"memory": "8192P"}}}, None),
        ({"resources": {"requests": {"memory": "9999999P"}}}, "spec.resources.requests.memory: 9999999P is more"),
        ({"resources": {"tmpSize": "0"}}, "spec.resources.tmpSize: 0 is no size"),
        ({"autorecovery": {"resources": {"limits": {"gpu": "1"}}}}, "spec.autorecovery.resources.limits: 'gpu' is no"),
        ({"metadataService": STORE | {"uri": "zk://a:1;b c:2/ledgers"}}, "spec.metadataService.uri: metadata service"),
        (
            {"metadataService": STORE | {"uri": "zk://a:2181; b:2181/ledgers"}},
            "spec.metadataService.uri: 'zk://a:2181; ",
        ),
        (
            {"metadataService": STORE | {"uri": "zk://a:2181\n/ledgers"}},
            "spec.metadataService.uri: 'zk://a:2181\\n/",
        ),
        ({"metadataService": STORE | {"uri": "zk+odd://a:2181/ledgers"}}, "spec.metadataService.uri: metadata service"),
    ],
)
def test_what_no_pod_can_have_is_named_before_a_bookie_stops_for_it(changes: dict[str, Any], said: str | None) -> None:
    found = bounds.problems(make.cluster(**changes).spec)

    assert [one[: len(said or "")] for one in found] == ([] if said is None else [said])


def test_what_pods_can_have_is_taken() -> None:
    spec = make.cluster(
        placement={
            "topologyKey": "topology.example.com/Rack_1",
            "nodeSelector": {"disk": "", "example.com/class": "SSD.v2_b-c"},
            "tolerations": [{"operator": "Exists"}, {"key": "only/bookies", "value": "yes", "effect": "NoExecute"}],
        },
        resources={
            "requests": {"memory": "0", "cpu": "0", "hugepages-2Mi": "4Mi", "example.com/nvme": "1"},
            "limits": {"memory": "64Mi", "ephemeral-storage": "1Gi"},
        },
        metadataService=STORE | {"uri": "zk+hierarchical://[fd00::1]:2181;b.zk,c/ledgers/a"},
    ).spec

    assert bounds.problems(spec) == ()


def test_a_class_that_cannot_exist_is_named_and_pools_tell_whose_field_it_is() -> None:
    storage = copy.deepcopy(make.spec()["storage"])
    storage["ledgers"]["volumes"][0]["storageClassName"] = "Fast Disks"
    (said,) = bounds.problems(make.cluster(storage=storage).spec)
    assert "storageClassName 'Fast Disks' is not the name of a StorageClass" in said

    pools = [
        {"name": "a", "zone": "a", "replicas": 3},
        {"name": "c", "zone": "c", "replicas": 3},
        {
            "name": "b",
            "zone": "b",
            "replicas": 3,
            "tolerations": [{"key": "x y"}],
            "resources": {"limits": {"memory": "1"}},
        },
    ]
    found = bounds.problems(make.cluster(replicas=None, zones=None, pools=pools).spec)
    assert [one.partition(": ")[0] for one in found] == ["in pool b", "in pool b"]

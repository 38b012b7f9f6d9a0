"""A pod template is compared with Kubernetes' own types before anything of it is applied."""

from typing import Any

import pytest

from bookie_operator.gateways import pod_types
from bookie_operator.model.pod_template import PodTemplate


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"containers": [{"name": "a", "imgae": "x"}]}, "containers[0].imgae is no field that this release knows"),
        ({"tolerance": []}, "spec.podTemplate.spec.tolerance is no field"),
        ({"hostAliases": {"ip": "1"}}, "hostAliases must be a list"),
        ({"dnsConfig": []}, "dnsConfig must be a map of fields"),
        ({"nodeSelector": ["a"]}, "nodeSelector must be a map of names and values"),
        ({"nodeSelector": {"a": 1}}, "nodeSelector.a must be text (in quotes, if it looks like a number), and it is 1"),
        ({"containers": [{"name": "a", "ports": [{"containerPort": "80"}]}]}, "containerPort must be a whole number"),
        ({"enableServiceLinks": "no"}, "enableServiceLinks must be true or false"),
        ({"priority": True}, "priority must be a whole number"),
        ({"schedulerName": None}, "schedulerName must be text"),
    ],
)
def test_a_wrong_field_is_told_with_its_path(spec: dict[str, Any], sentence: str) -> None:
    (found,) = pod_types.problems(PodTemplate(spec=spec))

    assert sentence in found


def test_a_port_may_be_a_name_or_a_number() -> None:
    for port in ("http", 8080):
        probe = {"httpGet": {"port": port, "path": "/"}}
        assert pod_types.problems(PodTemplate(spec={"containers": [{"name": "a", "livenessProbe": probe}]})) == ()

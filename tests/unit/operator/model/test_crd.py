"""The CRD is generated from the model, and what is committed is what is generated."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bookie_operator.model import crd, operation_rules, rules, shapes, volume_rules

ROOT = Path(__file__).resolve().parents[4]
GROUPS = (
    *(rules.SPEC, rules.ZONES, rules.QUORUM, rules.METADATA, volume_rules.STORAGE, rules.PORTS),
    *(rules.NETWORK, rules.SECURITY, rules.ROLLOUT, rules.POD_SPEC, rules.POD_METADATA, operation_rules.OPERATION),
)
KINDS = [crd.definition(), crd.operations()]


@pytest.mark.parametrize("folder", ["crds", "charts/bookie-operator-crds/templates"])
def test_the_committed_crds_are_the_generated_ones(folder: str) -> None:
    found = {one.name: one.read_text(encoding="utf-8") for one in (ROOT / folder).iterdir()}

    assert found == crd.texts(), "run `make crds`"


@pytest.mark.parametrize("found", KINDS)
def test_the_crd_survives_helm_uninstall(found: dict[str, Any]) -> None:
    assert found["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def schema_nodes(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    out = [(path, node)]
    for name, child in (node.get("properties") or {}).items():
        out += schema_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            out += schema_nodes(node[key], f"{path}[]")
    return out


def root(found: dict[str, Any]) -> dict[str, Any]:
    version = found["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


@pytest.mark.parametrize("found", KINDS)
def test_the_schema_is_structural(found: dict[str, Any]) -> None:
    for path, node in schema_nodes(root(found)):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        assert not {"$ref", "anyOf", "allOf", "title", "const"} & set(node), path


def test_an_amount_of_a_container_may_be_a_number_and_is_refused_at_once_where_it_is_none() -> None:
    """No rule can do that: the API server counts three megabytes for a text where a number may stand."""
    found = [node for _, node in schema_nodes(root(crd.definition())) if "x-kubernetes-int-or-string" in node]

    assert len(found) == 6, "requests and limits: of bookies, of a pool's, of auto-recovery"
    for node in found:
        assert node == {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maxLength": 32,
            "pattern": shapes.QUANTITY.pattern,
        }


@pytest.mark.parametrize("found", KINDS)
def test_everything_in_spec_is_bounded(found: dict[str, Any]) -> None:
    """Without bounds the cost estimator of the API server refuses the rules."""
    for path, node in schema_nodes(root(found)["properties"]["spec"], "spec"):
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if node.get("type") == "object" and "properties" not in node:
            assert "maxProperties" in node, path
        if node.get("type", "string") == "string" and "enum" not in node:
            assert "maxLength" in node, path


@pytest.mark.parametrize("found", KINDS)
def test_lists_of_named_things_are_maps_and_have_no_defaults_inside(found: dict[str, Any]) -> None:
    """Several owners may apply their own entries, and differs see no drift (spec/operator.md#K14)."""
    for path, node in schema_nodes(root(found)["properties"]["spec"], "spec"):
        if node.get("type") != "array":
            continue
        properties = node["items"].get("properties", {})
        if "name" in properties:
            assert node["x-kubernetes-list-map-keys"] == ["name"], path
        assert not any("default" in child for child in properties.values()), path


def test_every_rule_names_its_field_and_what_to_do() -> None:
    for group in GROUPS:
        for rule in group:
            assert rule.message.startswith(("spec.", "spec of")), rule.message
            assert rule.cel, rule.message


def test_status_and_scale_are_subresources() -> None:
    version = crd.definition()["spec"]["versions"][0]

    assert set(version["subresources"]) == {"status", "scale"}
    assert [column["name"] for column in version["additionalPrinterColumns"]][:3] == ["Ready", "Bookies", "Writable"]


def test_the_yaml_reads_back_as_what_it_says() -> None:
    assert [yaml.safe_load(text) for text in crd.texts().values()] == KINDS

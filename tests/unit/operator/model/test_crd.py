"""The CRD is generated from the model, and what is committed is what is generated."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from bookie_operator.model import crd, rules

ROOT = Path(__file__).resolve().parents[4]


@pytest.mark.parametrize(
    "path", ["crds/bookieclusters.yaml", "charts/bookie-operator-crds/templates/bookieclusters.yaml"]
)
def test_the_committed_crd_is_the_generated_one(path: str) -> None:
    assert (ROOT / path).read_text(encoding="utf-8") == crd.text(), f"bookie-operator crds --output {path}"


def test_the_crd_survives_helm_uninstall() -> None:
    assert crd.definition()["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def schema_nodes(node: Any, path: str = "") -> list[tuple[str, dict[str, Any]]]:
    out = [(path, node)]
    for name, child in (node.get("properties") or {}).items():
        out += schema_nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            out += schema_nodes(node[key], f"{path}[]")
    return out


def root() -> dict[str, Any]:
    version = crd.definition()["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def test_the_schema_is_structural() -> None:
    for path, node in schema_nodes(root()):
        assert "type" in node, path
        assert not {"$ref", "anyOf", "allOf", "title", "const"} & set(node), path


def test_everything_in_spec_is_bounded() -> None:
    """Without bounds the cost estimator of the API server refuses the rules."""
    for path, node in schema_nodes(root()["properties"]["spec"], "spec"):
        if node["type"] == "array":
            assert "maxItems" in node, path
        if node["type"] == "object" and "properties" not in node:
            assert "maxProperties" in node, path
        if node["type"] == "string" and "enum" not in node:
            assert "maxLength" in node, path


def test_lists_of_named_things_are_maps_and_have_no_defaults_inside() -> None:
    """Several owners may apply their own entries, and differs see no drift (spec/operator.md#K14)."""
    for path, node in schema_nodes(root()["properties"]["spec"], "spec"):
        if node["type"] != "array":
            continue
        properties = node["items"].get("properties", {})
        if "name" in properties:
            assert node["x-kubernetes-list-map-keys"] == ["name"], path
        assert not any("default" in child for child in properties.values()), path


def test_every_rule_names_its_field_and_what_to_do() -> None:
    for group in (rules.SPEC, rules.ZONES, rules.QUORUM, rules.METADATA, rules.STORAGE, rules.PORTS):
        for rule in group:
            assert rule.message.startswith("spec."), rule.message
            assert rule.cel, rule.message


def test_status_and_scale_are_subresources() -> None:
    version = crd.definition()["spec"]["versions"][0]

    assert set(version["subresources"]) == {"status", "scale"}
    assert [column["name"] for column in version["additionalPrinterColumns"]][:3] == ["Ready", "Bookies", "Writable"]


def test_the_yaml_reads_back_as_what_it_says() -> None:
    assert yaml.safe_load(crd.text()) == crd.definition()

"""Turns pydantic's JSON schema into a structural schema that the API server accepts (spec/operator.md#K33).

What pydantic writes and CRDs refuse: $ref, title, anyOf with null, default: null, exclusiveMinimum as a number, const.
A pattern is for what may be a number or a text alone (`storage.py: Amount`).
"""

from typing import Any

from pydantic import BaseModel

# Keys that carry over as they are.
_KEPT = (
    "description",
    "type",
    "enum",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "format",
    "x-kubernetes-validations",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
)


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """Return the structural schema of `model`: no references, nothing that API servers refuse or prune."""
    source = model.model_json_schema(by_alias=True)
    return _convert(source, source.get("$defs", {}))


def _convert(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    node = _resolved(node, definitions)
    out = {key: node[key] for key in _KEPT if key in node and not (key == "default" and node[key] is None)}
    if "const" in node:
        out["enum"] = [node["const"]]
    if isinstance(out.get("enum"), list):
        out.setdefault("type", "string")
    if "properties" in node:
        out["properties"] = {name: _convert(value, definitions) for name, value in node["properties"].items()}
        if required := node.get("required"):
            out["required"] = sorted(required)
    if isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _convert(node["additionalProperties"], definitions)
    if "items" in node:
        out["items"] = _convert(node["items"], definitions)
    if "properties" in out and "default" in out:
        # Whole, not {}: the API server checks CEL rules on a default before it fills in nested ones.
        out["default"] = _without_null(out["default"])
    if out.get("type") == "integer":
        out.setdefault("format", "int64")
    return out


def _resolved(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return `node` with its reference and its "or null" replaced by their meaning; keys beside them win."""
    beside = {key: value for key, value in node.items() if key not in ("$ref", "anyOf", "allOf")}
    if "$ref" in node:
        return _resolved(definitions[node["$ref"].removeprefix("#/$defs/")], definitions) | beside
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        (only,) = options  # a CRD has no unions
        return _resolved(only, definitions) | beside
    return node


def _without_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_null(one) for key, one in value.items() if one is not None}
    return value

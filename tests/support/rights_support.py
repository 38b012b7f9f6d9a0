"""What the operator's chart allows, and what calls to an API server ask for, in the same words: (verb, resource)."""

import re
from pathlib import Path
from typing import Any

import yaml

from bookie_operator.gateways.kube import RESOURCES

_TEMPLATES = Path(__file__).resolve().parents[2] / "charts" / "bookie-operator" / "templates"

Right = tuple[str, str]  # verb, and group/resource or group/resource:name where the rule names objects

# Of methods of `gateways.kube.Kube`. An apply of what does not exist yet is a create as well.
VERBS = {
    "get": "get",
    "list": "list",
    "apply": "patch",
    "replace_status": "patch",
    "merge": "patch",
    "create": "create",
    "replace": "update",
    "delete": "delete",
}


def resource(kind: str, subresource: str = "") -> str:
    """The resource of a kind as rules name it, with its group: "apps/statefulsets"."""
    found = RESOURCES[kind]
    group = found.api_version.rpartition("/")[0]
    return f"{group}/{found.plural}" + (f"/{subresource}" if subresource else "")


def declared() -> dict[Right, str]:
    """Each right of the chart with everything switched on, and the comment that stands beside its rule."""
    helpers = (_TEMPLATES / "_helpers.tpl").read_text(encoding="utf-8")
    block = re.search(r'define "bookie-operator\.rules" -\}\}\n(.*?)\{\{- end', helpers, re.DOTALL)
    assert block is not None, "_helpers.tpl has no rules"
    found = _rights(block[1])
    text = (_TEMPLATES / "rbac.yaml").read_text(encoding="utf-8")
    text = re.sub(r"\{\{ \.Release\.Name( \| quote)? \}\}", "bookie-operator", text)
    bare = "\n".join(line for line in text.splitlines() if not re.match(r"\s*\{\{.*\}\}\s*$", line))
    for document in re.split(r"^---$", re.sub(r"\{\{.*?\}\}", "x", bare), flags=re.MULTILINE):
        if (rules := re.search(r"^rules:\n(.*)", document, re.DOTALL | re.MULTILINE)) is not None:
            found |= _rights(rules[1])
    return found


def _rights(text: str) -> dict[Right, str]:
    comments = re.findall(r"^ *- apiGroups.*\n +resources:[^#\n]*(?:# *(.*))?$", text, re.MULTILINE)
    rules: list[dict[str, Any]] = yaml.safe_load(text)
    assert len(comments) == len(rules), "each rule has its resources in its second line"
    return {
        (verb, f"{group}/{one}" + (f":{name}" if name else "")): comment
        for rule, comment in zip(rules, comments, strict=True)
        for group in rule["apiGroups"]
        for one in rule["resources"]
        for name in rule.get("resourceNames") or [""]
        for verb in rule["verbs"]
    }


def covers(rights: dict[Right, str], verb: str, resource_name: str, name: str) -> Right | None:
    """The declared right that allows `verb` on the object `name`; None: the API server would refuse the call."""
    for right in ((verb, f"{resource_name}:{name}"), (verb, resource_name)):
        if right in rights:
            return right
    return None

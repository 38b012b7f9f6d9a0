"""The chart's alerts and dashboards, and the figures that they name."""

import json
import re
from typing import Any

import yaml

from pages_support import ROOT

FILES = ROOT / "charts" / "bookie-operator" / "files"
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FILES / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
_FIGURE = re.compile(r"\b((?:bookie|process)_[a-z_]+)\b")
_OF_HISTOGRAM = re.compile(r"_(?:bucket|count|sum)$")


def expressions() -> list[str]:
    """Every expression of PromQL in alerts and dashboards, and what fills the dashboards' choices."""
    found = [rule["expr"] for rule in ALERTS]
    for path in sorted((FILES / "dashboards").glob("*.json")):
        board = json.loads(path.read_text(encoding="utf-8"))
        found += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        found += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    return found


def figures(prefix: str) -> set[str]:
    """The names of figures that begin with `prefix`, histograms by their own name."""
    names = {name for text in expressions() for name in _FIGURE.findall(text)}
    return {_OF_HISTOGRAM.sub("", name) for name in names if name.startswith(prefix)}

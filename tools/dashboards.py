"""Writes the Grafana dashboards of the operator's chart from one table of panels.

python tools/dashboards.py          writes charts/bookie-operator/files/dashboards/*.json (part of `make crds`)
"""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "charts" / "bookie-operator" / "files" / "dashboards"
_OF_CLUSTER = '{namespace=~"$namespace",cluster=~"$cluster"}'
_OF_POD = '{namespace=~"$namespace",pod=~"$pod"}'
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2

# (title, unit, expression, legend)
Panel = tuple[str, str, str, str]
FLEET: tuple[Panel, ...] = (
    ("Bookies by state", "short", f"bookie_operator_bookies{_OF_CLUSTER}", "{{cluster}} {{state}}"),
    (
        "Conditions that are True",
        "short",
        'bookie_operator_cluster_condition{namespace=~"$namespace",cluster=~"$cluster",status="True"}',
        "{{cluster}} {{type}}",
    ),
    ("Away, empty, tolerated", "short", f"bookie_operator_budget{_OF_CLUSTER}", "{{cluster}} {{what}}"),
    ("Closed gates", "short", f"bookie_operator_gates_closed{_OF_CLUSTER}", "{{cluster}} {{gate}}"),
    (
        "Entries left to repair",
        "short",
        'bookie_operator_repair{namespace=~"$namespace",cluster=~"$cluster",what="entries_pending"}',
        "{{bookie}}",
    ),
    (
        "Ledgers that block a repair",
        "short",
        'bookie_operator_repair{namespace=~"$namespace",cluster=~"$cluster",what="blocked_ledgers"}',
        "{{bookie}}",
    ),
    ("Roll-out", "short", f"bookie_operator_rollout_bookies{_OF_CLUSTER}", "{{cluster}} {{what}}"),
    ("Regenerations", "short", f"bookie_operator_regenerations_recent{_OF_CLUSTER}", "{{cluster}} {{result}}"),
    ("Bookies that the spec does not name", "short", f"bookie_operator_orphans{_OF_CLUSTER}", "{{cluster}}"),
)
OPERATOR: tuple[Panel, ...] = (
    ("Leader", "short", "bookie_operator_is_leader", "{{pod}}"),
    ("Clusters waiting", "short", "bookie_operator_queue_depth", "{{pod}}"),
    (
        "Pass, 99 of 100",
        "s",
        "histogram_quantile(0.99, sum by (le) (rate(bookie_operator_pass_seconds_bucket[5m])))",
        "p99",
    ),
    ("Passes that fail", "short", "delta(bookie_operator_pass_errors[5m])", "{{pod}}"),
    (
        "Calls to the API server",
        "reqps",
        "sum by (verb, kind, code) (rate(bookie_operator_api_requests_total[5m]))",
        "{{verb}} {{kind}} {{code}}",
    ),
    ("Size of statuses", "bytes", "bookie_operator_status_bytes", "{{namespace}}/{{cluster}}"),
    ("Memory", "bytes", 'process_resident_memory_bytes{container="operator"}', "{{pod}}"),
)
BOOKIE: tuple[Panel, ...] = (
    ("Adds", "ops", f"rate(bookie_adds_total{_OF_POD}[1m])", "{{pod}}"),
    ("Bytes added", "Bps", f"rate(bookie_add_bytes_total{_OF_POD}[1m])", "{{pod}}"),
    (
        "Add, 99 of 100",
        "s",
        f"histogram_quantile(0.99, sum by (le, pod) (rate(bookie_add_latency_seconds_bucket{_OF_POD}[1m])))",
        "{{pod}}",
    ),
    ("Reads", "ops", f"rate(bookie_reads_total{_OF_POD}[1m])", "{{pod}}"),
    ("Reads that memory does not answer", "ops", f"rate(bookie_slow_reads_total{_OF_POD}[1m])", "{{pod}}"),
    ("Connections", "short", f"bookie_connections_open{_OF_POD}", "{{pod}}"),
    ("Requests refused", "ops", f"rate(bookie_request_errors_total{_OF_POD}[1m])", "{{pod}} {{status}}"),
    ("Disk used", "percentunit", f"bookie_disk_used_share{_OF_POD}", "{{pod}} {{directory}}"),
    ("Ledgers in limbo", "short", f"bookie_ledgers_limbo{_OF_POD}", "{{pod}}"),
    ("Entries copied by repair", "ops", f"rate(bookie_repair_entries_copied{_OF_POD}[1m])", "{{pod}}"),
    ("Collected in a day", "bytes", f"bookie_gc_day_bytes{_OF_POD}", "{{pod}}"),
    ("Held by the brake on deletion", "short", f"bookie_gc_held_ledgers{_OF_POD}", "{{pod}}"),
)
_CLUSTERS = (("namespace", "bookie_operator_orphans"), ("cluster", "bookie_operator_orphans"))
_PODS = (("namespace", "bookie_state"), ("pod", "bookie_state"))
DASHBOARDS = {
    "fleet": ("Bookie: fleets", FLEET, _CLUSTERS),
    "operator": ("Bookie: the operator", OPERATOR, ()),
    "bookie": ("Bookie: one bookie beside the other", BOOKIE, _PODS),
}


def dashboard(uid: str) -> dict[str, Any]:
    """Return one dashboard as Grafana imports it; its data source is chosen by the reader."""
    title, panels, variables = DASHBOARDS[uid]
    return {
        "uid": f"bookie-{uid}",
        "title": title,
        "tags": ["bookie"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_source(), *(_variable(name, metric) for name, metric in variables)]},
        "panels": [_panel(number, one) for number, one in enumerate(panels)],
    }


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _variable(name: str, metric: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$source"},
        "query": f"label_values({metric}, {name})",
        "includeAll": True,
        "multi": True,
        "refresh": 2,
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    title, unit, expression, legend = panel
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "datasource": {"type": "prometheus", "uid": "$source"},
        "gridPos": {
            "x": number % _COLUMNS * _WIDTH,
            "y": number // _COLUMNS * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [{"refId": "A", "expr": expression, "legendFormat": legend}],
    }


def text(uid: str) -> str:
    """Return the file of one dashboard."""
    return json.dumps(dashboard(uid), indent=1) + "\n"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for uid in DASHBOARDS:
        (FOLDER / f"{uid}.json").write_text(text(uid), encoding="utf-8")


if __name__ == "__main__":
    main()

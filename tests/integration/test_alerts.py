"""The alerts as Prometheus' own engine reads them: what fires, and what does not. `for` is not waited for."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

import kube_parts
import kube_shell
import monitoring_support

NOW_S = 1_800_000_000.0
DAY_S = 86_400.0
RULES = {rule["alert"]: rule["expr"] for rule in monitoring_support.ALERTS}

Series = tuple[str, Mapping[str, str], list[tuple[float, float]]]


def one(figure: str, value: float, **labels: str) -> Series:
    """A figure that has this value now."""
    return figure, {"namespace": "data", "pod": "a-0", **labels}, [(0.0, value)]


def over(figure: str, *values: float, step_s: float = 60.0, **labels: str) -> Series:
    """A figure that had these values, the last of them now."""
    return (
        figure,
        {"namespace": "data", "pod": "a-0", **labels},
        [((number + 1 - len(values)) * step_s, value) for number, value in enumerate(values)],
    )


def answers(*questions: tuple[str, list[Series]]) -> list[Any]:
    """What the engine makes of each expression over its series."""
    lines = [
        {
            "expr": expression,
            "at": NOW_S,
            "series": [
                {
                    "labels": {"__name__": figure, **labels},
                    "samples": [(NOW_S + ago_s, value) for ago_s, value in samples],
                }
                for figure, labels, samples in series
            ],
        }
        for expression, series in questions
    ]
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    shown = kube_shell.run(kube_parts.ensure("promql"), text_in=text)
    return [json.loads(line) for line in shown.splitlines()]


def fired(alert: str, *series: Series) -> list[dict[str, str]]:
    """The labels of each time that the alert fires."""
    (found,) = answers((RULES[alert], list(series)))
    assert isinstance(found, list), found
    return [{name: value for name, value in row["labels"].items() if name != "__name__"} for row in found]


def test_the_engine_takes_every_expression_of_alerts_and_dashboards() -> None:
    # `label_values` is Grafana's own, for the choices of a dashboard.
    all_of_them = [text for text in monitoring_support.expressions() if not text.startswith("label_values(")]

    found = answers(*((text, []) for text in all_of_them))

    assert [(text, told) for text, told in zip(all_of_them, found, strict=True) if not isinstance(told, list)] == []


OF_PORT = {"port": "data", "role": "own", "name": "tls.crt"}
TRUSTED = {"port": "data", "role": "trusted"}


@pytest.mark.parametrize(
    ("alert", "figure"),
    [
        ("BookieCertificateEnded", "bookie_certificate_ends_seconds"),
        ("BookieCertificateEnds", "bookie_certificate_renew_by_seconds"),
    ],
)
def test_a_port_is_told_of_once_its_own_certificate_is_due_or_the_last_of_those_that_it_trusts(
    alert: str, figure: str
) -> None:
    """Of several authorities one may end: its successor is there."""
    due, later = NOW_S - 1, NOW_S + DAY_S

    own = one(figure, due, **OF_PORT)
    assert fired(alert, own) == [{"namespace": "data", "pod": "a-0", **OF_PORT}]
    assert fired(alert, one(figure, later, **OF_PORT)) == []
    assert fired(alert, one(figure, due, name="old", **TRUSTED), one(figure, later, name="new", **TRUSTED)) == []
    both = (one(figure, due, name="old", **TRUSTED), one(figure, due - DAY_S, name="older", **TRUSTED))
    assert fired(alert, *both) == [{"namespace": "data", "pod": "a-0", **TRUSTED}], "once, whatever they are called"
    assert len(fired(alert, own, *both)) == 2
    other_port = one(figure, due, **{**TRUSTED, "port": "admin", "name": "old"})
    assert fired(alert, one(figure, later, name="new", **TRUSTED), other_port) == [
        {"namespace": "data", "pod": "a-0", "port": "admin", "role": "trusted"}
    ]


OF_READY = {"cluster": "ledgers", "type": "Ready", "status": "True"}
ASLEEP = {"cluster": "ledgers", "type": "Hibernated", "status": "True"}
CONDITION = "bookie_operator_cluster_condition"
PENDING = {"cluster": "ledgers", "what": "entries_pending"}

STORIES: dict[str, tuple[str, tuple[Series, ...], int]] = {
    "not ready": ("BookieClusterNotReady", (one(CONDITION, 0, **OF_READY),), 1),
    "not ready and asleep": ("BookieClusterNotReady", (one(CONDITION, 0, **OF_READY), one(CONDITION, 1, **ASLEEP)), 0),
    "another one is asleep": (
        "BookieClusterNotReady",
        (one(CONDITION, 0, **OF_READY), one(CONDITION, 1, **{**ASLEEP, "cluster": "other"})),
        1,
    ),
    "ready": ("BookieClusterNotReady", (one(CONDITION, 1, **OF_READY),), 0),
    "a repair moves": ("BookieRepairStuck", (over("bookie_operator_repair", *range(40, 20, -1), **PENDING),), 0),
    "a repair stands": ("BookieRepairStuck", (over("bookie_operator_repair", *[7.0] * 20, **PENDING),), 1),
    "a repair is done": ("BookieRepairStuck", (over("bookie_operator_repair", *[0.0] * 20, **PENDING),), 0),
    "nobody leads": ("BookieOperatorAbsent", (one("bookie_operator_is_leader", 0),), 1),
    "no operator": ("BookieOperatorAbsent", (), 1),
    "one leads": (
        "BookieOperatorAbsent",
        (one("bookie_operator_is_leader", 0), one("bookie_operator_is_leader", 1, pod="b")),
        0,
    ),
    "passes fail": ("BookieOperatorPassesFail", (over("bookie_operator_pass_errors", *range(0, 60, 3)),), 1),
    "a pass fails at times": ("BookieOperatorPassesFail", (over("bookie_operator_pass_errors", *range(20)),), 0),
    "a disk fills fast": (
        "BookieDiskFilling",
        (over("bookie_disk_used_share", *(0.6 + 0.001 * number for number in range(61))),),
        1,
    ),
    "a disk stays as full as it is": ("BookieDiskFilling", (over("bookie_disk_used_share", *[0.9] * 61),), 0),
}


@pytest.mark.parametrize("story", STORIES)
def test_an_alert_fires_for_what_it_is_about_and_for_nothing_beside_it(story: str) -> None:
    alert, series, times = STORIES[story]

    assert len(fired(alert, *series)) == times

"""The audit of a large fleet: a Job whose Spark starts pods of its own, while writers write."""

from __future__ import annotations

import pytest

import kube_audit
import kube_tools
from fleet_support import Fleet
from kube_setup import NAMESPACE

pytestmark = pytest.mark.cluster


def executors() -> list[str]:
    """The pods that Spark made for the audit, by name."""
    words = ("--namespace", NAMESPACE, "get", "pods", "--selector", "spark-role=executor")
    return [one["metadata"]["name"] for one in kube_tools.kubectl_json(*words)["items"]]


def test_an_audit_asks_with_pods_that_spark_starts_and_ends(fleet: Fleet) -> None:
    audit = fleet.stage.begin_audit("night", kube_audit.WITH_EXECUTORS)
    fleet.sees("two executors", lambda: len(executors()) == 2)
    summary = fleet.sees("the audit's answer", audit.answer)

    assert (summary["exitCode"], summary["outcome"]) == (0, "whole"), summary
    assert summary["ledgers"]["closed"] > 0, summary
    fleet.sees("its executors to go", lambda: not executors())

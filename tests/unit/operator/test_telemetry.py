"""What the operator counts of itself and of its clusters, as a scraper reads it."""

from typing import Any

from prometheus_client import CollectorRegistry

import operator_support as make
from bookie.ports.admin import RepairStatus, State, Verdict
from bookie_operator.plan import fleet
from bookie_operator.status import render
from bookie_operator.telemetry import Telemetry

OURS = {"namespace": "data", "cluster": "ledgers"}


def scraped(telemetry: Telemetry) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(telemetry)
    return registry


def noted(*bookies: Any) -> Telemetry:
    telemetry = Telemetry()
    seen = make.observation(make.fleet(*bookies), children=make.rolled_out())
    telemetry.status(seen.cluster.ref, render.render(fleet.decide(seen)))
    return telemetry


def test_a_cluster_tells_its_bookies_conditions_and_budget() -> None:
    registry = scraped(noted())

    assert registry.get_sample_value("bookie_operator_bookies", OURS | {"state": "Serving"}) == len(make.fleet())
    ready = OURS | {"type": "Ready"}
    assert registry.get_sample_value("bookie_operator_cluster_condition", ready | {"status": "True"}) == 1
    assert registry.get_sample_value("bookie_operator_cluster_condition", ready | {"status": "False"}) == 0
    assert registry.get_sample_value("bookie_operator_budget", OURS | {"what": "tolerance"}) == 1
    assert (registry.get_sample_value("bookie_operator_status_bytes", OURS) or 0) > 1_000


def test_the_reason_of_a_stall_is_told_while_it_lasts() -> None:
    held = make.bookie_case(report=make.report(state=State.HELD, verdict=Verdict.FOREIGN))
    reason = OURS | {"type": "Stalled", "reason": "BookieHeld"}
    assert scraped(noted(held)).get_sample_value("bookie_operator_cluster_reason", reason) == 1
    assert scraped(noted(held)).get_sample_value("bookie_operator_bookies", OURS | {"state": "Held"}) == 1
    assert scraped(noted()).get_sample_value("bookie_operator_cluster_reason", reason) is None


def test_a_repair_tells_how_far_it_is_and_one_that_is_over_tells_nothing() -> None:
    report = make.report(state=State.REPAIRING, verdict=Verdict.LOST)
    repair = RepairStatus(phase="two", entries_copied=90, entries_pending=10)
    name = {"bookie": "ledgers-zone-a-0", "what": "entries_pending"}

    registry = scraped(noted(make.bookie_case(report=report, repair=repair)))

    assert registry.get_sample_value("bookie_operator_repair", OURS | name) == 10
    assert scraped(noted()).get_sample_value("bookie_operator_repair", OURS | name) is None


def test_a_cluster_that_is_gone_has_no_figures_any_more() -> None:
    telemetry = noted()

    telemetry.forget("data", "ledgers")

    assert scraped(telemetry).get_sample_value("bookie_operator_status_bytes", OURS) is None


def test_calls_and_passes_are_counted() -> None:
    telemetry = Telemetry()
    telemetry.request("PATCH", "StatefulSet", 409)
    telemetry.request("PATCH", "StatefulSet", 409)
    telemetry.request("GET", "Pod", 0)
    telemetry.passed(0.05)
    telemetry.passed(0.3)
    telemetry.passed(99.0)

    registry = scraped(telemetry)

    calls = {"verb": "PATCH", "kind": "StatefulSet", "code": "409"}
    assert registry.get_sample_value("bookie_operator_api_requests_total", calls) == 2
    assert registry.get_sample_value("bookie_operator_pass_seconds_bucket", {"le": "0.05"}) == 1
    assert registry.get_sample_value("bookie_operator_pass_seconds_bucket", {"le": "0.5"}) == 2
    assert registry.get_sample_value("bookie_operator_pass_seconds_count") == 3

"""The chart's alerts and dashboards: every name in them is one that the operator gives, and the page tells of each."""

import re

import pytest

import dashboards
import monitoring_support
import operator_page
import operator_support as make
from bookie.ports.admin import RepairStatus, State, Verdict
from bookie_operator.plan import fleet
from bookie_operator.status import render
from bookie_operator.telemetry import Telemetry
from monitoring_support import ALERTS, FILES
from pages_support import ROOT

PAGE = (ROOT / "docs" / "OPERATOR.md").read_text(encoding="utf-8")
PACKAGE = ROOT / "operator" / "bookie_operator"
LABEL = re.compile(r'\b(state|reason|gate|what|type|status)="([^"]+)"')


def given() -> set[str]:
    """The names of all figures of an operator process."""
    names = {family.name for family in Telemetry().collect()}
    counters = {f"{name}_total" for name in names if name == "bookie_operator_api_requests"}
    vitals = re.findall(r'^ +"([a-z_]+)": \("', (PACKAGE / "app.py").read_text(encoding="utf-8"), re.MULTILINE)
    return names | counters | {f"bookie_operator_{name}" for name in vitals}


def test_every_figure_of_the_operator_that_an_alert_or_a_panel_names_is_given() -> None:
    assert monitoring_support.figures("bookie_operator_") - given() == set()
    assert len(monitoring_support.figures("bookie_operator_")) >= 12


def test_every_word_that_an_expression_compares_with_is_one_that_the_operator_writes() -> None:
    report = make.report(state=State.REPAIRING, verdict=Verdict.LOST)
    repairing = make.bookie_case(report=report, repair=RepairStatus(phase="two"))
    seen = make.observation(make.fleet(repairing), children=make.rolled_out())
    telemetry = Telemetry()
    telemetry.status(seen.cluster.ref, render.render(fleet.decide(seen)))
    words = {value for one in telemetry.collect() for sample in one.samples for value in sample.labels.values()}
    sources = "".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))

    for expression in monitoring_support.expressions():
        for name, word in LABEL.findall(expression):
            written = word in words or (name in ("reason", "gate", "state") and f'"{word}"' in sources)
            assert written, f'{name}="{word}" in {expression}'
    assert '"G8-Brake"' in sources


@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_each_alert_says_what_to_do(alert: str) -> None:
    (rule,) = [rule for rule in ALERTS if rule["alert"] == alert]

    assert set(rule["annotations"]) == {"summary", "action"}
    assert rule["labels"]["severity"] in ("critical", "warning")


def test_what_a_bookie_cannot_mend_by_itself_wakes_somebody() -> None:
    told = {
        "bookie_certificate_ends_seconds",
        "bookie_certificate_renew_by_seconds",
        "bookie_round_given_up",
        "bookie_ledger_directories_failed",
        "bookie_ledgers_quarantined",
        "bookie_storage_journal_files_stuck",
        "bookie_storage_scrub_bad",
        "bookie_storage_scrub_given_up",
    }
    watched = {name for rule in ALERTS for name in told if name in rule["expr"]}

    assert watched == told


def test_the_pages_tables_are_as_the_code_says() -> None:
    assert operator_page.with_tables(PAGE) == PAGE, "make crds"


@pytest.mark.parametrize("uid", sorted(dashboards.DASHBOARDS))
def test_a_dashboard_is_as_its_table_says_and_lets_the_reader_choose_the_source(uid: str) -> None:
    text = (FILES / "dashboards" / f"{uid}.json").read_text(encoding="utf-8")

    assert text == dashboards.text(uid), "make crds"
    sources = {panel["datasource"]["uid"] for panel in dashboards.dashboard(uid)["panels"]}
    assert sources == {"$source"}

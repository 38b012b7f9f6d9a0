"""The summary, the pictures and the page: what they say follows from the figures, and nothing in them is fetched."""

import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from bookie.base.ids import BookieId, LedgerId
from pyspark_bookkeeper.audit import plan, plots, report, summary, tally
from pyspark_bookkeeper.audit.compare import MISSING, UNEXPECTED, UNREACHABLE, Finding
from pyspark_bookkeeper.audit.inspector import Rules
from pyspark_bookkeeper.audit.summary import Summary

FINDINGS = [
    Finding(5, "<i>1", UNEXPECTED, 0, 99, 100),
    Finding(3, "<i>1", MISSING, 4, 9, 3),
    Finding(4, "b2", UNREACHABLE, 0, 0, 1, "bookie b2 cannot be reached"),
]
FIGURES = Counter(
    {
        ("ledgers", "closed"): 1_000,
        ("ledgers", "young"): 3,
        ("entries",): 5_000,
        ("copies", "expected"): 10_000,
        ("copies", MISSING): 3,
        ("copies", UNREACHABLE): 1,
        ("copies", UNEXPECTED): 100,
        ("bookies", "<i>1", "expected"): 9_000,
        ("bookies", "<i>1", MISSING): 3,
        ("bookies", "b2", "expected"): 1_000,
        ("bookies", "b2", UNREACHABLE): 1,
        ("replicas", "2", "2"): 998,
        ("replicas", "2", "1"): 2,
        ("zones", "x", "1"): 999,
        ("zones", "x", "0"): 1,
        ("reasons", "bookie b2 cannot be reached"): 1,
    }
)


def told(findings: list[Finding] = FINDINGS, figures: tally.Figures = FIGURES) -> Summary:
    audited = plan.make(
        uri="zk+hierarchical://zk:2181/ledgers",
        started_ms=1_700_000_000_000,
        rules=Rules(),
        zones={BookieId("<i>1"): "x"},
        known=[BookieId("idle")],
        ledger_ids=[LedgerId(1)],
        wave_units=1,
    )
    return summary.summarize(audited, findings, figures, finished_ms=1_700_000_002_500)


def test_the_sentence_says_what_was_seen_and_what_was_not_looked_at() -> None:
    assert summary.sentence(told()) == (
        "1,000 ledgers, 10,000 copies: 3 missing, 1 not to be seen, 100 unexpected; not audited: 3 young"
    )


@pytest.mark.parametrize(
    ("kinds", "fail_on", "is_clean"),
    [
        ([], [MISSING, UNREACHABLE], True),
        ([UNEXPECTED], [MISSING, UNREACHABLE], True),
        ([UNEXPECTED], [UNEXPECTED], False),
        ([MISSING], [MISSING, UNREACHABLE], False),
        ([UNREACHABLE], [MISSING, UNREACHABLE], False),
    ],
)
def test_an_audit_is_clean_when_nothing_of_the_named_kinds_was_found(
    kinds: list[str], fail_on: list[str], is_clean: bool
) -> None:
    findings = [one for one in FINDINGS if one.kind in kinds]

    assert summary.is_clean(told(findings), fail_on) is is_clean


def test_an_audit_with_a_record_that_nobody_can_read_is_not_clean() -> None:
    assert not summary.is_clean(told([], Counter({("ledgers", "unreadable"): 1})), [MISSING])


def test_bookies_that_hold_nothing_are_told_of_too() -> None:
    assert list(told()["bookies"]) == ["<i>1", "b2", "idle"]
    assert [bookie["registered"] for bookie in told()["bookies"].values()] == [True, False, False]


def test_the_worst_findings_are_the_examples_and_there_are_not_too_many() -> None:
    many = [Finding(number, "b2", UNREACHABLE, 0, 0, 1) for number in range(2 * summary.EXAMPLES_MAX)]

    examples = told(FINDINGS + many)["examples"]

    assert len(examples) == summary.EXAMPLES_MAX
    assert (examples[0]["kind"], examples[0]["ledger"]) == (MISSING, 3)


def test_the_page_is_one_file_with_every_figure_and_nothing_to_fetch_or_run() -> None:
    page = report.page(told(), is_clean=False, where="/audits/1/findings")

    for expected in ("Replicas are missing", "10,000", "4 to 9", "/audits/1/findings", "b2 cannot be reached", "2.5 s"):
        assert expected in page
    assert "&lt;i&gt;1" in page
    assert "<i>1" not in page
    assert not re.search(r"<script|<link|<img|src=|@import|url\(", page)
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")


def test_the_title_follows_the_worst_that_was_found() -> None:
    unseen = told([FINDINGS[2]], Counter({("copies", UNREACHABLE): 1}))

    assert "<h1>Every replica is there</h1>" in report.page(told([]), is_clean=True)
    assert "<h1>Not every replica could be seen</h1>" in report.page(unseen, is_clean=False)


@pytest.mark.parametrize("picture", report.FIGURES)
@pytest.mark.parametrize("figures", [FIGURES, Counter()])
def test_a_picture_is_sound_svg_whose_bars_stay_inside(picture: object, figures: tally.Figures) -> None:
    svg = ET.fromstring(picture(told([], figures)))  # type: ignore[operator]

    for bar in svg.iter("{http://www.w3.org/2000/svg}rect"):
        assert float(bar.attrib["width"]) > 0
        assert (
            float(bar.attrib["x"]) + float(bar.attrib["width"]) <= plots.WIDTH - plots.NOTE + 0.1
            or bar.attrib["width"] == "10"
        )


def test_three_missing_copies_of_nine_thousand_can_be_seen() -> None:
    svg = plots.copies_by_bookie(told())

    widths = [
        float(width)
        for width in re.findall(rf'width="([\d.]+)" height="{plots.BAR}" fill="{re.escape(plots.BAD)}"', svg)
    ]
    assert widths == [plots.SLIVER]
    assert "3 missing" in svg

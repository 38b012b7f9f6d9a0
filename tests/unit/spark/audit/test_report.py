"""The summary, the pictures and the page: what they say follows from the figures, and nothing in them is fetched."""

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest

from bookie.base.ids import BookieId, LedgerId
from pyspark_bookkeeper.audit import command, plan, plots, report, summary, tally
from pyspark_bookkeeper.audit.compare import CORRUPT, MISSING, UNEXPECTED, UNREACHABLE, ReplicaFinding
from pyspark_bookkeeper.audit.inspector import Rules
from pyspark_bookkeeper.audit.summary import Summary

FINDINGS = [
    ReplicaFinding(5, "<i>1", UNEXPECTED, 0, 99, 100),
    ReplicaFinding(3, "<i>1", MISSING, 4, 9, 3),
    ReplicaFinding(4, "b2", UNREACHABLE, 0, 0, 1, "bookie b2 cannot be reached"),
    *(ReplicaFinding(number, "", tally.YOUNG, 0, -1, 0) for number in (7, 8, 9)),
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


def told(findings: list[ReplicaFinding] = FINDINGS, figures: tally.Figures = FIGURES) -> Summary:
    audited = plan.make(
        uri="zk+hierarchical://zk:2181/ledgers",
        started_ms=1_700_000_000_000,
        options={},
        rules=Rules(),
        zones={BookieId("<i>1"): "x"},
        known=[BookieId("idle")],
        ledger_ids=[LedgerId(1)],
        wave_units=1,
    )
    return summary.summarize(audited, findings, figures, finished_ms=1_700_000_002_500)


def test_the_sentence_says_what_was_seen_and_what_was_not_looked_at() -> None:
    assert summary.sentence(told()) == (
        "Replicas are missing; not everything could be seen. 1,000 ledgers, 10,000 copies: 3 missing, 0 corrupt, "
        "1 not to be seen, 100 unexpected; ledgers not known: 3 young"
    )


LOOKED_AT = Counter({("ledgers", "closed"): 1, ("copies", "expected"): 10})
DEFAULT = command.FAIL_ON


def found(*kinds: str) -> Summary:
    """One ledger was looked at, and these kinds were found."""
    rows = [ReplicaFinding(1, "b1", kind, 0, 0, 1) for kind in kinds]
    return told(rows, LOOKED_AT + Counter({("ledgers", kind): 1 for kind in kinds if kind in tally.UNKNOWN}))


@pytest.mark.parametrize(
    ("kinds", "fail_on", "outcome", "code"),
    [
        ([], DEFAULT, "whole", 0),
        ([UNEXPECTED], DEFAULT, "whole", 0),
        ([UNEXPECTED], [UNEXPECTED], "whole", 5),
        ([MISSING], DEFAULT, "damage", 5),
        ([CORRUPT], DEFAULT, "damage", 5),
        ([CORRUPT, UNREACHABLE, tally.YOUNG], DEFAULT, "damage", 5),
        ([UNREACHABLE], DEFAULT, "not known", 6),
        *(([state], DEFAULT, "not known", 6) for state in tally.UNKNOWN),
        ([tally.YOUNG], [MISSING], "not known", 0),
        ([MISSING], [UNREACHABLE], "damage", 0),
    ],
)
def test_there_are_three_outcomes_and_a_code_for_each(
    kinds: list[str], fail_on: list[str], outcome: str, code: int
) -> None:
    summarized = found(*kinds)

    assert (summarized["outcome"], summary.exit_code(summarized, fail_on)) == (outcome, code)
    assert summarized["findings"] == {kind: int(kind in kinds) for kind in summary.ALL_KINDS}
    assert json.loads(json.dumps(summarized))["outcome"] == outcome


@pytest.mark.parametrize("state", [*tally.UNKNOWN, tally.GONE])
def test_an_audit_that_looked_at_nothing_is_never_whole_whatever_is_accepted(state: str) -> None:
    nothing = told([], Counter({("ledgers", state): 3}))

    assert (nothing["outcome"], summary.exit_code(nothing, [MISSING])) == ("not known", 6)
    assert nothing["title"] == "Nothing could be looked at"


@pytest.mark.parametrize(
    ("kinds", "figures", "title"),
    [
        ([], {}, "Every replica is listed; bytes were not read"),
        ([], {("copies", "read"): 4}, "Every replica is listed; 4 of 10 were read"),
        ([], {("copies", "read"): 10}, "Every replica is there: all were read"),
        ([], {("copies", "expected"): -10}, "Every ledger is empty: no replica is promised"),
        ([MISSING], {}, "Replicas are missing"),
        ([CORRUPT], {}, "Replicas are damaged"),
        ([CORRUPT, MISSING, tally.MOVED], {}, "Replicas are missing and damaged; not everything could be seen"),
        ([UNREACHABLE], {}, "Not every replica could be seen"),
        ([tally.UNSURE], {}, "Not every replica could be seen"),
    ],
)
def test_the_title_says_no_more_than_was_seen(
    kinds: list[str], figures: dict[tuple[str, ...], int], title: str
) -> None:
    rows = [ReplicaFinding(1, "b1", kind, 0, 0, 1) for kind in kinds]
    summarized = told(rows, Counter({key: LOOKED_AT[key] + figures.get(key, 0) for key in {**LOOKED_AT, **figures}}))

    assert summarized["title"] == title
    assert f"<h1>{title}</h1>" in report.page(summarized)
    assert summary.sentence(summarized).startswith(f"{title}. ")


def test_a_count_of_unexpected_copies_says_who_was_not_heard() -> None:
    figures: tally.Figures = Counter(LOOKED_AT)
    figures["bookies", "b8:1", tally.UNANSWERED] = 3
    figures["bookies", "b9:1", "expected"] = 1

    summarized = told([], figures)

    assert summarized["outcome"] == summary.WHOLE, "every replica that is promised is there"
    assert "0 unexpected (1 bookie did not say)" in summary.sentence(summarized)
    assert summarized["bookies"]["b8:1"][tally.UNANSWERED] == 3
    assert "did not say" in report.page(summarized)
    assert summary.exit_code(summarized, ["missing"]) == 0
    assert summary.exit_code(summarized, ["missing", "unexpected"]) == summary.EXIT_NOT_KNOWN
    assert "did not say" not in summary.sentence(told([], Counter(LOOKED_AT)))


def test_bookies_that_hold_nothing_are_told_of_too() -> None:
    assert list(told()["bookies"]) == ["<i>1", "b2", "idle"]
    assert [bookie["registered"] for bookie in told()["bookies"].values()] == [True, False, False]


def test_the_worst_findings_are_the_examples_and_there_are_not_too_many() -> None:
    many = [ReplicaFinding(number, "b2", UNREACHABLE, 0, 0, 1) for number in range(2 * summary.EXAMPLES_MAX)]

    examples = told(FINDINGS + many)["examples"]

    assert len(examples) == summary.EXAMPLES_MAX
    assert (examples[0]["kind"], examples[0]["ledger"]) == (MISSING, 3)


def test_the_page_is_one_file_with_every_figure_and_nothing_to_fetch_or_run() -> None:
    page = report.page(told(), where="/audits/1/findings")

    for expected in ("Replicas are missing", "10,000", "4 to 9", "/audits/1/findings", "b2 cannot be reached", "2.5 s"):
        assert expected in page
    assert "&lt;i&gt;1" in page
    assert "<i>1" not in page
    assert not re.search(r"<script|<link|<img|src=|@import|url\(", page)
    assert "http" not in page.replace('xmlns="http://www.w3.org/2000/svg"', "")


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

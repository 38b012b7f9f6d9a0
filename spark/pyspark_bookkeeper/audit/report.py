"""The report: one HTML page for people. Pure.

One file, no script, nothing fetched: it can be mailed and read in ten years.
"""

import datetime as dt
import html
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark_bookkeeper.audit import plots, summary, tally
from pyspark_bookkeeper.audit.summary import Summary

STYLE = Path(__file__).with_name("report.css")
FIGURES = (plots.ledgers_by_replicas, plots.copies_by_bookie, plots.risk_by_zone)
LINE = {summary.WHOLE: "", summary.DAMAGE: "bad", summary.NOT_KNOWN: "wait"}
WHY_SKIPPED = {
    tally.UNSURE: "too few bookies said which entry is confirmed last: only older segments were audited",
    tally.YOUNG: "their records changed within the grace time, and again while the audit waited",
    tally.MOVED: "their records changed at every look",
    tally.GONE: "they were deleted meanwhile: nothing is promised",
    tally.UNREADABLE: "their records cannot be read: look at them first",
}


def page(told: Summary, *, where: str = "") -> str:
    """Return the page as HTML. `where`: the folder that has all findings."""
    took_s = (told["finishedMs"] - told["startedMs"]) / 1000
    when = dt.datetime.fromtimestamp(told["startedMs"] / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Audit: {html.escape(summary.sentence(told))}</title><style>\n{STYLE.read_text()}</style>",
        f"<h1>{html.escape(told['title'])}</h1>",
        f"<p class=soft>Audit of {html.escape(told['metadataServiceUri'])}, begun {when}, {took_s:.1f} s</p>",
        f"<p class='line {LINE[told['outcome']]}'>{html.escape(summary.sentence(told))}</p>",
        _facts(told),
        *(f"<figure>{figure(told)}</figure>" for figure in FIGURES),
        *_reasons(told),
        *_skipped(told),
        "<h2>Bookies</h2>",
        _bookies(told),
        "<h2>Findings</h2>",
        _findings(told, where),
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _facts(told: Summary) -> str:
    ledgers, copies = told["ledgers"], told["copies"]
    facts = [
        (summary.audited(told), "ledgers looked at", ""),
        (sum(ledgers[state] for state in tally.UNKNOWN), "ledgers not known", "wait"),
        (told["entries"], "entries", ""),
        (copies["expected"], "copies promised", ""),
        (copies["read"], "copies read", ""),
        (copies["missing"], "copies missing", "bad"),
        (copies["corrupt"], "copies corrupt", "bad"),
        (copies["unreachable"], "copies not to be seen", "wait"),
        (copies["unexpected"], "copies unexpected", ""),
        (told.get("lost", 0), "entries declared lost", ""),
    ]
    cells = (f"<div class='{kind if count else ''}'><b>{count:,}</b>{name}</div>" for count, name, kind in facts)
    return f"<div class=facts>{''.join(cells)}</div>"


def _reasons(told: Summary) -> Iterator[str]:
    if told["reasons"]:
        yield "<h2>Why copies and ledgers are not known, or damaged</h2>"
        ordered = sorted(told["reasons"].items(), key=lambda item: -item[1])
        yield _table(
            ("reason", "ledgers"), (_text(reason) + _number(count) for reason, count in ordered), numbers_from=1
        )


def _skipped(told: Summary) -> Iterator[str]:
    skipped = [(state, told["ledgers"][state]) for state in WHY_SKIPPED if told["ledgers"][state]]
    if skipped:
        yield "<h2>Ledgers not known, or gone</h2>"
        rows = (_text(WHY_SKIPPED[state]) + _number(count) for state, count in skipped)
        yield _table(("why", "ledgers"), rows, numbers_from=1)


def _bookies(told: Summary) -> str:
    heads = (
        "bookie",
        "zone",
        "registered",
        "promised",
        "read",
        "missing",
        "corrupt",
        "not seen",
        "unexpected",
        "did not say",
    )
    return _table(
        heads,
        (
            _text(name)
            + _text(bookie["zone"])
            + _text("yes" if bookie["registered"] else "no")
            + _number(bookie["expected"])
            + _number(bookie["read"])
            + _number(bookie["missing"], "missing")
            + _number(bookie["corrupt"], "corrupt")
            + _number(bookie["unreachable"], "unreachable")
            + _number(bookie["unexpected"])
            + _number(bookie.get(tally.UNANSWERED, 0), "unreachable")
            for name, bookie in told["bookies"].items()
        ),
        numbers_from=3,
    )


def _findings(told: Summary, where: str) -> str:
    total, shown = sum(told["findings"].values()), len(told["examples"])
    if not total:
        return "<p>None.</p>"
    head = f"{total:,} in all, worst first" + (f", these are {shown}" if shown < total else "")
    head += f"; all are in <code>{html.escape(where)}</code>" if where else ""
    rows = (
        f"<td class={one['kind']}>{one['kind']}</td>"
        + _text(str(one["ledger"]))
        + _text(one["bookie"])
        + _text(_entries(one))
        + _text(f"{one['count']:,}")
        + _text(one["reason"])
        for one in told["examples"]
    )
    return f"<p class=soft>{head}.</p>" + _table(("kind", "ledger", "bookie", "entries", "copies", "reason"), rows)


def _entries(one: dict[str, Any]) -> str:
    if one["last"] < one["first"]:
        return ""  # a ledger, and nothing of it
    return str(one["first"]) if one["first"] == one["last"] else f"{one['first']} to {one['last']}"


def _text(text: str) -> str:
    return f"<td>{html.escape(text)}</td>"


def _number(count: int, kind: str = "") -> str:
    return f"<td class='n {kind if count else ''}'>{count:,}</td>"


def _table(heads: Sequence[str], rows: Iterator[str], *, numbers_from: int = 99) -> str:
    head = "".join(f"<th{' class=n' if place >= numbers_from else ''}>{text}</th>" for place, text in enumerate(heads))
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"

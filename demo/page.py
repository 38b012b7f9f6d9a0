"""The page the demo leaves: what happened, what was lost, what came back, and whether each claim holds. Pure.

One file, no script, nothing fetched: it can be mailed and read in ten years.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import narrate
import plot
from pyspark_bookkeeper.audit import plots, summary
from stage import Outcome
from timeline import Timeline

STYLE = Path(__file__).with_name("page.css")


def page(outcome: Outcome, timeline: Timeline, last_line: str, *, ok: bool) -> str:
    """Return the whole page; `last_line` is what the demo said at its end."""
    bookie_id = outcome.loss.bookie_id if outcome.loss else "no bookie was lost"
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Bookie: {html.escape(last_line)}</title><style>\n{STYLE.read_text()}</style>",
        "<h1>A bookie lost its volumes, and the fleet healed itself</h1>",
        f"<p class='line{'' if ok else ' bad'}'>{html.escape(last_line)}</p>",
        f"<p>{html.escape(outcome.not_shown)}</p>" if outcome.not_shown else "",
        "<h2>Timeline</h2>",
        plot.timeline_svg(timeline.events, timeline.samples, timeline.progress, bookie_id=bookie_id),
        "<h2>What is proven</h2>",
        _table(
            ("", "claim", "what was seen"),
            (
                (f"<td class={'yes' if one.holds else 'no'}>{'holds' if one.holds else 'does not hold'}</td>")
                + _cells(one.claim, one.seen)
                for one in outcome.proofs
            ),
        ),
        "<h2>What was lost</h2>",
        _table(("volume", "role", "where", "held"), (_cells(*row) for row in _lost(outcome))),
        "<h2>What came back</h2>",
        _table(("", ""), (_cells(*row) for row in _came_back(outcome))),
        *_audits(outcome),
        "<h2>Every step</h2>",
        _steps(timeline),
        "</html>",
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _audits(outcome: Outcome) -> Iterator[str]:
    for name, told in outcome.audits.items():
        yield f"<h2>The audit {html.escape(name)} the heal</h2>"
        yield f"<p>{html.escape(summary.sentence(told))}</p>"
        yield f"<figure>{plots.copies_by_bookie(told)}</figure>"
        yield f"<figure>{plots.ledgers_by_replicas(told)}</figure>"
        yield f"<figure>{plots.risk_by_zone(told)}</figure>"


def _cells(*texts: str) -> str:
    return "".join(f"<td>{html.escape(text)}</td>" for text in texts)


def _table(heads: Sequence[str], rows: Iterable[str]) -> str:
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads)
    return f"<table><tr>{head}</tr>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"


def _lost(outcome: Outcome) -> list[tuple[str, str, str, str]]:
    if outcome.loss is None:
        return []
    return [
        (volume.name, volume.role, volume.where, f"{volume.size_bytes / 1e6:.2f} MB" if volume.size_bytes >= 0 else "")
        for volume in outcome.loss.volumes
    ]


def _came_back(outcome: Outcome) -> list[tuple[str, str]]:
    last, verdict = outcome.last, outcome.verdict
    return [
        (
            "phase one (fence, limbo, durable)",
            f"{last.phase_one_ms / 1000:.2f} s, {last.ledgers_fenced} ledgers closed to writers",
        ),
        ("phase two (recover, copy, verify)", narrate.copied(last)),
        ("copies read back from this bookie alone", str(verdict.get("replicas_checked", "not read"))),
        ("incarnation", str(last.incarnation)),
        ("from the loss to whole again", f"{outcome.healed_s:.1f} s"),
    ]


def _steps(timeline: Timeline) -> str:
    rows = "".join(
        f"<tr class={event.kind}><td class=n>{event.at_s:.1f} s</td>{_cells(event.text)}</tr>"
        for event in timeline.events
    )
    return f"<table>{rows}</table>"

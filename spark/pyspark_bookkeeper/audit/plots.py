"""Draws the charts of an audit: bars in inline SVG, no script, nothing fetched. Pure.

Colours carry no meaning alone: every part of a bar has its figure beside it and its name in the legend. Colours are
variables of the page around the chart.
"""

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark_bookkeeper.audit.summary import Summary

WIDTH, LABEL, NOTE = 1000, 250, 170
BAR, ROW, TOP = 20, 34, 34
SLIVER = 3.0  # the least width of a part that is not empty

GOOD, FAIR, POOR, BAD, CALM, NONE = (
    "var(--good,#2f7d5b)",
    "var(--wait,#c98a00)",
    "var(--poor,#c75b12)",
    "var(--bad,#b3261e)",
    "var(--calm,#2a6f97)",
    "var(--line,#d8dee4)",
)


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    colour: str


@dataclass(frozen=True, slots=True)
class Row:
    """One bar. `counts` belong to the chart's parts, in order."""

    label: str
    counts: tuple[int, ...]
    note: str = ""


def ledgers_by_replicas(summary: Summary) -> str:
    """Draw how many replicas of its weakest entry each ledger has."""
    wholes = sorted(summary["replicas"], key=int)
    parts = [Part("all that are promised", GOOD), Part("one less", FAIR), Part("fewer", POOR), Part("none", BAD)]
    rows = []
    for whole in wholes:
        counts = [0, 0, 0, 0]
        for seen, ledgers in summary["replicas"][whole].items():
            lacking = int(whole) - int(seen)
            counts[3 if seen == "0" else min(lacking, 2)] += ledgers
        rows.append(Row(f"{whole} of {whole} replicas promised", tuple(counts), f"{sum(counts):,} ledgers"))
    return chart("Ledgers by replicas seen of their weakest entry", parts, rows, unit="ledgers")


def copies_by_bookie(summary: Summary) -> str:
    """Draw what each bookie should hold: listed, missing or corrupt, unreachable."""
    parts = [Part("listed", GOOD), Part("missing or corrupt", BAD), Part("not to be seen", FAIR)]
    rows = []
    for name, bookie in summary["bookies"].items():
        missing, unknown = bookie["missing"] + bookie["corrupt"], bookie["unreachable"]
        zone = f" ({bookie['zone']})" if bookie["zone"] else ""
        bad = "damaged" if bookie["corrupt"] else "missing"
        note = f"{missing:,} {bad}" if missing else f"{unknown:,} not seen" if unknown else f"{bookie['expected']:,}"
        rows.append(Row(name + zone, (bookie["expected"] - missing - unknown, missing, unknown), note))
    return chart("Copies that each bookie must hold", parts, rows, unit="copies")


def risk_by_zone(summary: Summary) -> str:
    """Draw what would be left of each ledger if a zone were lost."""
    parts = [Part("two replicas or more left", GOOD), Part("one left", FAIR), Part("none left", BAD)]
    rows = []
    for zone, left in sorted(summary["zones"].items()):
        counts = (left.get("2", 0), left.get("1", 0), left.get("0", 0))
        rows.append(
            Row(f"without {zone}" if zone else "without bookies of unknown zone", counts, f"{sum(counts):,} ledgers")
        )
    return chart("Ledgers by replicas left of their weakest entry if one zone is lost", parts, rows, unit="ledgers")


def chart(title: str, parts: Sequence[Part], rows: Sequence[Row], *, unit: str) -> str:
    """Draw bars, one below the other, on one scale."""
    height = TOP + ROW * max(len(rows), 1) + 34
    scale = max([sum(row.counts) for row in rows] + [1])
    lines = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{html.escape(title)}" '
        'xmlns="http://www.w3.org/2000/svg">',
        _text(0, 16, title, kind="title"),
    ]
    if not rows:
        lines.append(_text(0, TOP + 18, "nothing was audited"))
    for number, row in enumerate(rows):
        lines += _bar(parts, row, TOP + ROW * number, scale, unit)
    lines += _legend(parts, height - 12)
    return "\n".join([*lines, "</svg>"])


def _bar(parts: Sequence[Part], row: Row, y: float, scale: int, unit: str) -> Iterator[str]:
    room = WIDTH - LABEL - NOTE
    middle = y + BAR / 2 + 4
    yield _text(LABEL - 12, middle, _short(row.label), anchor="end")
    yield f'<rect x="{LABEL}" y="{y}" width="{room}" height="{BAR}" fill="{NONE}" fill-opacity=".35"/>'
    widths = [max(count / scale * room, SLIVER) if count else 0.0 for count in row.counts]
    excess = max(sum(widths) - room, 0.0)
    widths[widths.index(max(widths))] -= excess  # slivers are paid for by the widest part
    x = float(LABEL)
    for part, count, width in zip(parts, row.counts, widths, strict=True):
        if not count:
            continue
        what = f"{row.label}: {count:,} {unit}, {part.name}"
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{part.colour}">'
            f"<title>{html.escape(what)}</title></rect>"
        )
        if width > 9 * len(f"{count:,}"):
            yield _text(x + width / 2, middle, f"{count:,}", anchor="middle", kind="span", fill="#fff")
        x += width
    yield _text(WIDTH - NOTE + 12, middle, row.note)


def _legend(parts: Sequence[Part], y: float) -> Iterator[str]:
    x = float(LABEL)
    for part in parts:
        yield f'<rect x="{x:.0f}" y="{y - 9:.0f}" width="10" height="10" fill="{part.colour}"/>'
        yield _text(x + 16, y, part.name)
        x += 40 + 7 * len(part.name)


def _short(text: str) -> str:
    """Return `text` without its middle if it is long: bookies differ at the end."""
    return text if len(text) <= 36 else f"{text[:14]}…{text[-21:]}"


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "note", fill: str = "") -> str:
    style = f' style="fill:{fill}"' if fill else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}"{style}>{html.escape(text)}</text>'

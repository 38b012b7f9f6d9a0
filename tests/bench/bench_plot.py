"""The figures as one SVG, readable on light and on dark pages. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

WIDTH = 900
BAR_H, BAR_GAP, LABEL_W, TOP = 18, 10, 330, 46
CHART_W, CHART_H, CHART_GAP = 400, 170, 20
RATIO_MIN, RATIO_MAX = 1 / 8, 16.0  # of the scale, which is logarithmic
_COSTS = {"bookie_us": "bookie's CPU µs an add", "hit_us": "µs a look-up", "replay_s": "s of a full journal's replay"}
_STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600; font-size: 15px } .small { font-size: 11px; fill: #57606a }
.good { fill: #2f81c7 } .bad { fill: #c4432b } .line { stroke: #2f81c7; stroke-width: 2; fill: none }
.axis { stroke: #8c959f; stroke-width: 1 } .least { stroke: #24292f; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .small { fill: #9198a1 } .good { fill: #58a6ff } .bad { fill: #ff7b6b }
  .line { stroke: #58a6ff } .axis { stroke: #6e7681 } .least { stroke: #e6edf3 }
}
</style>"""


def plot(rows: Sequence[dict[str, Any]], series: Sequence[dict[str, Any]]) -> str:
    """Return the whole picture: a bar for each ratio, then a chart for each thing that grows."""
    bars, bars_h = _bars(rows) if rows else ([], 0)
    charts, charts_h = _charts(series, bars_h) if series else ([], 0)
    height = bars_h + charts_h
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' role="img" aria-label="Ratios to the official Java bookie, and how cost grows">'
    )
    return "\n".join([head, _STYLE, *bars, *charts, "</svg>"]) + "\n"


def ratio_x(ratio: float) -> float:
    """Return where a ratio lies from left to right; what is beyond the scale lies at its end."""
    kept = min(max(ratio, RATIO_MIN), RATIO_MAX)
    share = math.log2(kept / RATIO_MIN) / math.log2(RATIO_MAX / RATIO_MIN)
    return LABEL_W + share * (WIDTH - LABEL_W - 70)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _bars(rows: Sequence[dict[str, Any]]) -> tuple[list[str], int]:
    height = TOP + len(rows) * (BAR_H + BAR_GAP) + 30
    drawn = [
        _text(
            10,
            22,
            "Ours to the official Java bookie in the same run; adds-unjournaled, scrub-cost: to our own",
            "head",
        )
    ]
    for ratio in (0.125, 0.25, 0.5, 1, 2, 4, 8, 16):
        x = ratio_x(ratio)
        drawn.append(_line(x, TOP - 8, x, height - 26, "axis" if ratio != 1 else "least"))
        drawn.append(_text(x, height - 10, f"{ratio:g} ×", "small", "middle"))
    for number, row in enumerate(rows):
        y = TOP + number * (BAR_H + BAR_GAP)
        start, end = sorted((ratio_x(1.0), ratio_x(row["ratio"])))
        kind = "bad" if row["problems"] else "good"
        least = ratio_x(row["least"])
        drawn.append(_text(LABEL_W - 10, y + 14, row["name"], anchor="end"))
        drawn.append(
            f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="{BAR_H}" class="{kind}"/>'
        )
        drawn.append(_line(least, y - 3, least, y + BAR_H + 3, "least"))
        drawn.append(_text(WIDTH - 10, y + 14, f"{row['ratio']:.2f} ×", anchor="end"))
    drawn.append(_text(10, height - 10, "thick tick: the least figure", "small"))
    return drawn, height


def cost_of(point: dict[str, Any]) -> float:
    """Return what a chart shows of a point: CPU microseconds of an add, or of a look-up in the index; seconds that a
    journal's replay took."""
    return float(next(point[name] for name in _COSTS if name in point))


def _charts(series: Sequence[dict[str, Any]], top: int) -> tuple[list[str], int]:
    drawn: list[str] = []
    for number, one in enumerate(series):
        left = 50 + (number % 2) * (CHART_W + 40)
        drawn += _chart(one, left, top + 30 + (number // 2) * (CHART_H + CHART_GAP))
    return drawn, 40 + math.ceil(len(series) / 2) * (CHART_H + CHART_GAP)


def _chart(one: dict[str, Any], left: float, top: float) -> list[str]:
    """One chart: x logarithmic, y from zero (logarithmic where costs span more than fiftyfold)."""
    points = [(float(point["x"]), cost_of(point)) for point in one["points"]]
    costs = [cost for _, cost in points]
    is_log = max(costs) > 50 * max(min(costs), 1e-9)
    bottom = top + CHART_H - 40
    x_low, x_high = math.log10(points[0][0]), math.log10(points[-1][0])

    def place(x: float, cost: float) -> tuple[float, float]:
        across = (math.log10(x) - x_low) / max(x_high - x_low, 1e-9)
        up = math.log10(cost / min(costs)) / math.log10(max(costs) / min(costs)) if is_log else cost / max(costs)
        return left + across * (CHART_W - 60), bottom - up * (CHART_H - 80)

    what = next(told for name, told in _COSTS.items() if name in one["points"][0])
    drawn = [_text(left, top, f"{what}, by {one['x']}{' (log)' if is_log else ''}")]
    drawn.append(_line(left, bottom, left + CHART_W - 60, bottom, "axis"))
    places = [place(*point) for point in points]
    drawn.append(f'<polyline class="line" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in places)}"/>')
    for (x, y), (value, cost) in zip(places, points, strict=True):
        drawn.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" class="good"/>')
        drawn.append(_text(x, y - 8, short(cost), "small", "middle"))
        drawn.append(_text(x, bottom + 16, short(value), "small", "middle"))
    return drawn


def short(value: float) -> str:
    """Return a number in few characters: 10k, 1M."""
    for factor, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{letter}"
    return f"{value:.3g}"

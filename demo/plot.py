"""The timeline as a picture: inline SVG, no script, nothing fetched. Pure.

Three bands over one time axis: the state of the bookie as coloured spans, the writers' throughput as an area, phase two
as two lines. Colours carry no meaning alone: each span and line has its name beside it.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from timeline import Event, Progress, Sample

WIDTH, LEFT, RIGHT = 1000, 70, 20
LEAD_S = 2.0  # shown before the first sample; setting up is not part of the picture
STATE_TOP, STATE_HEIGHT = 34, 26
RATE_TOP, RATE_HEIGHT = 96, 170
COPY_TOP, COPY_HEIGHT = 316, 110
AXIS_Y = COPY_TOP + COPY_HEIGHT
HEIGHT = AXIS_Y + 40
COLOURS = {
    "lost": "#8b1e3f",
    "MISSING": "#8b1e3f",
    "STOPPING": "#8b1e3f",
    "PROVISIONING": "#8b1e3f",
    "WAITING_GRANT": "#c98a00",
    "FENCING": "#5b3a9b",
    "STAMPING": "#2a6f97",
    "REPLAYING": "#2a6f97",
    "REPAIRING": "#2f7d5b",
    "SERVING": "#4c9f70",
}
NAMES = {
    "lost": "gone",
    "STOPPING": "gone",
    "MISSING": "no pod",
    "PROVISIONING": "no pod",
    "WAITING_GRANT": "waits for the grant",
    "FENCING": "phase one",
    "STAMPING": "cookie",
}
NAMES |= {"REPLAYING": "opens", "REPAIRING": "phase two", "SERVING": "serves", "HELD": "held", "STARTING": "starts"}


@dataclass(frozen=True, slots=True)
class Span:
    start_s: float
    end_s: float
    state: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Seconds to the right. What came before `start_s` lies on the left edge."""

    start_s: float
    end_s: float

    @property
    def length_s(self) -> float:
        return max(self.end_s - self.start_s, 1.0)

    def x(self, at_s: float) -> float:
        return LEFT + max(at_s - self.start_s, 0.0) / self.length_s * (WIDTH - LEFT - RIGHT)


def spans(events: Sequence[Event], end_s: float) -> list[Span]:
    """Return the lost bookie's states as spans, from the events that name them."""
    marks = [(0.0, "SERVING")]
    for event in events:
        word = event.text.split(":")[0].split(" ")[0]
        if event.kind == "loss":
            marks.append((event.at_s, "lost"))
        elif event.kind == "state" and word.isupper():
            marks.append((event.at_s, word))
    ends = [start for start, _ in marks[1:]] + [end_s]
    return [Span(start, end, state) for (start, state), end in zip(marks, ends, strict=True) if end > start]


def timeline_svg(
    events: Sequence[Event], samples: Sequence[Sample], progress: Sequence[Progress], *, bookie_id: str
) -> str:
    """Return the whole picture as an SVG element."""
    start_s = max(samples[0].at_s - LEAD_S, 0.0) if samples else 0.0
    end_s = max([event.at_s for event in events] + [sample.at_s for sample in samples] + [start_s + 1.0])
    axis = Axis(start_s, end_s)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="timeline" xmlns="http://www.w3.org/2000/svg">',
        *_ticks(axis),
        *_states(spans(events, end_s), axis, bookie_id),
        *_throughput(samples, axis),
        *_copying(progress, axis),
        *_moment(events, axis),
        "</svg>",
    ]
    return "\n".join(parts)


def _text(x: float, y: float, text: str, *, anchor: str = "start", kind: str = "note") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(text)}</text>'


def _ticks(axis: Axis) -> Iterator[str]:
    step_s = next(step for step in (5, 10, 20, 30, 60, 120, 300, 600, 3600) if axis.length_s / step <= 12)
    first = -(-int(axis.start_s) // step_s) * step_s
    for tick in range(first, int(axis.end_s) + 1, step_s):
        x = axis.x(tick)
        if x >= LEFT:
            yield f'<line x1="{x:.1f}" y1="{STATE_TOP}" x2="{x:.1f}" y2="{AXIS_Y}" class="grid"/>'
            yield _text(x, AXIS_Y + 18, f"{tick} s", anchor="middle")


def _states(found: Sequence[Span], axis: Axis, bookie_id: str) -> Iterator[str]:
    yield _text(LEFT, STATE_TOP - 10, bookie_id, kind="title")
    for span in found:
        if span.end_s <= axis.start_s:
            continue
        x, width = axis.x(span.start_s), max(axis.x(span.end_s) - axis.x(span.start_s), 1.5)
        colour, name = COLOURS.get(span.state, "#777"), NAMES.get(span.state, span.state.lower())
        length = f"{span.end_s - span.start_s:.1f} s"
        yield (
            f'<rect x="{x:.1f}" y="{STATE_TOP}" width="{width:.1f}" height="{STATE_HEIGHT}" fill="{colour}">'
            f"<title>{html.escape(name)}, {length}</title></rect>"
        )
        if width > 7 * len(name):
            yield _text(x + width / 2, STATE_TOP + 17, name, anchor="middle", kind="span")


def _throughput(samples: Sequence[Sample], axis: Axis) -> Iterator[str]:
    top = max([sample.rate_per_s for sample in samples] + [1.0])
    base = RATE_TOP + RATE_HEIGHT
    yield _text(LEFT, RATE_TOP - 8, "entries acknowledged per second, all writers", kind="title")
    yield _text(LEFT - 8, RATE_TOP + 10, f"{top:,.0f}", anchor="end")
    yield _text(LEFT - 8, base, "0", anchor="end")
    points = [f"{axis.x(sample.at_s):.1f},{base - sample.rate_per_s / top * RATE_HEIGHT:.1f}" for sample in samples]
    if points:
        first, last = points[0].split(",")[0], points[-1].split(",")[0]
        yield f'<polygon points="{first},{base} {" ".join(points)} {last},{base}" class="rate"/>'
        yield f'<polyline points="{" ".join(points)}" class="rateline"/>'
    yield f'<line x1="{LEFT}" y1="{base}" x2="{WIDTH - RIGHT}" y2="{base}" class="base"/>'


def _copying(progress: Sequence[Progress], axis: Axis) -> Iterator[str]:
    yield f'<line x1="{LEFT}" y1="{AXIS_Y}" x2="{WIDTH - RIGHT}" y2="{AXIS_Y}" class="base"/>'
    copied = max([one.bytes_copied for one in progress] + [1])
    pending = max([one.ledgers_pending for one in progress] + [1])
    title = (
        f"phase two: bytes copied (line, up to {copied / 1e6:.1f} MB), ledgers to repair (dashed, at most {pending})"
    )
    yield _text(LEFT, COPY_TOP - 10, title if progress else "phase two: nothing was reported", kind="title")
    for figure, top, kind in (("bytes_copied", copied, "copied"), ("ledgers_pending", pending, "pending")):
        points = " ".join(
            f"{axis.x(one.at_s):.1f},{AXIS_Y - getattr(one, figure) / top * COPY_HEIGHT:.1f}" for one in progress
        )
        yield f'<polyline points="{points}" class="{kind}"/>'


def _moment(events: Sequence[Event], axis: Axis) -> Iterator[str]:
    """Mark the loss through all bands."""
    for event in events:
        if event.kind == "loss":
            x = axis.x(event.at_s)
            yield f'<line x1="{x:.1f}" y1="{STATE_TOP}" x2="{x:.1f}" y2="{AXIS_Y}" class="loss"/>'
            yield _text(x + 4, RATE_TOP + 14, "volumes destroyed", kind="lossnote")

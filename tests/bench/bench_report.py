"""The figures for people, as text. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import bench_figures

HEAD = ("load", "ratio", "least", "ours", "theirs", "p50 ms", "p99 ms", "p99.9 ms", "bookie µs", "client µs")


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return one row's cells under HEAD; pairs are ours / theirs."""
    verdict = "" if not row["problems"] else " !"
    if "ours_mb" in row:
        sizes = (f"{row['ours_mb']:.0f} MB", f"{row['theirs_mb']:.0f} MB")
        return (row["name"], f"{row['ratio']:.2f}{verdict}", f"{row['least']:g}", *sizes, "", "", "", "", "")
    ours, theirs = row["ours"], row["theirs"]

    def pair(name: str, digits: int) -> str:
        return f"{ours[name]:.{digits}f} / {theirs[name]:.{digits}f}"

    return (
        row["name"],
        f"{row['ratio']:.2f}{verdict}",
        f"{row['least']:g}",
        bench_figures.told(row, "ours"),
        bench_figures.told(row, "theirs"),
        pair("p50_ms", 1),
        pair("p99_ms", 1),
        pair("p999_ms", 1),
        pair("bookie_us", 1),
        pair("client_us", 1),
    )


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as aligned text, then what bounds each and what is below the least figures."""
    lines = [HEAD, *(cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    text = [
        "  ".join(
            cell.rjust(width) if n else cell.ljust(width)
            for n, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
    text.append("")
    for row in rows:
        if "ours_mb" not in row:
            spread = ", ".join(f"{ratio:.2f}" for ratio in row["ratios"])
            bounds = f"ours is bound by {row['ours']['bound']}; theirs by {row['theirs']['bound']}"
            disk = f"{row['ours']['disk_bytes']:,.0f} / {row['theirs']['disk_bytes']:,.0f} bytes read from disk each; "
            text.append(f"{row['name']}: rounds {spread}; {disk if row['unit'] == 'reads' else ''}{bounds}")
            if bench_figures.beside(row["ours"]):
                aside = " / ".join(bench_figures.beside(row[side]) for side in ("ours", "theirs"))
                text.append(f"{row['name']}: beside: {aside}")
    for row in rows:
        text += [f"BELOW {row['name']}: {problem}" for problem in row["problems"]]
    return "\n".join(text)


def series_table(one: dict[str, Any]) -> str:
    """Return a series as text: a line for each point."""
    lines = [f"{one['title']}"]
    for point in one["points"]:
        figures = ", ".join(f"{name} {value:,.1f}" for name, value in point.items() if isinstance(value, float))
        lines.append(f"  {point['x']:>12,} {one['x']}: {figures}; bound by {point['bound']}")
    return "\n".join([*lines, f"  next bound: {one['next']}"])

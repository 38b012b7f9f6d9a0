"""The page and the picture that are made of figures."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import bench_docs
import bench_figures
import bench_plot
import bench_report
from bench_figures import Round
from bench_loads import LOADS

SVG = "{http://www.w3.org/2000/svg}"
SERIES = {
    "name": "ledgers",
    "title": "adds by number of ledgers",
    "x": "open ledgers",
    "next": "memory",
    "points": [
        {"x": 1, "rate": 50_000.0, "mb_per_s": 51.2, "bookie_us": 10.0, "memory_mb": 90.0, "bound": "a thread"},
        {"x": 1000, "rate": 25_000.0, "mb_per_s": 25.6, "bookie_us": 20.0, "memory_mb": 95.0, "bound": "a thread"},
    ],
}

STARTS = {
    "name": "starts",
    "title": "seconds by number of ledgers",
    "x": "ledgers",
    "next": "a session",
    "points": [
        {
            "x": ledgers,
            "logs_gib": logs_gib,
            "journal_mb": 60.0,
            "replay_s": 0.2 + ledgers / 1e6,
            "after_kill_s": 7.5,
            "stop_s": 0.1,
            "start_s": 0.6,
            "start_cpu_s": 0.5,
            "memory_mb": 70.0,
            "bound": "a thread",
        }
        for ledgers, logs_gib in ((1, 0), (100_000, 0), (100_000, 100))
    ],
}


def a_row(number: int, rate: float) -> dict[str, Any]:
    theirs = Round(1000, 1.0, 5.0, 10.0, 15.0, 0.01, 0.02)
    ours = Round(round(1000 * rate), 1.0, 5.0, 10.0, 15.0, 0.01, 0.02)
    return bench_figures.row(LOADS[number], [ours], [theirs], cores=2)


def test_bars_right_of_one_are_faster_and_a_row_that_fails_has_the_colour_of_failure() -> None:
    picture = ET.fromstring(bench_plot.plot([a_row(0, 2.0), a_row(1, 0.5)], []))

    one = bench_plot.ratio_x(1.0)
    bars = [
        (float(bar.attrib["x"]), float(bar.attrib["width"]), bar.attrib["class"]) for bar in picture.iter(f"{SVG}rect")
    ]
    assert [kind for _, _, kind in bars] == ["good", "bad"]
    assert abs(bars[0][0] - one) < 0.1
    assert abs(bars[1][0] + bars[1][1] - one) < 0.2
    assert abs(bars[0][1] - bars[1][1]) < 0.2, "twice as fast and half as fast are equally far from one"


def test_a_ratio_beyond_the_scale_stays_in_the_picture() -> None:
    assert bench_plot.ratio_x(1000.0) == bench_plot.ratio_x(16.0) < bench_plot.WIDTH
    assert bench_plot.ratio_x(0.001) == bench_plot.LABEL_W


def test_the_picture_has_colours_for_dark_pages_and_a_circle_for_every_point() -> None:
    text = bench_plot.plot([a_row(0, 2.0)], [SERIES, {**SERIES, "name": "sizes"}])
    picture = ET.fromstring(text)

    assert "prefers-color-scheme: dark" in text
    assert len(list(picture.iter(f"{SVG}circle"))) == 4
    height = float(picture.attrib["height"])
    assert all(0 < float(one.attrib["y"]) < height for one in picture.iter(f"{SVG}text"))


def test_a_cost_that_spans_orders_of_magnitude_is_drawn_on_a_logarithmic_scale() -> None:
    steep = {
        **SERIES,
        "points": [{"x": 10, "bookie_us": 1.0}, {"x": 100, "bookie_us": 5.0}, {"x": 1000, "bookie_us": 5000.0}],
    }

    assert "(log)" in bench_plot.plot([], [steep])
    assert "(log)" not in bench_plot.plot([], [SERIES])


def test_what_is_measured_again_takes_its_place_and_the_rest_stays(tmp_path: Path) -> None:
    bench_docs.write(rows=[a_row(0, 2.0), a_row(1, 2.0)], docs=tmp_path)
    bench_docs.write(rows=[a_row(1, 0.5)], series=[SERIES], docs=tmp_path)

    kept = json.loads((tmp_path / "benchmarks.json").read_text())
    page = (tmp_path / "BENCHMARKS.md").read_text()
    assert [(row["name"], row["ratio"]) for row in kept["rows"]] == [("adds-v3", 2.0), ("adds-v2", 0.5)]
    assert "rounds" not in kept["rows"][0]["ours"]
    assert "no: ratio 0.50, least 1.25" in page
    assert "## Growth: open ledgers" in page
    ET.parse(tmp_path / "benchmarks.svg")


def test_page_and_picture_of_this_tree_are_what_the_kept_figures_say() -> None:
    path = bench_docs.DOCS / bench_docs.FIGURES
    if not path.exists():
        assert not (bench_docs.DOCS / bench_docs.PAGE).exists()
        pytest.skip("nothing was measured yet: make bench WRITE_DOCS=1")
    kept = json.loads(path.read_text())

    assert (bench_docs.DOCS / bench_docs.PAGE).read_text() == bench_docs.page(kept)
    assert (bench_docs.DOCS / bench_docs.PICTURE).read_text() == bench_plot.plot(kept["rows"], kept["series"])


def test_starts_have_columns_of_their_own_and_a_chart_of_the_replay(tmp_path: Path) -> None:
    bench_docs.write(series=[STARTS], docs=tmp_path)

    page = (tmp_path / "BENCHMARKS.md").read_text()
    assert "| 100,000 | 100 | 60 | 0.3 | 7.5 | 0.1 | 0.6 | 0.5 | 70 | a thread |" in page
    assert "s of a full journal's replay, by ledgers" in (tmp_path / "benchmarks.svg").read_text().replace(
        "&#x27;", "'"
    )


def test_the_table_names_rows_below_their_least_figure() -> None:
    text = bench_report.table([a_row(0, 0.5), bench_figures.memory_row(50.0, 800.0, 40.0)])

    assert "BELOW adds-v3: ratio 0.50, least 1.25" in text
    assert "BELOW memory" not in text

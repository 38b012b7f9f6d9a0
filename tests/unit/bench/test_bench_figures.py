"""What the benchmark makes of its rounds: ratios, bounds, verdicts."""

from __future__ import annotations

import dataclasses

import pytest

import bench_figures
from bench_figures import Round
from bench_loads import AGAINST, LOADS, NAMES, Load
from bench_sides import KINDS

LOAD = Load("some", "a load", 1.25, {"load": "adds", "size": 1024}, p99_most=1.0)


def a_round(rate: float = 1000.0, **fields: float) -> Round:
    """Two seconds at `rate`; the bookie needs 20 µs an operation, the client 10."""
    operations = round(rate * 2)
    made = Round(operations, 2.0, 5.0, 10.0, 15.0, client_cpu_s=operations * 10e-6, bookie_cpu_s=operations * 20e-6)
    return dataclasses.replace(made, **fields)  # type: ignore[arg-type]


def test_the_ratio_is_the_median_of_paired_rounds_not_the_ratio_of_medians() -> None:
    ours = [a_round(100), a_round(200), a_round(900)]
    theirs = [a_round(100), a_round(50), a_round(300)]

    row = bench_figures.row(LOAD, ours, theirs, cores=2)

    assert row["ratios"] == [1.0, 4.0, 3.0]
    assert row["ratio"] == 3.0


def test_a_row_at_its_least_figure_holds() -> None:
    row = bench_figures.row(LOAD, [a_round(1250)], [a_round(1000)], cores=2)

    assert row["problems"] == []


def test_a_row_below_its_least_figure_says_by_how_much() -> None:
    row = bench_figures.row(LOAD, [a_round(1240)], [a_round(1000)], cores=2)

    assert row["problems"] == ["ratio 1.24, least 1.25"]


def test_a_faster_side_with_a_worse_tail_does_not_hold() -> None:
    row = bench_figures.row(LOAD, [a_round(2000, p99_ms=12.0)], [a_round(1000, p99_ms=10.0)], cores=2)

    assert row["problems"] == ["p99 is 1.20 times theirs, most 1"]


def test_a_row_about_a_latency_is_theirs_to_ours_and_may_ask_for_the_last_tail_too() -> None:
    load = dataclasses.replace(LOAD, latency="p99_ms", p99_most=None, p999_most=1.0)
    ours, theirs = a_round(p99_ms=4.0, p999_ms=9.0), a_round(p99_ms=10.0, p999_ms=6.0)

    row = bench_figures.row(load, [ours], [theirs], cores=2)

    assert row["ratio"] == pytest.approx(2.5)
    assert row["problems"] == ["p999 is 1.50 times theirs, most 1"]
    assert bench_figures.told(row, "ours") == "4.0 ms"


def test_a_row_about_seconds_is_theirs_to_ours_and_says_how_long_a_stop_took() -> None:
    load = dataclasses.replace(LOAD, latency="back_s", p99_most=None)

    row = bench_figures.row(load, [a_round(back_s=2.0, stop_s=0.5)], [a_round(back_s=5.0, stop_s=1.0)], cores=2)

    assert row["ratio"] == pytest.approx(2.5)
    assert bench_figures.told(row, "theirs") == "5.0 s"
    assert bench_figures.beside(row["ours"]) == "a bookie away for 2.0 s, 0.5 of them to stop"


def test_a_side_that_did_nothing_else_has_nothing_beside() -> None:
    side = bench_figures.summary([a_round()])

    assert bench_figures.beside(side) == ""


def test_what_went_on_beside_is_told_together() -> None:
    side = bench_figures.summary([a_round(beside_p99_ms=3.0, given_back_mb=201.3, given_back_s=6.46)])

    assert bench_figures.beside(side) == "201 MB of logs given back in 6.5 s; p99 of the load beside 3.0 ms"
    assert bench_figures.beside(bench_figures.summary([a_round(scrubbed_per_s=19_876.0, disk_bytes=40e6)])) == (
        "19,876 entries scrubbed a second; 20 MB/s read from the disk"
    )


def test_our_own_client_is_judged_by_operations_per_cpu_second_of_all_processes() -> None:
    load = dataclasses.replace(LOAD, has_own_client=True, least=1.0, p99_most=None)
    slow_but_cheap = a_round(500, client_cpu_s=0.005, bookie_cpu_s=0.005)

    row = bench_figures.row(load, [slow_but_cheap], [a_round(1000)], cores=2)

    assert row["ratio"] == pytest.approx((1000 / 0.01) / (1 / 30e-6))
    assert row["client_ratio"] == pytest.approx(10 / 5)


def test_what_the_journal_costs_is_judged_without_the_client() -> None:
    load = dataclasses.replace(LOAD, is_without_client=True, least=1.5, p99_most=None)
    with_journal = a_round(1000, client_cpu_s=0.005, bookie_cpu_s=0.004)

    row = bench_figures.row(load, [a_round(1000, client_cpu_s=0.009, bookie_cpu_s=0.002)], [with_journal], cores=2)

    assert row["ratio"] == pytest.approx(2.0)
    assert row["problems"] == []
    assert bench_figures.told(row, "ours") == "1,000,000 adds/CPU s of the bookie"


def test_cpu_of_an_operation_is_of_all_rounds_together() -> None:
    rounds = [a_round(1000, bookie_cpu_s=0.0), a_round(1000, bookie_cpu_s=0.08)]  # flushed in the second one only

    assert bench_figures.summary(rounds)["bookie_us"] == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("rate", "fields", "words"),
    [
        (60_000, {"busy_share": 0.95}, "all 2 cores: bookie 67%, client 33%"),
        (10_000, {"busy_share": 0.95}, "others: this load had 15% of the machine, and 95%"),
        (30_000, {"busy_share": 0.6, "hottest_share": 0.97}, "one thread of the bookie (97% of a core)"),
        (30_000, {"busy_share": 0.6, "hottest_share": 0.5, "waiting_share": 0.3}, "the disk"),
        (30_000, {"busy_share": 0.6, "hottest_share": 0.5}, "waiting for each other"),
    ],
)
def test_what_bounds_a_side_is_what_was_used_up(rate: float, fields: dict[str, float], words: str) -> None:
    side = bench_figures.summary([a_round(rate, **fields)])

    assert bench_figures.bound(side, cores=2).startswith(words)


def test_memory_is_theirs_to_ours_and_idle_memory_is_judged_too() -> None:
    assert bench_figures.memory_row(100.0, 800.0, 60.0)["problems"] == []
    assert bench_figures.memory_row(101.0, 800.0, 61.0)["problems"] == [
        "ratio 7.92, least 8",
        "idle 61 MB, most 60",
    ]


def test_every_load_has_a_name_of_its_own_and_reads_say_what_they_find() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for load in LOADS:
        assert load.least > 0
        asked = [load.question, *([load.question["beside"]] if "beside" in load.question else [])]
        assert (load.cache is not None) == any(each["load"] == "reads" for each in asked), load.name
        assert {load.ours, load.theirs} <= set(KINDS), load.name
    assert {name for load in AGAINST for name in (load.ours, load.theirs)} <= set(KINDS)

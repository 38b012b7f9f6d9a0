"""The operator is measured as its chart starts it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import bench_operator  # noqa: E402


def test_memory_is_allocated_in_the_bench_as_in_the_chart() -> None:
    assert bench_operator.chart_environment() == {"MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "131072"}

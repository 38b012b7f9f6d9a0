"""A node's metrics as values: `runtime.metrics` shows them, and the simulator may read them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One number. `kind` is "counter" or "gauge"; a counter's name ends in `_total` (Prometheus naming)."""

    name: str
    kind: str
    help: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts per bucket, not cumulative; `bounds` are the inclusive upper ends, the last bucket has none."""

    name: str
    help: str
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    sum: float
    labels: tuple[tuple[str, str], ...] = ()


Telemetry = Callable[[], Iterable[Sample | Histogram]]

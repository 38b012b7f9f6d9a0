"""`/metrics` for Prometheus: a collector that reads a node's table when it is scraped, on a small HTTP server."""

import contextlib
from collections.abc import AsyncIterator, Iterator

import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from bookie.ports.doors import Doors
from bookie.ports.http import Handler, HttpAnswer, HttpRequest
from bookie.ports.metrics import Histogram, Sample, Telemetry
from bookie.ports.network import Address
from bookie.runtime import http

_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Collector:
    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry

    def collect(self) -> Iterator[_Family]:
        families: dict[str, _Family] = {}
        for item in self._telemetry():
            names, values = [name for name, _ in item.labels], [value for _, value in item.labels]
            family = families.get(item.name)
            if family is None:
                family = families[item.name] = _family(item, names)
            if isinstance(item, Histogram):
                assert isinstance(family, HistogramMetricFamily)
                family.add_metric(values, list(_cumulative(item)), item.sum)
            else:
                assert not isinstance(family, HistogramMetricFamily)
                family.add_metric(values, item.value)
        yield from families.values()


def _family(item: Sample | Histogram, names: list[str]) -> _Family:
    if isinstance(item, Histogram):
        return HistogramMetricFamily(item.name, item.help, labels=names)
    if item.kind == "counter":
        return CounterMetricFamily(item.name, item.help, labels=names)
    return GaugeMetricFamily(item.name, item.help, labels=names)


def _cumulative(item: Histogram) -> Iterator[tuple[str, float]]:
    total = 0
    for bound, count in zip((*item.bounds, "+Inf"), item.counts, strict=True):
        total += count
        yield str(bound), total


def page(telemetry: Telemetry) -> Handler:
    """Return a handler that answers `GET /metrics`; for another path it names this one to the caller."""
    registry = CollectorRegistry()
    registry.register(_Collector(telemetry))
    ProcessCollector(registry=registry)

    async def answer(request: HttpRequest) -> HttpAnswer:
        if request.path != "/metrics":
            return HttpAnswer(404, b"there is /metrics\n")
        return HttpAnswer(200, prometheus_client.generate_latest(registry), _CONTENT_TYPE)

    return answer


@contextlib.asynccontextmanager
async def serve(telemetry: Telemetry, address: Address, doors: Doors | None = None) -> AsyncIterator[int]:
    """Serve `/metrics` at `address`; give its port. Raises RefusedToStart when it is in use."""
    async with http.serve(page(telemetry), address, doors) as port:
        yield port

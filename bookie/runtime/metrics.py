"""`/metrics` for Prometheus: a collector that reads a node's table when it is scraped, on a small HTTP server."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator

import prometheus_client
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from bookie.ports.metrics import Histogram, Sample, Telemetry
from bookie.ports.network import Address
from bookie.runtime.network import refused

_Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
# A scrape is one short request; whoever takes longer is not a scraper.
_REQUEST_TIMEOUT_S = 5.0


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


@contextlib.asynccontextmanager
async def serve(telemetry: Telemetry, address: Address) -> AsyncIterator[int]:
    """Serve `/metrics` at `address`; give the port. Raises RefusedToStart when it is in use."""
    registry = CollectorRegistry()
    registry.register(_Collector(telemetry))
    ProcessCollector(registry=registry)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_TIMEOUT_S):
                request = await reader.readuntil(b"\r\n\r\n")
            path = request.split(b" ", 2)[1].split(b"?")[0]
            if path == b"/metrics":
                body, status = prometheus_client.generate_latest(registry), b"200 OK"
            else:
                body, status = b"there is /metrics\n", b"404 Not Found"
            head = b"HTTP/1.1 %b\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" % status
            writer.write(head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
            await writer.drain()
        except (TimeoutError, OSError, EOFError, IndexError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    try:
        server = await asyncio.start_server(answer, address.host, address.port)
    except OSError as error:
        raise refused(address, error) from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()

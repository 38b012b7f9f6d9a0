"""Counters of the server as plain attributes: the hot path pays an integer add. One table, read at scrape time."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from bookie.base.errors import Status
from bookie.base.units import NS_PER_S
from bookie.ports.metadata_store import Session
from bookie.ports.metrics import Histogram, Sample

# Buckets by powers of two of a microsecond: 1 us .. 8 s. The last one is open.
_BUCKETS = 24
_BOUNDS = tuple((1 << power) / 1e6 for power in range(_BUCKETS - 1))


@dataclass(slots=True, eq=False)
class Latency:
    """A histogram with buckets of powers of two; recording costs a shift and two adds."""

    counts: list[int] = field(default_factory=lambda: [0] * _BUCKETS)
    sum_ns: int = 0

    def record(self, elapsed_ns: int, count: int) -> None:
        # Bucket i holds (2^(i-1), 2^i] microseconds, as nearly as a shift can tell.
        index = (elapsed_ns // 1000).bit_length()
        self.counts[index if index < _BUCKETS else _BUCKETS - 1] += count
        self.sum_ns += count * elapsed_ns

    def sample(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, _BOUNDS, tuple(self.counts), self.sum_ns / NS_PER_S)


@dataclass(slots=True, eq=False)
class ServerMetrics:
    """All counts since the start of the process."""

    adds: int = 0
    add_bytes: int = 0
    add_latency: Latency = field(default_factory=Latency)
    reads: int = 0
    read_bytes: int = 0
    slow_reads: int = 0
    long_polls: int = 0
    other_requests: int = 0
    connections: int = 0
    connections_total: int = 0
    refused_clients: int = 0
    registrations: int = 0
    metadata_suspensions: int = 0
    is_metadata_connected: bool = False
    errors: dict[Status, int] = field(default_factory=lambda: dict.fromkeys((status for status in Status if status), 0))

    def on_session(self, state: Session) -> None:
        """Note what became of our session with the metadata store. While it is suspended nothing else shows that nobody
        answers there: clients are served, and our record stands until the session's time-out."""
        self.is_metadata_connected = state is Session.CONNECTED
        self.metadata_suspensions += state is Session.SUSPENDED

    def samples(self) -> Iterator[Sample | Histogram]:
        """Yield all counters."""
        counters = (
            ("adds", self.adds, "Add requests."),
            ("add_bytes", self.add_bytes, "Bytes of entries in add requests."),
            ("reads", self.reads, "Read requests, fencing ones included."),
            ("read_bytes", self.read_bytes, "Bytes of entries in answers to reads."),
            ("slow_reads", self.slow_reads, "Reads that memory did not answer at once."),
            ("long_polls", self.long_polls, "Reads that asked to wait for the LAC."),
            ("other_requests", self.other_requests, "Requests of all other operations."),
            ("connections", self.connections_total, "Client connections accepted."),
            ("refused_clients", self.refused_clients, "Clients that did not prove who they are."),
            ("registrations", self.registrations, "Times this bookie registered in the metadata store."),
            ("metadata_suspensions", self.metadata_suspensions, "Times its metadata store did not answer any more."),
        )
        for name, value, text in counters:
            yield Sample(f"bookie_{name}_total", "counter", text, value)
        text = "1 while its session with the metadata store is connected, 0 before and while that does not answer."
        yield Sample("bookie_metadata_connected", "gauge", text, int(self.is_metadata_connected))
        yield Sample("bookie_connections_open", "gauge", "Client connections now.", self.connections)
        for status, count in self.errors.items():
            text = "Requests answered with this status."
            yield Sample("bookie_request_errors_total", "counter", text, count, (("status", status.name),))
        yield self.add_latency.sample("bookie_add_latency_seconds", "From reading an add to its durable answer.")

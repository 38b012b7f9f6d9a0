"""What a bookie counts: latencies in buckets, and the session with its metadata store."""

import pytest

from bookie.base.units import NS_PER_S
from bookie.ports.metadata_store import Session
from bookie.server.metrics import Latency, ServerMetrics

US = 1_000


@pytest.mark.parametrize(
    ("elapsed_ns", "at_most_s"),
    [(0, 1e-6), (1, 1e-6), (1 * US, 2e-6), (3 * US, 4e-6), (1_000 * US, 1_024e-6), (NS_PER_S, 1.048576)],
)
def test_a_latency_is_in_the_bucket_with_the_next_bound(elapsed_ns: int, at_most_s: float) -> None:
    latency = Latency()

    latency.record(elapsed_ns, 3)

    found = latency.sample("x", "text")
    assert [(bound, count) for bound, count in zip(found.bounds, found.counts, strict=False) if count] == [
        (at_most_s, 3)
    ]
    assert sum(found.counts) == 3
    assert found.sum == pytest.approx(3 * elapsed_ns / NS_PER_S)


def test_a_latency_above_all_bounds_is_counted_in_the_last_bucket_which_is_open() -> None:
    latency = Latency()

    latency.record(3600 * NS_PER_S, 2)

    found = latency.sample("x", "text")
    assert len(found.counts) == len(found.bounds) + 1
    assert found.counts[-1] == sum(found.counts) == 2
    assert found.sum == 7200


def test_a_session_is_connected_only_while_it_says_so_and_each_silence_is_counted() -> None:
    metrics = ServerMetrics()
    seen = []
    for state in (Session.CONNECTED, Session.SUSPENDED, Session.CONNECTED, Session.SUSPENDED, Session.LOST):
        metrics.on_session(state)
        seen.append((metrics.is_metadata_connected, metrics.metadata_suspensions))

    assert seen == [(True, 0), (False, 1), (True, 1), (False, 2), (False, 2)]

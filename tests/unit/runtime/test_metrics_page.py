"""The page for Prometheus, as it is read there: kinds, labels, buckets that count what is below them too."""

import asyncio
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from bookie.ports.http import HttpRequest
from bookie.ports.metrics import Histogram, Sample
from bookie.runtime import metrics


def told() -> Iterator[Sample | Histogram]:
    yield Sample("bookie_adds_total", "counter", "Adds.", 3)
    yield Sample("bookie_disk_used_share", "gauge", "Used.", 0.5, (("directory", "/a"),))
    yield Histogram("bookie_seconds", "Times.", (0.1, 1.0), (2, 0, 5), 17.5)
    yield Sample("bookie_disk_used_share", "gauge", "Used.", 0.25, (("directory", "/b"),))


def test_every_number_is_on_the_page_with_its_kind_and_its_labels() -> None:
    answer = asyncio.run(metrics.page(told)(HttpRequest("GET", "/metrics")))

    families = {each.name: each for each in text_string_to_metric_families(answer.body.decode())}
    assert families["bookie_adds"].type == "counter"
    assert [sample.value for sample in families["bookie_adds"].samples] == [3]
    assert families["bookie_disk_used_share"].type == "gauge"
    shares = {sample.labels["directory"]: sample.value for sample in families["bookie_disk_used_share"].samples}
    assert shares == {"/a": 0.5, "/b": 0.25}
    assert families["bookie_seconds"].type == "histogram"
    times = {(sample.name, sample.labels.get("le")): sample.value for sample in families["bookie_seconds"].samples}
    assert times == {
        ("bookie_seconds_bucket", "0.1"): 2,
        ("bookie_seconds_bucket", "1.0"): 2,
        ("bookie_seconds_bucket", "+Inf"): 7,
        ("bookie_seconds_count", None): 7,
        ("bookie_seconds_sum", None): 17.5,
    }
    assert "process_open_fds" in families


def test_another_path_is_told_where_the_page_is() -> None:
    answer = asyncio.run(metrics.page(told)(HttpRequest("GET", "/")))

    assert (answer.status, answer.body) == (404, b"there is /metrics\n")

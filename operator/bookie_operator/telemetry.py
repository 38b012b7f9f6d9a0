"""What the operator can count: its passes, its calls to the API server, and what each cluster's status says.

Read when somebody scrapes. A cluster's figures are those of the last pass; a process that does not lead has none.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from bookie_operator.model.cluster import ClusterRef
from bookie_operator.model.status import BookieClusterStatus

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
_PREFIX = "bookie_operator"
_PASS_BOUNDS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_CONDITION_STATUSES = ("True", "False", "Unknown")
_OF_CLUSTER = ("namespace", "cluster")


class Telemetry(Collector):
    """Counts since the process began, and the newest status of each cluster."""

    def __init__(self) -> None:
        self._statuses: dict[tuple[str, str], BookieClusterStatus] = {}
        self._refused: dict[tuple[str, str], str] = {}  # whose clusters we leave alone
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._pass_buckets = [0] * (len(_PASS_BOUNDS_S) + 1)
        self._pass_seconds = 0.0

    def status(self, cluster: ClusterRef, status: BookieClusterStatus) -> None:
        """Note what a pass says of `cluster`."""
        self._statuses[(cluster.namespace, cluster.name)] = status

    def forget(self, namespace: str, name: str) -> None:
        """Drop the figures of a cluster that is gone: stale ones would look like a fleet in order."""
        self._statuses.pop((namespace, name), None)
        self._refused.pop((namespace, name), None)

    def refused(self, namespace: str, name: str, owner: str) -> None:
        """Note that another operator keeps a cluster that this one finds too; "" = it does not."""
        self._refused.pop((namespace, name), None)
        if owner:
            self.forget(namespace, name)
            self._refused[(namespace, name)] = owner

    def request(self, verb: str, kind: str, code: int) -> None:
        """Note one call to the API server. `code`: the HTTP status; 0 = there was no answer."""
        self._requests[(verb, kind, str(code))] += 1

    def passed(self, seconds: float) -> None:
        """Note one pass over one cluster."""
        self._pass_seconds += seconds
        self._pass_buckets[sum(seconds > bound for bound in _PASS_BOUNDS_S)] += 1

    def collect(self) -> Iterator[Family]:
        """Yield all figures (the interface of a collector of prometheus_client)."""
        yield self._calls()
        yield self._pass_times()
        refused = GaugeMetricFamily(
            f"{_PREFIX}_clusters_refused",
            "1 for each cluster that another operator keeps",
            labels=(*_OF_CLUSTER, "owner"),
        )
        for cluster, owner in self._refused.items():
            refused.add_metric((*cluster, owner), 1.0)
        yield refused
        for name, text, labels, read in _GAUGES:
            family = GaugeMetricFamily(f"{_PREFIX}_{name}", text, labels=(*_OF_CLUSTER, *labels))
            for cluster, status in self._statuses.items():
                for more, value in read(status):
                    family.add_metric((*cluster, *more), value)
            yield family

    def _calls(self) -> CounterMetricFamily:
        family = CounterMetricFamily(
            f"{_PREFIX}_api_requests", "Calls to the API server (code 0: no answer)", labels=("verb", "kind", "code")
        )
        for values, count in self._requests.items():
            family.add_metric(values, count)
        return family

    def _pass_times(self) -> HistogramMetricFamily:
        family = HistogramMetricFamily(f"{_PREFIX}_pass_seconds", "How long a pass over one cluster took")
        below = 0
        buckets = []
        for bound, count in zip((*map(str, _PASS_BOUNDS_S), "+Inf"), self._pass_buckets, strict=True):
            below += count
            buckets.append((bound, float(below)))
        family.add_metric((), buckets, self._pass_seconds)
        return family


Values = Iterator[tuple[tuple[str, ...], float]]


def _conditions(status: BookieClusterStatus) -> Values:
    for condition in status.conditions:
        for word in _CONDITION_STATUSES:
            yield (condition.type, word), float(condition.status == word)


def _reasons(status: BookieClusterStatus) -> Values:
    for condition in status.conditions:
        if condition.status == "True":
            yield (condition.type, condition.reason), 1.0


def _bookies(status: BookieClusterStatus) -> Values:
    for state, count in Counter(entry.state for entry in status.bookies).items():
        yield (state,), float(count)


def _gates(status: BookieClusterStatus) -> Values:
    for name, count in Counter(gate.name for entry in status.bookies for gate in entry.gates).items():
        yield (name,), float(count)


def _budget(status: BookieClusterStatus) -> Values:
    if status.budget is not None:
        yield ("dataless",), float(status.budget.dataless)
        yield ("unavailable",), float(status.budget.unavailable)
        yield ("unseen",), float(status.budget.unseen)
        yield ("tolerance",), float(status.budget.tolerance)


def _repairs(status: BookieClusterStatus) -> Values:
    for entry in status.bookies:
        if entry.progress is not None and entry.state in ("Fencing", "Stamping", "Repairing", "Limbo"):
            yield (entry.name, "entries_copied"), float(entry.progress.entries)
            yield (entry.name, "bytes_copied"), float(entry.progress.bytes)
            yield (entry.name, "entries_pending"), float(entry.progress.entries_pending)
            yield (entry.name, "blocked_ledgers"), float(entry.progress.blocked_ledgers)


def _rollout(status: BookieClusterStatus) -> Values:
    if status.rollout is not None:
        yield ("desired",), float(status.rollout.desired)
        yield ("updated",), float(status.rollout.updated)


def _orphans(status: BookieClusterStatus) -> Values:
    yield (), float(len(status.orphans))


def _regenerations(status: BookieClusterStatus) -> Values:
    for result, count in Counter(entry.result for entry in status.history).items():
        yield (result,), float(count)


def _size(status: BookieClusterStatus) -> Values:
    yield (), float(len(json.dumps(status.dump())))


_GAUGES: tuple[tuple[str, str, tuple[str, ...], Callable[[BookieClusterStatus], Values]], ...] = (
    ("cluster_condition", "1 for the status that each condition has", ("type", "status"), _conditions),
    ("cluster_reason", "1 for the reason of each condition that is True", ("type", "reason"), _reasons),
    ("bookies", "Bookies of the spec, by state", ("state",), _bookies),
    ("gates_closed", "Bookies that wait at a closed gate", ("gate",), _gates),
    ("budget", "How many bookies may be away, and how many are", ("what",), _budget),
    ("repair", "How far each bookie is that repairs itself", ("bookie", "what"), _repairs),
    ("rollout_bookies", "Bookies of the spec, and those that run what it says", ("what",), _rollout),
    ("orphans", "Bookies that the spec does not ask for and that may hold data", (), _orphans),
    ("regenerations_recent", "Regenerations that the status remembers, by result", ("result",), _regenerations),
    ("status_bytes", "Size of the status", (), _size),
)

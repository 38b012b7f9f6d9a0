"""An operator that dies right after its first write, then after its second, and so on up to some number, and again.

Its container runs it in a loop in which each life ends without warning right after so many writes to the API server or
to a bookie (`BOOKIE_OPERATOR_CRASH_AFTER`). A life begins with a status, in which its lease's new epoch stands, unless
there are claims to mark; so lives of one write die between a promise and its deed, those of two between a deed and the
next promise: between any two writes that a heal consists of. A bookie that stops in an orderly way needs lives of
three: each life hears from it anew, after its own status, that it has flushed, before it deletes its pod. A status
that says that a bookie may be evicted needs lives of five: a new leader shuts the budget, says so, has the bookie
flush, opens the budget, and says so. The loop stands in for the kubelet, whose back-off between restarts would only
make a test longer.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import kube_setup
import kube_tools

_AFTER_WRITES = """
writes=1
while true; do
  life=$(mktemp -d)
  TMPDIR=$life BOOKIE_OPERATOR_CRASH_AFTER=$writes bookie-operator run --watch-namespace={namespace}
  test -e $life/bookie-operator-crashed-after-$writes && echo "the operator died after $writes writes"
  rm -rf $life
  writes=$((writes % {writes_max} + 1))
done
"""

_AFTER_SECONDS = """
while true; do
  timeout --signal=KILL {seconds} bookie-operator run --watch-namespace={namespace}
  echo "the operator died after {seconds} seconds"
done
"""


def dying_after_every_write(*, writes_max: int = 5) -> contextlib.AbstractContextManager[Callable[[], int]]:
    """While the body runs, the operator dies so; gives how often it did."""
    return _dying(_AFTER_WRITES.format(namespace=kube_setup.NAMESPACE, writes_max=writes_max))


def dying_every(seconds: int) -> contextlib.AbstractContextManager[Callable[[], int]]:
    """While the body runs, the operator is killed so many seconds after each of its starts, wherever it is; gives how
    often it was. For what takes many lives of few writes each: whoever is down most of the time hears no kubelet's last
    word of a pod, and has to wait for other proofs."""
    return _dying(_AFTER_SECONDS.format(namespace=kube_setup.NAMESPACE, seconds=seconds))


@contextlib.contextmanager
def _dying(loop: str) -> Iterator[Callable[[], int]]:
    container: dict[str, Any] = {"name": "operator", "command": ["sh", "-c", loop], "args": []}
    # It is down most of the time, by design: probes would only kill the loop.
    container |= {"startupProbe": None, "livenessProbe": None, "readinessProbe": None}
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [container]}}}})
    deployment = f"deployment/{kube_setup.OPERATOR_RELEASE}"
    _kubectl("patch", deployment, "--type=strategic", "--patch", patch)
    _kubectl("rollout", "status", deployment, "--timeout=180s")
    try:
        yield lambda: _kubectl("logs", deployment, "--tail=-1").count("the operator died after ")
    finally:
        kube_setup.install_operator()


def _kubectl(*words: str) -> str:
    return kube_tools.kubectl("--namespace", kube_setup.OPERATOR_NAMESPACE, *words)

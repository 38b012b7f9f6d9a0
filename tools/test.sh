#!/bin/sh
# `make test`: everything, in the order in which it is quickest to be wrong. What a Kubernetes is made of (minutes, where
# nobody built it yet) and the images are made meanwhile at a low priority: the second part waits for sockets and disks
# half of its time. The third is alone on the machine: it measures CPU, and a Kubernetes wants both cores.
set -eu
cd "$(dirname "$0")/.."

pytest=".venv/bin/python -m pytest -q --durations=15"
built="$(mktemp)"
setsid .venv/bin/python tests/cluster/cluster.py prepare >"$built" 2>&1 &
building=$!
ended() {
  kill -- "-$building" 2>/dev/null || true
  rm -f "$built"
}
trap ended EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

$pytest -n auto --slow-share=4 tests/tidy tests/unit tests/simulation
$pytest -n auto --dist loadfile --no-loadscope-reorder tests/integration tests/interop --ignore=tests/interop/test_speed.py
# Whatever stopped it stops the tests that want a cluster too, and they say it again in their own words.
wait "$building" || tail -n 5 "$built"
$pytest tests/interop/test_speed.py tests/e2e

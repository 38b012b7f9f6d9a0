#!/bin/sh
# `make test`: everything. What measures CPU comes first, alone on the machine. The tests on a Kubernetes, which wait most
# of their time, go on beside the rest: beside the part that needs no clock and gives way to them, as far as they come.
# That begins with what a cluster is made of (minutes, where nobody built it yet) and with the images. The attacker's ten
# minutes are mostly waits as well, and come behind those tests: in a part of its own it would be what all wait for.
# The cluster goes as soon as nobody needs it: at rest it takes a third of a core from all that follows.
# Of the lives under the operator each commit runs others: one in 96 of the slow ones, one in three of the 600 others.
# The operator's death after every write of a heal waits seven minutes more, and is `make e2e`'s: tests/simulation has it.
set -eu
cd "$(dirname "$0")/.."

pytest=".venv/bin/python -m pytest -q --durations=15"
$pytest tests/interop/test_speed.py

told="$(mktemp)"
# Whatever stops `prepare` stops the tests that want a cluster, too, and they say it again in their own words.
attack=tests/integration/soak/test_attack.py
setsid sh -c ".venv/bin/python tests/cluster/cluster.py prepare || true
  held=0; $pytest tests/e2e --ignore=tests/e2e/test_operator_crash.py || held=\$?
  .venv/bin/python tests/cluster/cluster.py down || true
  $pytest $attack || held=\$?; exit \$held" >"$told" 2>&1 &
beside=$!
ended() {
  kill -- "-$beside" 2>/dev/null || true
  rm -f "$told"
}
trap ended EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

nice -n 10 $pytest -n auto --slow-share=96 --lives-share=3 tests/tidy tests/unit tests/simulation
# One worker more than there are cores: other processes are waited for much.
$pytest -n "$(($(nproc) + 1))" --dist loadfile --no-loadscope-reorder tests/integration tests/interop \
  --ignore=tests/interop/test_speed.py --ignore="$attack"
held=0
wait "$beside" || held=$?
cat "$told"
exit "$held"

# Each target is one line that calls a tool. Newcomers: `make demo`, then `make test`.
SHELL := /bin/sh
VENV := .venv/bin
PYTEST := $(VENV)/python -m pytest -q
SOURCES := bookie operator/bookie_operator spark/pyspark_bookkeeper
# Tests start hundreds of processes of ours: where this is set, each compiles its sources anew (a fifth of such a test).
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo test check format lint types contracts unit simulation model campaign integration interop e2e fuzz soak attack mutants bench bench-against bench-growth bench-operator bench-recovery bench-spark proto crds image cluster cluster-images cluster-down

help:  ## what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install:  ## a .venv with everything
	@tools/install.sh

demo: install  ## the main job before your eyes: a bookie loses its volumes and the fleet heals itself (CLUSTER=none|existing, KEEP=0)
	@$(VENV)/python demo/demo.py

test: install lint types contracts  ## everything, of the lives of a fleet one in 96 of the slow and one in three of the others, by lot, and no cluster afterwards; what CI runs
	@tools/test.sh

check: install format lint types contracts  ## what a newcomer runs all day: all tests beside a change, one in twenty of the other quick ones
	@$(PYTEST) -n auto -m "not slow" --share=20 tests/tidy tests/unit tests/simulation

format: install  ## formatting is as ruff writes it
	@$(VENV)/ruff format --check .

lint: install  ## ruff's rules
	@$(VENV)/ruff check .

types: install  ## mypy, strict
	@$(VENV)/mypy

contracts: install  ## the import contracts
	@$(VENV)/lint-imports 2>&1 | tail -n 25

unit: install  ## pure tests
	@$(PYTEST) -n auto tests/tidy tests/unit

simulation: install  ## a short simulation on fresh seeds (SLOW=1: the slow ones too, all of them)
	@$(PYTEST) -n auto tests/simulation $(if $(SLOW),,-m "not slow")

model: install  ## every state of the model of BP-46, in its large spaces too, and the story of a loss for each rule taken away
	@$(VENV)/python -m bookie.sim.model --large

campaign: install  ## simulated seeds with a record that the next start goes on with; ends with what was never reached (SEED=0 SEEDS=100000 JOBS=2 RECORD=folder)
	@mkdir -p $(or $(RECORD),campaign)
	@seq $(or $(JOBS),2) | xargs -P $(or $(JOBS),2) -I '{}' $(VENV)/python -m bookie.sim $(or $(SEED),0) --seeds $(or $(SEEDS),1000) \
		--campaign $(or $(RECORD),campaign)/'{}'-of-$(or $(JOBS),2) --part '{}'/$(or $(JOBS),2) --commit $$(git rev-parse --short HEAD)
	@$(VENV)/python -m bookie.sim --report $(or $(RECORD),campaign)/*-of-*

integration: install  ## real sockets, disks, ZooKeeper
	@$(PYTEST) tests/integration

interop: install  ## the official Java BookKeeper against ours
	@$(PYTEST) tests/interop

e2e: install  ## the operator, the charts and the image on a real Kubernetes, then every scenario of a fleet's life (DIES=1: its operator dies after every write, DIES=45: every 45 seconds)
	@$(PYTEST) tests/e2e
	@$(PYTEST) --durations=0 tests/nightly

fuzz: install  ## every reader of bytes that others wrote, under hostile ones (FUZZ_SECONDS=600, all together; SEED=)
	@$(VENV)/python tests/fuzz/fuzz.py --seconds $(or $(FUZZ_SECONDS),600) $(if $(SEED),--seed $(SEED))

soak: install  ## hostile clients, kill -9 of real bookies under load, also of Java's beside ours, every fault of a machine, the storage engine under power cuts (ROUNDS=200 MIXED=40 FAULTS=60 SEEDS=500 SEED=, ONLY=faults for those alone)
	@$(VENV)/python tests/soak/soak.py $(foreach one,$(ONLY),--only $(one)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(MIXED),--mixed $(MIXED)) $(if $(FAULTS),--faults $(FAULTS)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SEED),--seed $(SEED))

attack: install  ## a stateful attacker over every port of a living bookie, judged for safety and for cost (SECONDS_MAX=600 FRAMES= SEED=)
	@$(VENV)/python tests/soak/attack.py --seconds $(or $(SECONDS_MAX),600) $(if $(FRAMES),--frames $(FRAMES)) $(if $(SEED),--seed $(SEED))

mutants: install  ## rules broken on purpose, one at a time: their tests must go red (ONLY='P17 bookie/quorum', CHANGED=a commit, JSON=1, JOBS=2)
	@$(VENV)/python tests/mutants/make_mutants.py $(ONLY) $(if $(CHANGED),--changed $(CHANGED)) $(if $(JSON),--json) --jobs $(or $(JOBS),2)

bench: install  ## ratios against the official Java bookie, measured in one run (WRITE_DOCS=1: into docs/BENCHMARKS.md)
	@$(VENV)/python tests/bench/bench.py $(if $(WRITE_DOCS),--write-docs)

bench-against: install  ## our bookie beside our bookie of another commit, in one run; red below 0.95 (COMMIT=)
	@$(VENV)/python tests/bench/bench.py --against $(or $(COMMIT),HEAD~1)

bench-growth: install  ## how cost grows with connections, ledgers, entry size, index size (WRITE_DOCS=1)
	@$(VENV)/python tests/bench/bench.py growth $(if $(WRITE_DOCS),--write-docs)

bench-recovery: install  ## a lost bookie's copies, by our auto-recovery beside the official one (LEDGERS=2000 ENTRIES=3 SIZE=1024 ROUNDS=2)
	@$(VENV)/python tests/bench/bench_recovery.py --ledgers $(or $(LEDGERS),2000) --entries $(or $(ENTRIES),3) --size $(or $(SIZE),1024) --rounds $(or $(ROUNDS),2)

bench-spark: install  ## Spark beside a plain loop of our client, the audit beside an anti-join, each in one run
	@$(VENV)/python tests/bench/bench_spark.py && $(VENV)/python tests/bench/bench_audit.py

bench-operator: install  ## 50 fleets of 12 bookies on a real API server: passes, calls and memory of the operator (CLUSTERS=50 REST=300)
	@$(VENV)/python tests/bench/bench_operator.py --clusters $(or $(CLUSTERS),50) --seconds $(or $(REST),300)

proto: install  ## generated modules from the .proto texts
	@tools/proto.sh

crds: install  ## crds/ and the CRD chart from the model, the page's reasons from their table
	@$(VENV)/bookie-operator crds --output crds --output charts/bookie-operator-crds/templates
	@$(VENV)/python tools/operator_page.py
	@$(VENV)/python tools/dashboards.py

image: install  ## the container image
	@$(VENV)/python tests/cluster/cluster.py image

cluster: install  ## this checkout's Kubernetes
	@$(VENV)/python tests/cluster/cluster.py up

cluster-images: install  ## the images, built and brought to every node of this checkout's Kubernetes
	@$(VENV)/python tests/cluster/cluster.py load-all

cluster-down: install  ## removes what `cluster` and `demo` started, and nothing else
	@$(VENV)/python tests/cluster/cluster.py down

# The whole developer interface. `make run` starts Holdfast, `make test` proves it.

PYTHON ?= # the one to make .venv from; empty: scripts/pick_python.py chooses
UV ?= uv
BIN := .venv/bin
READY := .venv/.ready
SPARK := .venv-spark/bin
SPARK_READY := .venv-spark/.ready
OLD_SPARK := .venv-spark-4.2
OLD_PYSPARK := 4.2.1 # the oldest release that is tested; all else is as in requirements-spark.lock

# Some machines forbid Python to keep what it has compiled. Then each of the 500 servers and commands that tests start
# would compile Holdfast again, which takes a third of its start.
export PYTHONDONTWRITEBYTECODE :=

# Where `make compile` puts the package with its hot modules compiled; empty when that is not newer than the source.
COMPILED := $(CURDIR)/build/compiled
FAST = $$(test -e $(COMPILED)/.ready \
	&& test -z "$$(find src '(' -name '*.py' -o -name '*.[ch]' ')' -newer $(COMPILED)/.ready -print -quit)" \
	&& echo $(COMPILED))

# Where the simulator is compiled, if `make compile-sim` was there since the source changed; else here.
SIM = cd "$$($(BIN)/python -m tests.sim.compiled)" && $(CURDIR)/$(BIN)/python -m

SIM_SECONDS ?= 60
SEEDS ?= 100
FIRST ?= 0
HOURS ?= 1000
KIND ?=  # of simulation: host or cluster; empty: both by turns
MUTANTS ?= 4
TESTERS ?= 4  # processes of tests; many of them wait for servers
# Tracing makes tests of the core take more than twice as long, so only those that are there to cover it are traced.
MEASURED := tests/core tests/scenarios tests/managers tests/federation
# Those that take longest begin first: at the end, no core waits for the last file.
SLOW := tests/process tests/compat tests/sim
QUICK := $(filter-out $(MEASURED) $(SLOW) tests/pipeline tests/__pycache__,$(patsubst %/.,%,$(wildcard tests/*/.))) \
	$(wildcard tests/test_*.py)
FUZZ ?= 1000000
FUZZ_SEED ?= holdfast
MODEL ?=
CUTS ?= 100
TWINS ?= 40
# Real servers, compiled. Tests that make limits smaller cannot be among them: compiled limits are fixed.
COMPILED_TESTS := tests/process/test_server.py tests/process/test_durability.py tests/process/test_workers.py \
	tests/process/test_query.py tests/process/test_admission.py \
	tests/compat/test_message_contract.py tests/compat/test_queue_contract.py tests/compat/test_dead_letter_contract.py

.DEFAULT_GOAL := help
.PHONY: help setup setup-spark setup-compat run compile compile-sim test test-sim test-compiled test-compiled-sim check fmt \
	static unit sim sim-timed sim-long mutants model cuts fuzz bench bench-quick bench-peers bench-core bench-pipeline \
	pipeline-demo test-spark test-on-spark test-off-spark test-spark-full lock lock-spark

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 14

setup: $(READY) ## make .venv from requirements.lock; does nothing when nothing changed

# A virtual environment, $(1), with the versions of a lock, $(2), and the project itself. It is built with the locked
# hatchling, so that only the lock decides what is installed.
define environment
@set -e; python=$(1)/bin/python; \
	test -x $$python || python="$(PYTHON)"; \
	test -n "$$python" || python=$$(python3 scripts/pick_python.py || echo python3); \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Holdfast needs Python 3.11 or later, and '$$python' is not. Remove $(1) if there is one, and try:" \
			"make setup PYTHON=python3.12" >&2; exit 1; }; \
	if command -v $(UV) >/dev/null 2>&1; then \
		test -x $(1)/bin/python || $(UV) venv --quiet --python "$$("$$python" -c 'import sys; print(sys.executable)')" $(1); \
		install="$(UV) pip install --quiet --python $(1)/bin/python"; \
	else \
		test -x $(1)/bin/python || "$$python" -m venv --without-pip $(1); \
		$(1)/bin/python -m pip --version >/dev/null 2>&1 || $(1)/bin/python -m ensurepip --upgrade >/dev/null 2>&1 || \
			python3 -m pip --python $(1)/bin/python install --quiet --disable-pip-version-check pip; \
		install="$(1)/bin/python -m pip install --quiet --disable-pip-version-check"; \
	fi; \
	set -x; \
	$$install -r $(2); \
	$$install --no-deps --no-build-isolation -e .
@touch $@
endef

$(READY): pyproject.toml requirements.lock
	$(call environment,.venv,requirements.lock)

setup-spark: $(SPARK_READY) ## make .venv-spark, the same with Spark beside it; 1 GB, and only the pipeline needs it

$(SPARK_READY): pyproject.toml requirements-spark.lock
	$(call environment,.venv-spark,requirements-spark.lock)

$(OLD_SPARK)/.ready: pyproject.toml requirements-spark-4.2.lock # by `make test-spark-full`
	$(call environment,$(OLD_SPARK),requirements-spark-4.2.lock)

setup-compat: setup # foreign clients, each in its own environment in the user's cache folder; tests do it too
	$(BIN)/python -m tests.compat.environments

run: setup ## serve SQS on 127.0.0.1:9324, messages in ./data
	@PYTHONPATH=$(FAST) $(BIN)/holdfast serve --data ./data --listen 127.0.0.1:9324

compile: setup ## compile the hot modules for `make run` and `make bench`; minutes, needs a C compiler
	@$(BIN)/python scripts/can_compile.py
	@rm -rf build/wheel $(COMPILED)
	HOLDFAST_COMPILED=1 $(BIN)/python -m hatchling build -t wheel -d build/wheel
	$(BIN)/python -m zipfile -e build/wheel/*.whl $(COMPILED)
	@touch $(COMPILED)/.ready

compile-sim: setup ## compile core and simulator for `make sim` and `make sim-long`; minutes, needs a C compiler
	@$(BIN)/python scripts/can_compile.py
	$(BIN)/python -m scripts.compile_sim

pipeline-demo: setup-spark ## a made-up day through the pipeline: usage, bills, alerts; prints the path of its page
	$(SPARK)/holdfast pipeline demo

check: setup ## everything quick: format, lint, types, imports, unit tests, all beside a minute of simulation
	$(MAKE) --no-print-directory -j3 static unit sim-timed

test: setup ## everything: all tests, coverage of the core, simulation, a sample of mutants
	$(MAKE) --no-print-directory -j2 static setup-spark
	$(BIN)/python -m pytest -n 2 --dist worksteal $(MEASURED) --cov
	$(BIN)/python -m pytest -n $(TESTERS) --dist loadfile --no-loadscope-reorder $(SLOW) $(QUICK)
	$(MAKE) --no-print-directory -j2 test-spark test-sim

test-sim: setup
	$(BIN)/python -m tests.sim --seconds $(SIM_SECONDS) $(addprefix --kind ,$(KIND))
	$(BIN)/python -m tests.sim.mutants --sample $(MUTANTS)
	$(BIN)/python -m tests.fuzz --count 100000

test-spark: setup-spark ## the pipeline's tests; without Java those on Spark are skipped, loudly
	$(MAKE) --no-print-directory -j2 test-on-spark test-off-spark

test-on-spark: setup-spark # in one process: a second session would cost more than it saves
	$(SPARK)/python -m pytest tests/pipeline/on_spark

test-off-spark: setup-spark
	$(SPARK)/python -m pytest tests/pipeline --ignore tests/pipeline/on_spark

test-spark-full: setup-spark $(OLD_SPARK)/.ready ## also every kill, clusters of three kinds, and Spark 4.2; ten minutes
	HOLDFAST_SPARK_TESTS=full $(SPARK)/python -m pytest -n 2 --dist loadfile tests/pipeline
	HOLDFAST_SPARK_TESTS=old $(OLD_SPARK)/bin/python -m pytest -n 2 --dist loadfile tests/pipeline/on_spark

test-compiled: setup ## the compiled package does what the source does; skipped where there is no C compiler
	@if $(BIN)/python scripts/can_compile.py; then \
		test -n "$(FAST)" || $(MAKE) --no-print-directory compile && \
		$(BIN)/python -m tests.sim.twins --compiled $(COMPILED) --seeds $(TWINS) && \
		PYTHONPATH=$(COMPILED) $(BIN)/python -m pytest -n 2 --dist loadfile $(COMPILED_TESTS); \
	else \
		echo "NOT TESTED: the compiled package"; \
	fi

test-compiled-sim: setup ## the compiled simulator does what its source does, hosts and clusters of TWINS seeds
	@if $(BIN)/python scripts/can_compile.py; then \
		test "$$($(BIN)/python -m tests.sim.compiled)" != "$(CURDIR)" || $(MAKE) --no-print-directory compile-sim && \
		$(BIN)/python -m tests.sim.twins --compiled build/compiled-sim --seeds $(TWINS); \
	else \
		echo "NOT TESTED: the compiled simulator"; \
	fi

fmt: setup ## format, and fix what can be fixed
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

static: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

unit: setup
	$(BIN)/python -m pytest -n 2 --dist worksteal $(MEASURED) $(QUICK)

sim-timed: setup # in one process: the unit tests beside it have the other core
	$(BIN)/python -m tests.sim --seconds $(SIM_SECONDS) --jobs 1 $(addprefix --kind ,$(KIND))

sim: setup ## simulate SEEDS seeds, beginning with FIRST
	$(SIM) tests.sim --seeds $(SEEDS) --first $(FIRST) $(addprefix --kind ,$(KIND))

sim-long: setup ## simulate whole days of clusters, HOURS hours
	$(SIM) tests.sim.long --hours $(HOURS) --first $(FIRST) --write $(CURDIR)/build/sim-long.txt

mutants: setup ## weaken the core in every listed way; the simulator has to notice each
	$(BIN)/python -m tests.sim.mutants

model: setup ## search the replication protocol itself, and each of its weakenings; MODEL=--help tells what else
	$(BIN)/python -m tests.model $(MODEL)

cuts: setup ## cut the power of a real server under load, CUTS times
	$(BIN)/python -m tests.process.cuts --cuts $(CUTS)

fuzz: setup ## try FUZZ changed requests against signatures, and streams against HTTP; FUZZ_SEED chooses others
	$(BIN)/python -m tests.fuzz --count $(FUZZ) --seed $(FUZZ_SEED)

bench: setup ## measure Holdfast, compiled where that can be, beside its peers; half an hour, writes docs/PERFORMANCE.md
	@test -n "$(FAST)" || $(MAKE) --no-print-directory compile || true
	@PYTHONPATH=$(FAST) $(BIN)/python -m bench

bench-quick: setup ## the same, a look of two minutes that changes no file of the repository
	@PYTHONPATH=$(FAST) $(BIN)/python -m bench --quick

bench-peers: setup ## fetch the peers into the user's cache folder; what cannot be had is left out
	$(BIN)/python -m bench.peers.install

bench-core: setup ## measure the core alone, and what counting costs
	@PYTHONPATH=$(FAST) $(BIN)/python -m bench.core
	@PYTHONPATH=$(FAST) $(BIN)/python -m bench.usage

bench-pipeline: setup-spark ## measure the ledger: a month of usage, in and rolled up; writes bench/results/pipeline.md
	$(SPARK)/python -m bench.pipeline --write

lock: ## choose all versions anew; needs uv
	@{ echo "# Exact versions of everything, for any platform. Written by \`make lock\` from pyproject.toml."; \
	$(UV) pip compile pyproject.toml --extra dev --upgrade --universal --python-version 3.11 \
		--no-header --no-emit-index-url --quiet; } > requirements.lock.new && mv requirements.lock.new requirements.lock
	@$(MAKE) --no-print-directory lock-spark

lock-spark: # the same versions, and those of the extra `spark` beside them
	@{ echo "# requirements.lock with the extra \`spark\`. Written by \`make lock\` from pyproject.toml."; \
	$(UV) pip compile pyproject.toml --extra dev --extra spark --extra spark-connect --constraint requirements.lock --universal \
		--python-version 3.11 --no-header --no-emit-index-url --quiet; } > requirements-spark.lock.new \
		&& mv requirements-spark.lock.new requirements-spark.lock
	@sed -e '1s/.*/# requirements-spark.lock with the oldest Spark that is supported. Written by `make lock`./' \
		-e 's/^pyspark==.*/pyspark==$(strip $(OLD_PYSPARK))/' requirements-spark.lock > requirements-spark-4.2.lock

# Two commands matter: `make run` shows the product, `make test` proves it. Both set themselves up.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
CLASSES := .venv/spark-classes.jsa
# Test files run side by side: most of their time is waiting, so there are more workers than cores. Those of `make prove`
# start Apache Kafka and Spark each, and are fewer.
WORKERS ?= 5
PROVERS ?= 3
BESIDE := --dist loadfile --no-loadscope-reorder
PURE := tests/assignors tests/consumer_groups tests/member tests/property tests/regex tests/security tests/simulate \
  tests/spec tests/transcripts tests/wire tests/zookeeper/protocol tests/test_documents.py tests/test_rules.py \
  tests/test_style.py
# Beside them, what draws examples or seeds: `make soak` has all of them.
HUNTS := tests/log tests/incremental tests/consumer_guests tests/broker/test_frames_fuzz.py
.DEFAULT_GOAL := run
# Compiled files are kept: otherwise each worker and each child of a test compiles tests and product anew.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: run test check prove lint format bench soak lock java kafka clean setup

setup: $(STAMP)

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Equipoise needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q src proving bench
	@$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' .venv/lib || true  # pip would do it on one core, tests too
	@touch $@

# JVMs of Spark in tests start with half of the CPU time, or as ever where the file cannot be made. Beside it the tests
# are compiled: without that, each worker compiles all of them.
$(CLASSES): $(STAMP)
	@$(BIN)/python -m pytest --collect-only -qq > .venv/collected.log 2>&1 & \
	$(BIN)/python -m proving.spark_classes > $(CLASSES).log 2>&1 || echo "Spark's JVMs start slowly: see $(CLASSES).log"; \
	wait

run: $(STAMP)
	@home=$$(tools/java-home) && JAVA_HOME=$$home $(BIN)/equipoise demo

test: $(STAMP) $(CLASSES)
	@tools/foreign-clients
	$(BIN)/python -m pytest -rs -m "not soak and not kafka" -n $(WORKERS) $(BESIDE)

# What needs no socket and no Spark: the pure cores, the wire, transcripts and documents.
check: $(STAMP)
	$(BIN)/python -m pytest -m "not soak and not kafka" -n 3 $(BESIDE) $(PURE)

# The same questions put to Apache Kafka and to us. Only files that have such tests are read: the others cost each
# worker ten seconds.
prove: kafka $(CLASSES)
	@tools/foreign-clients
	$(BIN)/python -m pytest -rs -m "kafka and not soak" -n $(PROVERS) $(BESIDE) \
	  $$(grep -rl --include='test_*.py' 'mark\.kafka' tests)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python -m bench broker
	$(BIN)/python -m bench coordinator
	$(BIN)/python -m bench assignors
	$(BIN)/python -m bench consumer
	$(BIN)/python -m bench producer
	$(BIN)/python -m bench transactions
	$(BIN)/python -m bench handover
	$(BIN)/python -m bench generations
	$(BIN)/python -m bench history
	$(BIN)/python -m bench spark
	$(BIN)/python -m bench first-batch
	$(BIN)/python -m bench scale

soak: $(STAMP) $(CLASSES)
	@tools/foreign-clients
	$(BIN)/python -m pytest -m soak
	EQUIPOISE_NEW_EXAMPLES=1 $(BIN)/python -m pytest -m "not soak and not kafka" -n 2 --dist loadfile $(PURE) $(HUNTS)

# Where Spark and ZooKeeper will find Java: the machine's own, or one brought from a wheel.
java: $(STAMP)
	@tools/java-home

# Apache Kafka, its Java clients and tools, and Spark's connector, from Maven Central into a cache.
kafka: $(STAMP)
	@tools/maven
	@$(BIN)/python -m proving.fetched

# Renews the pins after a change of pyproject.toml. No index address is written into the file.
lock:
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	.venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-header --all-extras --group dev pyproject.toml --output-file requirements.lock
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock build dist

# Each target does its own set-up; `make` alone lists them.
#
#   PYTHON=python3.12 make setup     another interpreter for the virtual environment
#   make test ARGS='tests/sinks -x'  other arguments for pytest; WORKERS=0 in one process
#   make bench ONLY=capture          one group of measurements
#   make soak MINUTES=60             the long tests for an hour
#   make lock UPGRADE=1              newest versions in the lock, instead of keeping those that fit

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?= tests
WORKERS ?= 2 # each has a Spark and PostgreSQL servers of its own
export PYTHON
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test test-services bench soak check format docs dist lock clean system-demo system-test

help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: system-test $(STAMP) ## everything that the other targets need

demo: system-demo $(STAMP) ## a live replication from PostgreSQL to DuckDB, compared at the end (about 60 s)
	$(BIN)/pgsluice demo

test: system-test $(STAMP) ## all tests, against real servers and a real Spark
	$(BIN)/pytest -q --numprocesses $(WORKERS) --dist worksteal -m 'not services' $(ARGS)

test-services: system-test $(STAMP) ## the tests that start further servers: a Spark cluster, those of the benchmarks
	$(BIN)/pytest -q -m services $(ARGS)

bench: system-test $(STAMP) ## measure speed and size; ONLY=group for one group
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

soak: system-test $(STAMP) ## the long tests; MINUTES=60 for how long
	PGSLUICE_SOAK_MINUTES=$(or $(MINUTES),10) $(BIN)/pytest -q tests/soak

check: $(STAMP) ## lint, types, layers, generated pages, documentation, lock
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	set -e; for generator in tools/generate_*.py; do $(BIN)/python $$generator --check; done
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tools/check_constraints.py

format: $(STAMP) ## format the code and write the generated pages
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .
	set -e; for generator in tools/generate_*.py; do $(BIN)/python $$generator; done

docs: $(STAMP) ## serve the documentation on localhost
	$(BIN)/mkdocs serve

dist: $(STAMP) ## wheel and source archive in dist/
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .

lock: $(STAMP) ## write constraints.txt again from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --group dev --all-extras --universal --python-version 3.11 \
	  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet \
	  $(if $(UPGRADE),--upgrade) --output-file constraints.txt >/dev/null
	$(BIN)/python tools/check_constraints.py

clean: ## remove what the targets above made, the virtual environment too
	rm -rf $(VENV) dist site .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

system-demo:
	@tools/setup.sh python java

system-test:
	@tools/setup.sh python java postgres

# Made again when the dependencies or the lock change. The lock is complete, so it is installed as it is;
# the package itself is then built by the back end that came with it, without downloading another one.
$(STAMP): pyproject.toml constraints.txt
	@tools/setup.sh python
	test -x $(BIN)/pip || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt pip
	$(BIN)/python -m pip install --quiet --requirement constraints.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	$(BIN)/python -m pip check
	@touch $@

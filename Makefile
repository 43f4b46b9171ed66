# Two commands on a fresh machine: `make run` and `make test`. Both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run run-frameworks test test-slow test-long fuzz faults setup setup-jax setup-tensorflow setup-dask lint web bundle bench pictures schemas clean

run: setup  ## measure this machine, repeat the paper's studies on it, write the report
	$(BIN)/timeroof machine --quick
	$(BIN)/timeroof study conv2d lstm --pass forward --factor all --quick --fresh --overlay paper --out out/study

run-frameworks: setup-jax setup-tensorflow  ## the paper's comparison: PyTorch, JAX and TensorFlow on one page
	$(BIN)/timeroof machine --quick
	$(BIN)/timeroof study conv2d lstm --framework torch,jax,tensorflow --quick --fresh --overlay paper --out out/frameworks

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("timeroof needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip -c constraints.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

setup-jax: setup  ## JAX beside PyTorch; its tests skip without it
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[jax]'

setup-dask: setup  ## Dask, for many machines; its tests skip without it
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dask]'

setup-tensorflow: setup  ## TensorFlow beside PyTorch; its tests skip without it
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[tensorflow]'

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tools/*.py
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest -m "not slow and not long" -n auto --dist loadfile --cov --cov-report=
	$(BIN)/coverage report --include='src/timeroof/core/*,src/timeroof/model/*' --fail-under=95

test-slow: setup  ## tests of whole programs and studies that take seconds each; CI runs them, too
	$(BIN)/python -m pytest -m "slow and not long" -n auto --dist loadfile

FUZZ_MINUTES ?= 60
FUZZ_JOBS ?= 2
fuzz: setup  ## mutated files through every reader for FUZZ_MINUTES, each different from the last run's; prints what its log has in all
	seq $(FUZZ_JOBS) | POLARS_MAX_THREADS=1 xargs -P $(FUZZ_JOBS) -I{} $(BIN)/python -m tests.fuzz.test_structure --minutes $(FUZZ_MINUTES)
	$(BIN)/python -m tests.fuzz.test_structure --sum

FAULTS ?= 3
faults: setup  ## signals, kills, full disks, limits and hostile programs, at FAULTS moments each
	TIMEROOF_FAULTS=$(FAULTS) $(BIN)/python -m pytest tests/faults

test-long: setup  ## tests that take longer still
	$(BIN)/python -m pytest -m long

# Node is a development tool: the bundles of web/src are committed, and only a change of it needs them.
web/node_modules: web/package.json web/package-lock.json
	cd web && npm ci --silent --no-audit --no-fund
	@touch $@

web: web/node_modules  ## check the pages' scripts: is the committed bundle their build, eslint, tsc
	cd web && npm run --silent check

bundle: web/node_modules  ## build the bundles that the pages carry anew
	cd web && npm run --silent build

bench: setup
	for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

pictures: setup  ## make the pictures of README and docs anew (needs chromium)
	$(BIN)/python tools/pictures.py

schemas: setup  ## write docs/schemas and docs/findings.md anew from the code
	$(BIN)/python tools/write_docs.py

clean:
	rm -rf $(VENV) out .coverage .hypothesis .mypy_cache .ruff_cache .pytest_cache

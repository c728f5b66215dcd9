# Two commands matter: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= .venv-extras
PIP    := -m pip install -q --disable-pip-version-check
# Exact versions, of the build tools too: a fresh machine gets what passed here. `make constraints` renews them.
EXACT  := $(PIP) -c constraints.txt --no-build-isolation
# What make test-chaos may take; GFS_LOAD=full needs more.
CHAOS_SECONDS ?= 1200

.PHONY: help demo test lint test-only test-slow test-extras test-package test-versions live-binaries test-live test-chaos test-records live-demo reproduce-quick audit docs web build constraints bench bench-live clean
.DEFAULT_GOAL := help

help:            ## what can be made here
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 17

$(VENV)/.core: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "GFS needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing GFS into $(VENV) ..."
	@$(BIN)/python $(PIP) -c constraints.txt setuptools
	@$(BIN)/python $(EXACT) -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(BIN)/python $(EXACT) -e '.[dev,live]'
	@touch $@

$(VENV)/.docs: $(VENV)/.core
	@$(BIN)/python $(EXACT) -e '.[docs]'
	@touch $@

demo: $(VENV)/.core   ## install GFS and compare its schedulers on a small cluster (under a minute)
	@$(BIN)/gfs demo --out demo-output

test: lint test-only  ## install everything, lint, run the tests

test-only: $(VENV)/.dev
	@$(BIN)/python -m pytest -n auto

test-slow: $(VENV)/.dev  ## the tests that take minutes: every scheduler on whole traces
	@$(BIN)/python -m pytest -n auto -m slow

lint: $(VENV)/.dev    ## ruff, mypy --strict, import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# In an environment of its own, so that `make test` shows that the core needs none of the heavy packages.
# The networks' packages join them where a CPU build of torch can be had: see tests/extras/find_torch.py.
$(EXTRAS)/.done: pyproject.toml constraints.txt
	@test -x $(EXTRAS)/bin/python || $(PYTHON) -m venv $(EXTRAS)
	@echo "Installing GFS with its extras into $(EXTRAS) ..."
	@$(EXTRAS)/bin/python $(PIP) -c constraints.txt setuptools
	@$(EXTRAS)/bin/python $(EXACT) -e '.[dev,lightgbm,notebook,ray]'
	@touch $@

test-extras: $(EXTRAS)/.done  ## install the heavy extras too and run the tests that need them
	@$(EXTRAS)/bin/python tests/extras/find_torch.py
	@$(EXTRAS)/bin/python -m pytest tests/extras tests/property/test_forecast_conformance.py -n auto

test-package: $(VENV)/.dev  ## build wheel and sdist, install the wheel in an environment of its own, run the demo there
	@$(BIN)/python -m pytest tests/package

test-versions:         ## unit tests and golden runs with the oldest and the newest packages that pyproject.toml allows
	@$(PYTHON) tests/package/try_versions.py

live-binaries: $(VENV)/.dev  ## etcd, Kubernetes and KWOK for the bench, into a cache: found, fetched or built from source (minutes, once)
	@$(BIN)/python -m gfs.live.bench.binaries

live-demo: live-binaries  ## GFS on a real control plane on loopback: a synthetic day in a few minutes
	@$(BIN)/gfs live demo --out live-demo-output

test-live: live-binaries  ## the tests that need the bench: a real API server on loopback
	@$(BIN)/python -m pytest tests/integration/live || { echo "What failed, once more:"; $(BIN)/python -m pytest --last-failed tests/integration/live; }

test-records: $(VENV)/.dev  ## records of other systems, made by the real ones: Slurm and Prometheus (from Debian's packages where root may)
	@$(BIN)/python -m pytest -rs tests/integration/records

test-chaos: live-binaries  ## faults at random moments (GFS_CHAOS_SEED=N: others) and load on the bench (GFS_LOAD=full: 20,000 pods); CHAOS_SECONDS=1200 at most
	@timeout -k 60 $(CHAOS_SECONDS) sh -c '$(BIN)/python -m pytest tests/chaos || { echo "What failed, once more:"; $(BIN)/python -m pytest --last-failed tests/chaos; }' || { test $$? != 124 || echo "not done after $(CHAOS_SECONDS) s"; exit 1; }

reproduce-quick: $(VENV)/.dev  ## the paper's tables and figures on small clusters, opened in a browser if there is one
	@$(BIN)/gfs reproduce --quick --out build/reproduce-quick
	@GFS_REPORT=build/reproduce-quick/report.html $(BIN)/python -m pytest -q tests/e2e/test_report_in_a_browser.py

docs: $(VENV)/.docs    ## the documentation as a site in build/site; a broken link or anchor is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@! grep -rlE '(src|<link[^>]*href)="?(https?:)?//' build/site --include=*.html || { echo "these pages fetch from elsewhere"; exit 1; }
	@echo "The site: open build/site/index.html in a browser."

web: web/node_modules/.package-lock.json  ## bundle the web page (web/) into the package; needs Node and npm
	@cd web && npm run --silent check && npm run --silent build

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@cd web && npm ci --silent
	@touch $@

audit:                 ## whether a version in constraints.txt has a known vulnerability (pip-audit; asks PyPI's advisories)
	@$(PYTHON) tests/package/audit.py

build: $(VENV)/.dev    ## wheel and sdist, in dist/
	@$(BIN)/python -m build --no-isolation

constraints:           ## renew constraints.txt: the newest versions that pyproject.toml allows. Then run make test
	@rm -rf build/constraints && $(PYTHON) -m venv build/constraints
	@build/constraints/bin/python $(PIP) -U setuptools -e '.[dev,docs,lightgbm,live,notebook,ray]'
	@sed -n '/^#/p' constraints.txt > build/constraints.txt
	@build/constraints/bin/python -m pip freeze --all --exclude pip --exclude gfs --exclude-editable >> build/constraints.txt
	@mv build/constraints.txt constraints.txt

bench: $(VENV)/.dev   ## speed, as ratios against anchors measured in the same run; FULL=1: the heavy points too
	@$(BIN)/python benchmarks/run.py $(if $(FULL),--full --picture docs/images/curve.svg) --out benchmarks/latest.json

bench-live: live-binaries  ## GFS against kube-scheduler on the bench, about 16 minutes; one race: RACE="--only burst"
	@$(BIN)/python benchmarks/live.py --out benchmarks/latest-live.json $(RACE)

clean:           ## remove the virtual environment and everything generated
	@rm -rf $(VENV) $(EXTRAS) build dist demo-output live-demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

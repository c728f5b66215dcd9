# Two commands matter: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= .venv-extras
PIP    := -m pip install -q --disable-pip-version-check
# Exact versions, of the build tools too: a fresh machine gets what passed here. `make constraints` renews them.
EXACT  := $(PIP) -c constraints.txt --no-build-isolation
PYTEST := pytest -n auto --dist worksteal

.PHONY: help demo test test-fast test-all lint test-slow test-pages test-extras test-package test-versions live-binaries test-live test-chaos test-records live-demo live-bench reproduce-quick audit docs web build constraints bench bench-live mutants clean
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

test: lint       ## install everything, lint, run all tests that need only Python and make (at most 8 minutes on two cores)
	@$(BIN)/python -m $(PYTEST)

test-fast: $(VENV)/.dev  ## unit tests and golden runs (at most 2 minutes on two cores)
	@$(BIN)/python -m $(PYTEST) tests/unit tests/golden

test-all:        ## everything, as continuous integration runs it (at most 45 minutes on two cores, the bench's programs built)
	@bash .ci/run

test-slow: $(VENV)/.dev  ## the tests that take minutes: every scheduler on whole traces
	@$(BIN)/python -m $(PYTEST) -m slow

lint: $(VENV)/.dev    ## ruff, mypy --strict, import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# In an environment of its own, so that `make test` shows that the core needs none of the heavy packages.
# torch joins them if the disk has room for the build that pip finds: see tests/extras/install_torch.py.
$(EXTRAS)/.done: pyproject.toml constraints.txt
	@test -x $(EXTRAS)/bin/python || $(PYTHON) -m venv $(EXTRAS)
	@echo "Installing GFS with its extras into $(EXTRAS) ..."
	@$(EXTRAS)/bin/python $(PIP) -c constraints.txt setuptools
	@$(EXTRAS)/bin/python $(EXACT) -e '.[dev,lightgbm,notebook,ray]'
	@touch $@

# axe-core, which judges whether everybody can use the pages, comes with npm.
test-pages: reproduce-quick  ## pages and reports in Chromium (from Debian's packages where root may)
	@$(BIN)/python tests/needs.py chromium
	@! command -v npm >/dev/null || $(MAKE) --no-print-directory web/node_modules/.package-lock.json
	@GFS_REPORT=build/reproduce-quick/report.html $(BIN)/python -m $(PYTEST) tests/pages

test-extras: $(EXTRAS)/.done  ## install the heavy extras too and run the tests that need them
	@$(EXTRAS)/bin/python tests/extras/install_torch.py
	@$(EXTRAS)/bin/python -m $(PYTEST) -m extra tests/extras tests/property/test_forecast_conformance.py

test-package: $(VENV)/.dev  ## build wheel and sdist, install the wheel in an environment of its own, run the demo there
	@$(BIN)/python -m pytest tests/package

test-versions:         ## unit tests and golden runs with the oldest and the newest packages that pyproject.toml allows
	@$(PYTHON) tests/package/try_versions.py

# The bench is no part of the package. No shell is between make and Python, so that signals reach the bench.
live-binaries live-demo live-bench: export PYTHONPATH := tools$(if $(PYTHONPATH),:$(PYTHONPATH))

live-binaries: $(VENV)/.dev  ## etcd, Kubernetes and KWOK for the bench, into a cache: found, fetched or built from source (minutes, once)
	@$(BIN)/python -m bench.binaries

live-demo: live-binaries  ## GFS on a real control plane on loopback: a synthetic day in a few minutes; other options: DEMO="--force --set quota=none"
	@$(BIN)/python -m bench.demo --out live-demo-output $(DEMO)

live-bench: live-binaries  ## a real control plane on loopback with simulated GPU nodes, until Ctrl-C; other nodes: BENCH="--nodes 10 --gpus 4"
	@$(BIN)/python -m bench $(BENCH)

test-live: live-binaries  ## the tests that need the bench: a real API server on loopback
	@$(BIN)/python tests/needs.py chromium openssl
	@$(BIN)/python -m pytest tests/integration/live

test-records: $(VENV)/.dev  ## records of other systems, made by the real ones: Slurm and Prometheus (from Debian's packages where root may)
	@$(BIN)/python tests/needs.py slurm prometheus
	@$(BIN)/python -m pytest tests/integration/records

test-chaos: live-binaries  ## faults at random moments (GFS_CHAOS_SEED=N: others) and load on the bench (GFS_LOAD=full: 20,000 pods)
	@$(BIN)/python -m pytest tests/chaos

reproduce-quick: $(VENV)/.dev  ## the paper's tables and figures on small clusters
	@$(BIN)/gfs reproduce --quick --out build/reproduce-quick

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
	@build/constraints/bin/python $(PIP) -U setuptools -e '.[baselines,dev,docs,lightgbm,live,notebook,ray]'
	@sed -n '/^#/p' constraints.txt > build/constraints.txt
	@build/constraints/bin/python -m pip freeze --all --exclude pip --exclude gfs --exclude-editable >> build/constraints.txt
	@grep -vE '^(torch=|triton|nvidia|cuda)' build/constraints.txt > constraints.txt  # which build of torch is open

bench: $(VENV)/.dev   ## speed, as ratios against anchors measured in the same run; FULL=1: the heavy points too
	@$(BIN)/python benchmarks/run.py $(if $(FULL),--full --picture docs/images/curve.svg) --out benchmarks/latest.json

bench-live: live-binaries  ## GFS against kube-scheduler on the bench, about 16 minutes; one race: RACE="--only burst"
	@$(BIN)/python benchmarks/live.py --out benchmarks/latest-live.json $(RACE)

mutants: $(VENV)/.dev  ## whether the tests notice small faults: a sample of 220 changed sources; MUTANTS="--seed 7 --sample 50 --only src/gfs/quota"
	@PYTHONHASHSEED=0 $(BIN)/python tests/mutants/run.py $(MUTANTS)

clean:           ## remove the virtual environment and everything generated
	@rm -rf $(VENV) $(EXTRAS) build dist demo-output live-demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Two commands matter: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
EXTRAS ?= .venv-extras

.PHONY: help demo test lint test-only test-slow test-extras reproduce-quick bench clean
.DEFAULT_GOAL := help

help:            ## what can be made here
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(VENV)/.core: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "GFS needs Python 3.11 or newer; set PYTHON=/path/to/python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing GFS into $(VENV) ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.core
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
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
$(EXTRAS)/.done: pyproject.toml
	@test -x $(EXTRAS)/bin/python || $(PYTHON) -m venv $(EXTRAS)
	@echo "Installing GFS with its extras into $(EXTRAS) ..."
	@$(EXTRAS)/bin/python -m pip install -q --disable-pip-version-check -e '.[dev,lightgbm,ray]'
	@touch $@

test-extras: $(EXTRAS)/.done  ## install the heavy extras too and run the tests that need them
	@$(EXTRAS)/bin/python tests/extras/find_torch.py
	@$(EXTRAS)/bin/python -m pytest tests/extras tests/property/test_forecast_conformance.py -n auto

reproduce-quick: $(VENV)/.dev  ## the paper's tables and figures on small clusters, opened in a browser if there is one
	@$(BIN)/gfs reproduce --quick --out build/reproduce-quick
	@GFS_REPORT=build/reproduce-quick/report.html $(BIN)/python -m pytest -q tests/e2e/test_report_in_a_browser.py

bench: $(VENV)/.dev   ## speed, as ratios against anchors measured in the same run; FULL=1: the heavy points too
	@$(BIN)/python benchmarks/run.py $(if $(FULL),--full --picture docs/images/curve.svg) --out benchmarks/latest.json

clean:           ## remove the virtual environment and everything generated
	@rm -rf $(VENV) $(EXTRAS) build demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Two commands matter: `make demo` and `make test`. Each sets up everything it needs.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.PHONY: help demo test lint test-only bench clean
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

lint: $(VENV)/.dev    ## ruff, mypy --strict, import layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(VENV)/.dev   ## speed, as ratios against anchors measured in the same run
	@$(BIN)/python benchmarks/run.py --out benchmarks/latest.json

clean:           ## remove the virtual environment and everything generated
	@rm -rf $(VENV) build demo-output .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

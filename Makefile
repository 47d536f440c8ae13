# On a machine with only Python 3.11 or newer and make: `make demo`, `make test`.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
SHELL := /bin/bash

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
RECENT := import sys; sys.exit(sys.version_info < (3, 11))

.PHONY: help demo test test-sglang lint format bench wheel clean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*##/  make \1 \t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

demo: $(STAMP)  ## judge an incident-shaped data set, then a good one
	@BIN=$(BIN) bash examples/demo.sh

test: $(STAMP)  ## all tests
	@$(BIN)/python -m pytest $(ARGS)

test-sglang: $(STAMP)  ## the tests with a real SGLang server on the CPU (an environment of its own, some 7 GB)
	@$(BIN)/python tests/sglang/install.py .venv-sglang
	@DFLASH_GUARD_SGLANG=$(CURDIR)/.venv-sglang/bin/python $(BIN)/python -m pytest tests/sglang -n 0 $(ARGS)

lint: $(STAMP)  ## style, types and import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: $(STAMP)  ## put the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP)  ## measure check against what people would write themselves (about 8 minutes, 8 GB of disk)
	@$(BIN)/python -m benchmarks.check --write docs/benchmarks.md

wheel: $(STAMP)  ## dist/*.whl and dist/*.tar.gz
	@$(BIN)/python -m pip install --quiet build
	@$(BIN)/python -m build --outdir dist .

clean:  ## remove what was built, the environment included
	rm -rf $(VENV) .venv-sglang dist build demo-data test-output .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Only pyproject.toml says what to install, so only a change of it installs again.
$(STAMP): pyproject.toml
	@for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	  if command -v $$python >/dev/null && $$python -c '$(RECENT)' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "error: no Python 3.11 or newer was found (tried python3, python3.14 … python3.11)." >&2; \
	  echo "hint: install one, for example 'apt-get install python3.11 python3.11-venv'." >&2; exit 2; \
	fi; \
	if ! { $(BIN)/python -c '$(RECENT)' && $(BIN)/python -m pip --version; } >/dev/null 2>&1; then \
	  echo "setting up $(VENV) with $$found"; \
	  $$found -m venv $(VENV) || { echo "error: $$found cannot make a virtual environment." >&2; rm -rf $(VENV); \
	    echo "hint: on Debian and Ubuntu its venv module is a package of its own: apt-get install $$found-venv" >&2; exit 2; }; \
	fi
	@echo "installing dflash-guard and its test tools (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --compile --disable-pip-version-check -e '.[test]'
	@$(BIN)/python -m compileall -q dflash_guard
	@touch $@

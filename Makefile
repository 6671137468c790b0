# The doors of the repository: `make demo` and `make test` each do their own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for processes about a quarter of their time: one worker more than cores fills that.
WORKERS ?= $(shell expr $$(nproc) + 1)

.PHONY: help setup demo test check format bench docs lock clean

help: ## say what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(VENV)/.ready: requirements/dev.txt requirements/sample.txt pyproject.toml scripts/setup.sh
	@scripts/setup.sh requirements/dev.txt $(VENV)
	@SKIP_PROJECT=1 scripts/setup.sh requirements/sample.txt $(VENV)/sample  # the pytest of projects that tests make
	@touch $@

setup: $(VENV)/.ready ## create .venv from the hashed lock file

demo: $(VENV)/.ready ## run the main job on a bundled sample project
	@$(BIN)/reflectloop demo

test: $(VENV)/.ready ## run the whole suite
	@$(BIN)/python -m compileall -q -x /sample/ src/reflectloop  # tests start the program some sixty times
	@$(BIN)/python -m pytest -q -n $(WORKERS)

check: $(VENV)/.ready ## format, lint, types, layers, generated files, links, names
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/generate.py --check
	@$(BIN)/python scripts/check_links.py
	@$(BIN)/python scripts/house.py --check >/dev/null

format: $(VENV)/.ready ## format and fix what can be fixed
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

docs: $(VENV)/.ready ## write what is generated from code: schemas, code table, command reference
	@$(BIN)/python scripts/generate.py

bench: $(VENV)/.ready ## measure against peers and floors; writes docs/benchmarks.md
	@$(BIN)/python -m bench

proof-%: $(VENV)/.ready ## run a long proof by hand; writes docs/proof/NAME.md
	@$(BIN)/python -m proof.$*

lock: ## compile the hashed lock files again (needs uv)
	uv pip compile -q --upgrade --universal --generate-hashes --no-header --python-version 3.11 pyproject.toml -o requirements/base.txt
	uv pip compile -q --upgrade --universal --generate-hashes --no-header --python-version 3.11 --extra dev pyproject.toml -o requirements/dev.txt
	echo pytest | uv pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11 -c <(grep -vE '^ +(--hash|#)' requirements/dev.txt | sed 's/ .$$//') - -o requirements/sample.txt

clean: ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

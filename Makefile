# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: run test test-all lint docs check format clean

run: .venv/core  ## train the control variate against plain ES, show the comparison
	$(BIN)/python examples/compare.py

test: .venv/dev  ## the tests, without the slow ones
	$(BIN)/pytest --numprocesses 2 --dist worksteal

test-all: .venv/dev  ## all tests, the slow ones too
	$(BIN)/pytest --numprocesses 2 --dist worksteal -m "slow or not slow"

lint: .venv/dev  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: .venv/dev  ## the documentation, into site/; needs no network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

check: lint docs test  ## what CI asks for

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "quell needs Python 3.11 or newer; say which: make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/core: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing quell (about a minute) ..."
	$(INSTALL) '.[plot,report,video]'
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml constraints.txt
	@echo "installing quell with everything the tests need (two minutes or so) ..."
	$(INSTALL) '.[dev]'
	@touch $@

clean:
	rm -rf site .venv .mypy_cache .pytest_cache .ruff_cache

# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
DEPENDENCIES := $(INSTALL) --require-hashes --requirement
QUELL := $(INSTALL) --no-deps --no-build-isolation --editable .
PINS := printf 'hatchling\neditables\n' | uv pip compile pyproject.toml - --universal --python-version 3.11.5 --generate-hashes \
	--no-annotate --no-strip-extras --quiet $(UPGRADE)

VERSION := -c 'import sys; print("%d.%d" % sys.version_info[:2])'
ifneq ($(origin PYTHON),file)  # it was asked for, and is not to be another in silence
ifneq ($(wildcard .venv/bin/python),)
ifneq ($(shell $(PYTHON) $(VERSION)),$(shell .venv/bin/python $(VERSION)))
ifneq ($(MAKECMDGOALS),clean)
$(error .venv has Python $(shell .venv/bin/python $(VERSION)), not $(PYTHON): make clean, then again)
endif
endif
endif
endif

.PHONY: run test test-all lint docs check format pins clean

run: .venv/core  ## train the default beside TRPO and ES, show the comparison
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

.venv/core: .venv/bin/python pyproject.toml requirements/core.txt
	@echo "installing quell (about a minute) ..."
	$(DEPENDENCIES) requirements/core.txt
	$(QUELL)
	@touch $@

.venv/dev: .venv/bin/python pyproject.toml requirements/dev.txt
	@echo "installing quell with everything the tests need (two minutes or so) ..."
	$(DEPENDENCIES) requirements/dev.txt
	$(QUELL)
	@touch $@

pins: export UV_CUSTOM_COMPILE_COMMAND = make pins
pins:  ## constraints.txt and requirements/ after pyproject.toml has changed; `make pins UPGRADE=--upgrade`: newest versions
	$(PINS) --extra dev --output-file requirements/dev.txt
	echo "# Exact versions that are known to work together; written by: make pins" > constraints.txt
	sed -n 's/\[.*\]==/==/; s/^\([a-z].*[^ ]\) *\\$$/\1/p' requirements/dev.txt >> constraints.txt  # constraints have no extras
	$(PINS) --extra plot --extra report --extra video --constraint constraints.txt --output-file requirements/core.txt

clean:
	rm -rf site .venv .mypy_cache .pytest_cache .ruff_cache

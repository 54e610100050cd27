# Every target sets itself up: the first call makes .venv, later calls start at once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
SHELL  := /bin/bash

.PHONY: help install demo test fuzz bench lint format docs dist clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(READY)  ## make .venv and install equipoise with its development tools

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)  ## find what varies, match, train with random and with balanced batches
	$(BIN)/equipoise demo $(ARGS)

test: lint  ## lint, type check, all tests
	@# a process for each core, one thread in each: small tensors gain nothing from more
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto $(ARGS)

fuzz: $(READY)  ## 50,000 bad inputs: none may end in a raw exception, a hang or a crash
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.fuzz $(ARGS)

bench: $(READY)  ## print the speed ratios
	$(BIN)/python -m benchmarks $(ARGS)

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)  ## let ruff repair and format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)  ## build the site into site/; a broken link or reference fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet $(ARGS)

dist: $(READY)  ## build sdist and wheel, check them, try the wheel in a fresh environment
	rm -rf dist build/fresh
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/fresh
	build/fresh/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	cd build && fresh/bin/python -W error::DeprecationWarning:equipoise ../examples/five_lines.py
	build/fresh/bin/pip check
	@! grep -q example.org pyproject.toml || echo "warning: do not upload yet: pyproject.toml \
	names no repository, see RELEASING.md"

clean:  ## remove the virtual environment and every cache
	rm -rf $(VENV) build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis

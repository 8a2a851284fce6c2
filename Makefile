# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow coverage faults lint types bench dist docs clean

help:
	@echo "make demo       install into .venv and run the demonstration on embedded data"
	@echo "make test       install into .venv and run lint, types, import layers and the tests"
	@echo "make test-slow  run the tests of whole pipelines"
	@echo "make coverage   run all tests and print the line coverage"
	@echo "make faults     plant 82 faults and count those that the tests find (about 20 minutes)"
	@echo "make bench      install the peers into .venv-peers and run the benchmarks (long)"
	@echo "make dist       build wheel and sdist into dist/"
	@echo "make docs       build the documentation"

# The stamps are younger than what they were made from, so a second call installs nothing.
$(VENV)/.run: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.dev: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev,arviz,control,data,distributed]"
	@touch $@

$(VENV)/.docs: $(VENV)/.run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs,control]"
	@touch $@

demo: $(VENV)/.run
	$(BIN)/cavity demo

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks

types: $(VENV)/.dev
	$(BIN)/mypy

PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test: lint types
	$(PYTEST) -m "not slow" --durations=60 --durations-min=1

test-slow: $(VENV)/.dev
	$(PYTEST) -m slow

coverage: $(VENV)/.dev
	$(PYTEST) --cov=cavity --cov-report=term:skip-covered --cov-fail-under=90

faults: $(VENV)/.dev
	$(BIN)/python tests/planted_faults.py --jobs 2

.venv-peers/.run: benchmarks/peers.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	@touch $@

bench: $(VENV)/.dev .venv-peers/.run
	$(BIN)/python -m benchmarks all

dist: $(VENV)/.dev
	$(BIN)/python -m build --outdir dist

docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) .venv-peers dist docs/_build docs/api docs/gallery .mypy_cache .ruff_cache .pytest_cache

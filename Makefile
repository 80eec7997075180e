# Two commands: "make demo" shows it, "make test" proves it. Everything is installed into .venv, from the two locks.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check
# Which Python makes the venv; only looked for when one has to be made.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$python" && break; done)

# A stamp is named after what was installed, so that an unchanged venv costs one checksum and no Python at all.
# The clone's own path is part of it, because the scripts of a venv hold it.
digest = $(shell { cat $(1); echo '$(CURDIR)'; } | sha256sum | cut -c1-16)
LOCKED  := $(VENV)/.locked-$(call digest,requirements-build.lock requirements.lock)
DOCS    := $(VENV)/.docs-$(call digest,requirements-docs.lock)
PROJECT := $(VENV)/.project-$(call digest,pyproject.toml requirements-build.lock)

ARGS ?=
# local, compose (containers) or external; if not said: see "tidemark up --help".
BACKEND ?=
ifneq ($(BACKEND),)
export TIDEMARK_BACKEND := $(BACKEND)
endif

# An end-to-end test waits for processes to start and to end: two at a time leave two cores idle meanwhile, three do not.
# Who runs out of tests takes over half of what another has left, so that neighbours stay together and share what their
# module has started.
SIDE_BY_SIDE ?= -n 3 --dist worksteal

# The script of the picture in report.html; where it was not built, pages are static and say so.
VIEW := tidemark/reports/page/bundle/view.js

.PHONY: help venv view up down demo smoke test long mutants evidence histories matrix fuzz chaos soak versions upgrades tickets shrunk sparks lint bench docs pictures lock clean

help: ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 14
	@echo '  Arguments are passed on: make test ARGS="-k late". Without make: .venv/bin/tidemark --help'

venv: $(LOCKED) $(PROJECT) ## install what is locked into .venv (every other target does it first)
	@! command -v npm >/dev/null || $(MAKE) -s $(VIEW) || echo 'venv: warning: without the picture in report.html' >&2

view: ## build the picture of a run in report.html (needs Node 20 or newer; make venv does it where npm is)
	@command -v npm >/dev/null || { echo 'error: no npm on PATH; on Debian: apt-get install npm' >&2; exit 4; }
	@$(MAKE) -s $(VIEW)

# Built in a copy, so that no packages lie beside the code; what npm installs is checked against view/package-lock.json.
$(VIEW): $(wildcard view/*) view/.npmrc
	@rm -rf build/view && mkdir -p build && cp -R view build/view
	@cd build/view && npm ci --silent --ignore-scripts && node build.js '$(CURDIR)/$(dir $(VIEW))'

$(LOCKED):
	@[ -n "$(PYTHON)" ] || { echo 'error: no Python 3.11 or newer on PATH; name one: make PYTHON=/path/to/python3' >&2; exit 4; }
	@if [ -e $(VENV)/.home ] && ! grep -qxF '$(CURDIR)' $(VENV)/.home; then rm -rf $(VENV); fi  # the clone was moved
	@if [ ! -x $(BIN)/python ]; then \
		echo 'venv: new in $(VENV), with $(PYTHON)'; \
		$(PYTHON) -m venv --clear $(VENV) || { \
			echo 'error: Python has no venv module; on Debian: apt-get install python3-venv' >&2; exit 4; }; \
		echo '$(CURDIR)' > $(VENV)/.home; \
	fi
	@rm -f $(VENV)/.locked-*
	@echo 'venv: installing what requirements.lock names (1 to 3 minutes: Spark alone is 450 MB)'
	@$(PIP) install --quiet --require-hashes -r requirements-build.lock
	@$(PIP) install --quiet --require-hashes --no-build-isolation -r requirements.lock
	@touch $@

$(PROJECT): $(LOCKED)
	@rm -f $(VENV)/.project-*
	@$(PIP) install --quiet --no-index --no-deps --no-build-isolation --editable .
	@touch $@

up: venv ## start broker, Spark master, workers and driver; they live until "make down"
	@$(BIN)/tidemark up $(ARGS)
	@command -v pytest >/dev/null || echo 'No pytest on this PATH; type: $(BIN)/pytest'

down: ## stop them
	@if [ -x $(BIN)/tidemark ]; then $(BIN)/tidemark down $(ARGS); fi

demo: venv ## 20,000 impressions through a left outer join, three executors killed, judged
	@$(BIN)/tidemark run left_outer --impressions 20000 --kill-executors 3 $(ARGS)

smoke: venv ## the tier for every save: unit, repository, a judged run of each join, the sink, a stack by hand
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m smoke $(ARGS)

test: venv ## the whole suite but "long"
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(ARGS)

long: venv ## the matrix, all mutants and what else is not for every day, part after part; writes tests/results/LONG.md
	@$(BIN)/python -m tests.long $(ARGS) -- $(SIDE_BY_SIDE)

matrix: venv ## every join under every bound on every state, some 500 runs; writes tests/results/JOINS.md
	@$(BIN)/python -m tests.matrix $(ARGS)

fuzz: venv ## 1,000 random joins, traces and restarts; writes tests/results/FUZZ.md
	@$(BIN)/tidemark fuzz --seeds 1000 --keep-going --markdown tests/results/FUZZ.md $(ARGS)

chaos: venv ## the chaos tests of every day, twenty times in a row; writes tests/results/AGAIN.md
	@$(BIN)/python -m tests.chaos $(ARGS) -- $(SIDE_BY_SIDE)

soak: venv ## 30 minutes of runs under faults, one after the other; writes tests/results/SOAK.md
	@$(BIN)/tidemark soak --minutes 30 --seed 1 --impressions 40000 --faults 24 --markdown tests/results/SOAK.md $(ARGS)

versions: venv ## the known defects of Spark on 3.5.7, 4.0.5, 4.1.4, 4.2.0 and 4.3.0 (450 MB each, once): spark_bugs/README.md
	@$(BIN)/tidemark versions --markdown spark_bugs/README.md $(ARGS)

upgrades: venv ## joins that go on under a newer Spark, on each state, judged; some two hours; writes tests/results/UPGRADES.md
	@$(BIN)/python -m tests.upgrades $(ARGS)

shrunk: venv ## what `tidemark shrink` makes of known red runs; writes tests/results/SHRUNK.md
	@$(BIN)/python -m tests.shrunk $(ARGS)

tickets: venv ## the program of each ticket on each Spark and Kafka, some 20 minutes; writes spark_bugs/tickets
	@$(BIN)/python -m tests.spark_tickets $(ARGS)

sparks: venv ## 120 cells of the matrix and 300 random joins on each other Spark; writes tests/results/SPARKS.md
	@$(BIN)/python -m tests.other_sparks $(ARGS)

mutants: venv ## every mutant past three judges; writes tests/results/SCORE.md
	@$(BIN)/python -m tests.mutants $(SIDE_BY_SIDE) $(ARGS)

evidence: venv ## 6,000 damages to the evidence of real runs, each judged; writes tests/results/EVIDENCE.md
	@$(BIN)/python -m tests.evidence $(ARGS)

histories: venv ## 20,000 random histories: the oracles of a join agree on each; writes tests/results/HISTORIES.md
	@$(BIN)/python -m tests.histories $(ARGS)

lint: venv ## ruff (rules and format), mypy --strict, import-linter
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --diff --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

bench: venv ## side-by-side measurements: ratios on the screen, JSON in bench/results
	@$(BIN)/python -m bench $(ARGS)

docs: venv $(DOCS) ## the site: docs/ as pages of HTML in build/docs; what refers to nothing fails
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --fresh-env --quiet -c docs -b html $(ARGS) . build/docs
	@echo 'docs: build/docs/index.html'

pictures: venv view ## make the pictures of the documents anew, in docs/images (needs Chromium; on Debian: apt-get install chromium)
	@$(BIN)/python -m docs.pictures $(ARGS)

$(DOCS): $(LOCKED)
	@rm -f $(VENV)/.docs-*
	@$(PIP) install --quiet --require-hashes -r requirements-docs.lock
	@touch $@

lock: venv ## resolve the locks anew (ARGS=--upgrade for newer versions)
	@$(PIP) install --quiet --target build/uv --upgrade uv
	@for lock in 'requirements.lock --universal --all-extras --group dev pyproject.toml' \
		'requirements-build.lock --universal --group build' \
		'requirements-docs.lock --universal --constraint requirements.lock --group docs' \
		'compose/requirements.lock --python-platform linux --constraint requirements.lock --group containers'; do \
		build/uv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-annotate \
			--custom-compile-command 'make lock' $(ARGS) --output-file $$lock; done

clean: ## remove the venv, caches and builds; runs/ and .tidemark/ stay
	@if [ -x $(BIN)/tidemark ]; then $(BIN)/tidemark down; fi
	@rm -rf $(VENV) $(dir $(VIEW)) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# make demo    audits TARGET (default: this project) with a graph of agents, offline, and says where the report is
# make test    checks and tests; CI=1 adds the slow tests
# Both need nothing but make and a Python >= 3.11 with venv; each makes its own environment, once.

PYTHON    ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
               $$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 \
               && { echo $$p; break; }; done)
TARGET    ?= .
REPORT    ?= audit-report.md
DEMO_VENV ?= .venv-demo
TEST_VENV ?= .venv-test
WORKERS   ?= 2
SELECT    ?= $(if $(CI),not benchmark,not benchmark and not slow)
ARGS      ?=

bin := $(TEST_VENV)/bin
EDITOR := tests/flows/editor/node_modules

.DEFAULT_GOAL := help
.PHONY: help demo test nightly check types bench fmt docs cover wheel clean python

help: ## this list
	@echo 'make demo [TARGET=PATH]  audit a folder of Python code (default: this project) and say where the report is'
	@echo 'make test [ARGS=...]     lint, types, arrows, then all tests but benchmarks; CI=1 adds the slow ones'
	@echo 'make nightly             crashes and power cuts, ten times as many as in CI (takes hours)'
	@echo 'make check               the part of it that runs no test'
	@echo 'make bench               the benchmarks, one at a time'
	@echo 'make cover               the tests with a report of what they did not reach'
	@echo 'make fmt                 format, and mend what the linter can mend'
	@echo 'make docs                write the generated pages again and run every example in the docs'
	@echo 'make wheel               build the distribution into dist/'
	@echo 'make clean               remove everything that make made'

demo: $(DEMO_VENV)/.installed
	@$(DEMO_VENV)/bin/callboard run docs/examples/audit/flow.yaml \
	  --arg 'target=$(TARGET)' --arg 'report=$(REPORT)'; status=$$?; \
	if test $$status -eq 3; then status=0; \
	  echo 'The gate rejected what was found: a result of the audit, not a fault of the run.'; fi; \
	if test $$status -eq 0; then echo 'The report is in $(abspath $(REPORT))'; fi; \
	exit $$status

test: check $(EDITOR)/.installed
	$(bin)/python -m pytest -n $(WORKERS) -m '$(SELECT)' $(ARGS)

check: $(TEST_VENV)/.installed
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy
	$(bin)/lint-imports --no-cache

nightly: $(TEST_VENV)/.installed
	CALLBOARD_NIGHTLY=1 $(bin)/python -m pytest -n $(WORKERS) -m nightly $(ARGS)

bench: $(TEST_VENV)/.installed
	$(bin)/python -m pytest -s -m benchmark $(ARGS)

cover: $(TEST_VENV)/.installed
	$(bin)/coverage erase
	$(bin)/coverage run -m pytest -m '$(SELECT)' $(ARGS)
	$(bin)/coverage combine -q
	$(bin)/coverage report

fmt: $(TEST_VENV)/.installed
	$(bin)/ruff check --fix .
	$(bin)/ruff format .

docs: $(TEST_VENV)/.installed
	$(bin)/python -m docs.generate
	$(bin)/python -m pytest tests/docs $(ARGS)

wheel: $(TEST_VENV)/.installed
	$(bin)/python -m hatchling build

clean:
	rm -rf $(DEMO_VENV) $(TEST_VENV) $(EDITOR) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.*

python:
	@test -n '$(PYTHON)' || { \
	  echo 'No Python 3.11 or newer with its venv module was found (tried python3.13, python3.12, python3.11, python3, python).' >&2; \
	  echo 'Install one (on Debian and Ubuntu: apt-get install python3 python3-venv), or name yours: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3' >&2; \
	  exit 1; }

# An environment is made once and again when what it holds changed. hatchling comes from constraints.txt too, so the
# build is not isolated: nothing that is not pinned is downloaded.
$(DEMO_VENV)/.installed: pyproject.toml constraints.txt | python
	@$(call install,$(DEMO_VENV),.)

$(TEST_VENV)/.installed: pyproject.toml constraints.txt | python
	@$(call install,$(TEST_VENV),.[test])

# What editors use for YAML, to see that the schema works there. Where there is no npm, or it cannot be had, the
# test that needs it is skipped and says so.
$(EDITOR)/.installed: tests/flows/editor/package-lock.json
	@mkdir -p '$(EDITOR)'; \
	if ! command -v npm >/dev/null; then echo 'No npm: the test of the schema in an editor is left out'; \
	elif npm ci --silent --no-audit --no-fund --fetch-retries=1 --fetch-timeout=30000 --prefix tests/flows/editor; then touch '$@'; \
	else echo 'npm could not install: the test of the schema in an editor is left out'; fi

define install
set -e; \
echo 'Making $(1) with $(PYTHON) (once; takes about a minute)'; \
'$(1)/bin/python' -c '' 2>/dev/null || '$(PYTHON)' -m venv --clear '$(1)'; \
'$(1)/bin/python' -m pip install --quiet --disable-pip-version-check -c constraints.txt hatchling editables; \
'$(1)/bin/python' -m pip install --quiet --disable-pip-version-check -c constraints.txt --no-build-isolation -e '$(2)'; \
touch '$@'
endef

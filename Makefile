# make demo and make test are the two commands of the README; the others are for developers.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test nightly test-all docs lint

# Tests start many processes: each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

LOG := $(VENV)/install.log
define install
deploy/install $(VENV) $(1) >$(LOG) 2>&1 || { cat $(LOG) >&2; exit 1; }
endef

$(VENV)/.running: deploy/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("vbflows needs Python 3.11 or later, found " + sys.version.split()[0] + "; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo "Installing the packages that vbflows needs into $(VENV), once."
	@$(PYTHON) -m venv $(VENV)
	@$(call install)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . >$(LOG) 2>&1 \
		|| { cat $(LOG) >&2; exit 1; }
	@touch $@

$(VENV)/.installed: $(VENV)/.running
	@echo "Installing the packages that tests and documentation need, once."
	@$(call install,all)
	@$(BIN)/python -m pip check --quiet >$(LOG) 2>&1 || { cat $(LOG) >&2; exit 1; }
	@touch $@

$(VENV)/.compiled: $(VENV)/.running
	@echo "Compiling the kernels of keywords, once (half a minute)."
	@$(BIN)/vbflows compile keywords >$(LOG) 2>&1 || { cat $(LOG) >&2; exit 1; }
	@touch $@

demo: $(VENV)/.compiled
	@$(BIN)/vbflows demo

# Three at a time on two cores: many tests wait for processes. Kernels are compiled first, once.
test: $(VENV)/.installed
	$(BIN)/vbflows compile
	$(BIN)/python -m pytest -n 3 --dist worksteal

# For a job every night: what CI leaves out, but for the slow tests of faults and the calibrations of a
# thousand runs.
nightly: $(VENV)/.installed
	$(BIN)/vbflows compile
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "thorough and not slow"
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest -n 2 --dist worksteal tests/properties
	$(BIN)/python -m pytest -n 2 --dist worksteal --timeout 3600 -m slow tests/contract tests/fuzz -k "not thousand"

# Everything: the tests marked slow or thorough, the documentation's code, models as on another processor.
test-all: $(VENV)/.installed
	$(BIN)/python -m pytest -n 3 --dist worksteal --timeout 3600 -o faulthandler_timeout=4000 -m ""
	$(BIN)/python -m tests.processor -q -n 2 --dist worksteal tests/vbmodels \
		tests/contract/test_contract.py -m "not slow" -k "not partitions and not executors and not calibrated"

# Warnings are errors; the examples are run and their pictures taken.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

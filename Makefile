# The two commands of the README are `make demo` and `make test`; the rest is for developers.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-thorough test-processor test-site test-slow fuzz soak docs reproduce lint lock dist clean

# What running needs, and all of it with tests and documentation: two locks, of which the first is a
# part of the second. Made anew when one changes; the stamp is written last, so a half-made one is
# not taken. What installers say is shown when they fail.
LOG := $(VENV)/install.log
define install
deploy/install $(VENV) $(1) >$(LOG) 2>&1 || { cat $(LOG) >&2; exit 1; }
endef

$(VENV)/.running: deploy/requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("vbflows needs Python 3.11 or later, found " + sys.version.split()[0] + "; set PYTHON=...") if sys.version_info < (3, 11) else None'
	@echo "Installing what vbflows needs to run into $(VENV): $$(grep -c == $<) packages, once."
	@$(PYTHON) -m venv $(VENV)
	@$(call install,$<)
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable . >$(LOG) 2>&1 \
		|| { cat $(LOG) >&2; exit 1; }
	@touch $@

$(VENV)/.installed: requirements.lock $(VENV)/.running
	@echo "Installing what tests and documentation need, too: $$(grep -c == $<) packages in all, once."
	@$(call install,$<)
	@$(BIN)/python -m pip check --quiet >$(LOG) 2>&1 || { cat $(LOG) >&2; exit 1; }
	@touch $@

demo: $(VENV)/.running
	@$(BIN)/vbflows demo

# Three at a time on two cores: many tests wait for processes. Who has done his part takes from the others.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 3 --dist worksteal

# What `make test` leaves to CI, since it takes long: second cases, clusters, samplers.
test-thorough: $(VENV)/.installed
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "thorough and not slow"

# Models and samplers as on another processor: verdicts must not hang on the last bits.
test-processor: $(VENV)/.installed
	$(BIN)/python -m tests.processor -q -n 2 --dist worksteal tests/vbmodels \
		tests/contract/test_contract.py -m "not slow" -k "not partitions and not executors and not calibrated"

# The code blocks of every page, and the site without its executed gallery; warnings are errors.
test-site: $(VENV)/.installed
	$(BIN)/python -m pytest -q -m slow tests/test_docs.py

test-slow: $(VENV)/.installed
	$(BIN)/python -m pytest -m slow --timeout 3600 -o faulthandler_timeout=4000

# Damaged inputs of every kind, replayed and made at random: make fuzz SECONDS=600
SECONDS ?= 600
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --whole --keep --seconds $(SECONDS) $(OPTIONS)

# Kills, stops and full disks on real processes, seeds printed: make soak FAULTS=300
FAULTS ?= 100
soak: $(VENV)/.installed
	$(BIN)/python -m tests.faults.soak --faults $(FAULTS) $(OPTIONS)

# Warnings are errors; the examples are run and their pictures taken.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html

# One table or figure of the papers, ours beside theirs: make reproduce NAME=vbss-table-1.5
NAME ?= all
reproduce: $(VENV)/.installed
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.reproduce $(NAME) $(OPTIONS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One lock for Python 3.11 and later: versions and hashes, no URL; the image's is a part of it, the
# installer's stands by itself.
lock:
	$(PYTHON) -m pip install --quiet uv
	$(PYTHON) -m uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade \
		--quiet --output-file requirements.lock
	$(PYTHON) -m uv pip compile pyproject.toml --extra flows --extra genomics --extra editing --universal \
		--python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header \
		--quiet --constraint requirements.lock --output-file deploy/requirements.lock
	echo uv | $(PYTHON) -m uv pip compile - --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header --upgrade --quiet \
		--output-file deploy/installer.lock

dist: $(VENV)/.installed
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache

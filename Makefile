# `make run` sets everything up and does the main job; `make test` sets up what the tests need and runs them.

PYTHON ?= python3
UV ?= uv
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One dependency ships as source only: it is built by the locked setuptools, not by whichever is newest today.
PIP_INSTALL := $(PIP) install -qq --no-build-isolation --use-pep517 --no-compile
# Bytecode of what was installed, made on all cores: pip takes four times as long. Tests of libraries and what builds them
# need none.
BYTECODE := $(BIN)/python -m compileall -qq -j 0 -x '/(tests?|pip|setuptools|mypyc|lexers)/' $(VENV)/lib || true  # some hold files for other Pythons
COMPILE := $(UV) pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# What test-extras installs.
EXTRAS := rl openspiel ray slurm optuna s3 web docs notebooks
AZURITE := 3.37.0

# Workers share the tests, a file at a time: what a file's tests prepare together is prepared once. Their order is that of
# tests/conftest.py. Two cores have three workers, because tests wait for processes and terminals.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 4 ? n + 1 : 4)))
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder

# Tests start some hundred processes: without bytecode on disk each of them would compile the project's modules anew.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: install run ready rewritten test test-all test-extras test-all-extras test-d3rlpy test-sb3 style lint debian chromium azurite warm bench docs reference lock clean
.DELETE_ON_ERROR:

install: $(VENV)/installed

# The tournament first, because it compiles only what it needs; then what all other commands need.
run: install
	$(BIN)/qarena run experiment=round_robin
	@$(BIN)/qarena warm

test: ready
	$(PYTEST) -n $(WORKERS) -m "not slow and not extras" --durations=5 --durations-min=2

test-all: ready
	$(PYTEST) -n $(WORKERS) -m "not extras"

# What the tests need, at once where that is possible.
ready:
	@$(MAKE) --no-print-directory -j2 debian $(VENV)/installed-dev
	@$(MAKE) --no-print-directory -j3 style warm rewritten

# The first import of a test rewrites its assertions, which takes longer than all else of it: once, not in each worker.
rewritten: $(VENV)/installed-dev
	@$(PYTEST) --collect-only -qq > /dev/null || $(PYTEST) --collect-only -q

# Environments for reinforcement learning, launchers, clusters, object storage, pages: with the libraries that only they need.
test-extras: $(VENV)/installed-extras chromium azurite
	$(BIN)/mypy
	$(PYTEST) -n auto --maxprocesses 4 -m "extras and not slow" --durations=5 --durations-min=2

test-all-extras: $(VENV)/installed-extras chromium azurite
	$(PYTEST) -n auto --maxprocesses 4 -m extras

# Libraries with PyTorch have environments of their own, which no lock describes: the newest versions that fit. d3rlpy
# pins gymnasium 1.0, too.
test-d3rlpy: $(VENV)-d3rlpy/installed
	$(VENV)-d3rlpy/bin/python -m pytest tests/runners/learning/benchmark/test_d3rlpy_folder.py

test-sb3: $(VENV)-sb3/installed
	$(VENV)-sb3/bin/python -m pytest tests/runners/learning/environments/test_stable_baselines.py

# Part of `make test`. Types take longer to check than all else here: `make lint` and `make test-extras` do.
style: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

lint: style
	$(BIN)/mypy

# What the tests need beyond Python: a terminal that they can type into, and sandboxes. Installed where that is possible
# without asking.
debian:
	@{ command -v tmux && command -v bwrap; } >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& { apt-get install -qq -y tmux bubblewrap \
			|| { apt-get update -qq && apt-get install -qq -y tmux bubblewrap; }; } >/dev/null; } \
		|| echo "tmux or bwrap is not installed: the tests that play at a terminal or in a sandbox will be skipped (apt install tmux bubblewrap)"

# A browser, for the tests of pages.
chromium:
	@test -x /usr/bin/chromium || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
		&& { apt-get install -qq -y chromium || { apt-get update -qq && apt-get install -qq -y chromium; }; } >/dev/null; } \
		|| echo "Chromium is not installed: the tests of pages in a browser will be skipped (apt install chromium)"

# An emulator of Azure Blob Storage, for the test of an archive there: a program of npm, which takes 360 MB.
azurite: $(VENV)/created
	@test -e $(VENV)/azurite/installed-$(AZURITE) || { command -v npm >/dev/null \
		&& npm install --prefix $(VENV)/azurite --no-audit --no-fund --no-save --loglevel=error azurite@$(AZURITE) \
		&& touch $(VENV)/azurite/installed-$(AZURITE); } \
		|| echo "Azurite is not installed: the test of an archive in Azure will be skipped (it needs npm)"

# Compiles every kernel: two cores for a minute when the cache is empty.
warm: install
	@$(BIN)/qarena warm > /dev/null

bench: install
	$(BIN)/qarena bench

# The site of docs/, in site/: begin with site/index.html. The variable keeps an advertisement out of the output.
docs: $(VENV)/installed-extras
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# The reference of the Python packages, in docs/reference: a test compares it with the docstrings.
reference: install
	@$(BIN)/python docs/reference_pages.py

# Writes the lock files anew from pyproject.toml; versions already locked stay unless they no longer fit.
lock:
	@command -v $(UV) >/dev/null || { echo "make lock needs uv: python3 -m pip install uv, or UV=/path/to/uv"; exit 1; }
	$(COMPILE) --group build -o requirements-build.lock
	$(COMPILE) pyproject.toml -o requirements.lock
	$(COMPILE) pyproject.toml $(addprefix --extra ,dev $(EXTRAS)) --group s3-tests --group web-tests --group dataset-tests --group statistics-tests -c requirements.lock \
		-o requirements-extras.lock
	$(COMPILE) pyproject.toml --extra dev -c requirements-extras.lock -o requirements-dev.lock

clean:
	rm -rf $(VENV) $(VENV)-d3rlpy $(VENV)-sb3 build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# The stamps below are what makes a second `make` instant and a changed lock an update.
$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "quarto-arena needs Python 3.11 or newer, and $(PYTHON) is not: make PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments: install its venv package (Debian, Ubuntu: apt install python3-venv)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created requirements-build.lock requirements.lock pyproject.toml
	$(PIP_INSTALL) --require-hashes -r requirements-build.lock
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PIP_INSTALL) --no-deps --editable .
	@$(BYTECODE)
	@touch $@

# All of the above and the tools of the tests, in one go.
$(VENV)/installed-dev: $(VENV)/created requirements-build.lock requirements.lock requirements-dev.lock pyproject.toml
	$(PIP_INSTALL) --require-hashes -r requirements-build.lock
	$(PIP_INSTALL) --require-hashes -r requirements-dev.lock
	$(PIP_INSTALL) --no-deps --editable .
	@$(BYTECODE)
	@touch $(VENV)/installed $@

$(VENV)/installed-extras: $(VENV)/installed-dev requirements-extras.lock
	$(PIP_INSTALL) --require-hashes -r requirements-extras.lock
	@$(BYTECODE)
	@touch $@

$(VENV)-%/installed: $(VENV)/created pyproject.toml
	$(PYTHON) -m venv $(VENV)-$*
	$(VENV)-$*/bin/python -m pip --disable-pip-version-check install -qq --editable '.[$*]' pytest hypothesis
	@touch $@

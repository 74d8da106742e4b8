# `make demo` shows what it does, `make test` checks it; both make .venv when it is missing, and install
# again what changed.
# Another interpreter: `make test PYTHON=python3.13`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

EDITABLE := -e ./core -e './plugins/image[turbo]' -e ./plugins/video -e ./plugins/audio -e ./sdk
PROJECTS := core/pyproject.toml $(wildcard plugins/*/pyproject.toml) sdk/pyproject.toml
COMPILED := $(wildcard plugins/image/setup.py plugins/image/src/pipeplug_image/native/*.[ch])

.DELETE_ON_ERROR:
.PHONY: demo test lint clean

demo: $(VENV)/packages.stamp
	$(BIN)/python examples/photos.py

test: lint
	$(BIN)/pytest

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) out dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp inside the environment is as old as what it stands for, and goes when the environment goes.
$(VENV)/pip.stamp:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("pipeplug needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.x")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'  # the first that knows dependency groups
	touch $@

$(VENV)/packages.stamp: $(VENV)/pip.stamp $(PROJECTS) $(COMPILED)
	$(BIN)/python -m pip install --quiet $(EDITABLE)
	touch $@

$(VENV)/dev.stamp: $(VENV)/packages.stamp pyproject.toml
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

# `make main` and `make test` need nothing but Python 3.11+ with its venv module; each prepares .venv by itself.
# Another interpreter: make main PYTHON=/path/to/python3.12
# Exact versions come from constraints.txt. torch is the build your pip index offers; on a machine without a GPU,
# PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu avoids the download of the CUDA libraries.

PYTHON ?= python3
VENV   := .venv
RUN    := $(VENV)/bin/python
PIP    := $(RUN) -m pip --disable-pip-version-check

.PHONY: help main smoke test bench curve lock clean

help:
	@echo "make main    set up, then run the whole experiment of specs/main.yaml (results/ holds what it writes)"
	@echo "make smoke   the same path, a minute long (specs/smoke.yaml)"
	@echo "make test    set up, then run the test suite"
	@echo "make bench   time the draft-free decoder and its parts on this machine"
	@echo "make curve   measure what verification costs here by replicas (TARGET=tiny-sdar OUT=specs/devices/NAME.yaml)"
	@echo "make lock    rewrite constraints.txt from the versions installed in $(VENV)"
	@echo "make clean   remove $(VENV) and caches; results/ stays"

main: $(VENV)/.installed
	$(RUN) -m pipeline submit specs/main.yaml

smoke: $(VENV)/.installed
	$(RUN) -m pipeline submit specs/smoke.yaml

test: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder

bench: $(VENV)/.installed
	$(RUN) -m benchmarks.decode

TARGET ?= tiny-sdar
curve: $(VENV)/.installed
	$(RUN) -m benchmarks.curve $(TARGET) $(if $(OUT),--out $(OUT))

# The stamps are newer than what they were made from, so an unchanged environment is never installed twice.
$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/pip
	$(PIP) install --quiet -c constraints.txt -e '.[bench,test]'
	@touch $@ $(VENV)/.installed

# pip comes last in a new environment: one that was left half-made is completed, not used.
$(VENV)/bin/pip:
	@command -v $(PYTHON) >/dev/null || { echo "Drafthouse needs Python 3.11 or newer, and '$(PYTHON)' was not found; name one with: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Drafthouse needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) -V 2>&1); name one with: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is incomplete for '$(PYTHON)' (on Debian and Ubuntu: apt install python3-venv)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

lock: $(VENV)/.installed-test
	{ sed -n '/^#/p' constraints.txt; $(PIP) freeze --exclude-editable | sed 's/+cpu$$//; s/+cu[0-9]*$$//'; } > constraints.new
	mv constraints.new constraints.txt
	@touch $(VENV)/.installed $(VENV)/.installed-test

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

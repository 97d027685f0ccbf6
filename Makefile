# `make reports` builds everything; `make test` checks everything. Both prepare their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCALE ?=
PAPERS ?=
WAIT ?=

WITH_ENV := PATH="$(CURDIR)/$(BIN):$$PATH"
# uv reads its own names for what pip is told of wheels, index and certificates.
ifdef PIP_FIND_LINKS
export UV_FIND_LINKS ?= $(PIP_FIND_LINKS)
endif
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
# Containers often forbid Python to write bytecode: every start would compile torch, pandas and our own modules again
# (2 to 5 s of a core). Packages are compiled as they are installed, as pip does it; our own when they are first used.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python

.PHONY: site reports test setup check lock lab bench test-calibration test-cluster clean help
.DEFAULT_GOAL := help

help:
	@echo "make site       the pages as published, in a minute: reports/index.html"
	@echo "make reports [SCALE=smoke|laptop|workstation|paper]   everything up to reports/index.html"
	@echo "             [PAPERS=\"a b\"] [WAIT=1: for another build of this checkout]"
	@echo "make test       environment with test tools, then all checks and tests"
	@echo "make bench      the toolkit against its peers; make test-calibration its estimators over many seeds"
	@echo "make test-cluster   the workflow on a real Slurm on this machine (root)"
	@echo "make setup      the environment alone"
	@echo "make lab        Jupyter, to open the notebooks"
	@echo "make lock       resolve the locked versions again"
	@echo "make clean      delete results, analysis and reports (not the data cache)"

# The pages need a small part of the environment; whoever has all of it uses that.
site: $(if $(wildcard $(VENV)/.ready),setup,$(VENV)/.site)
	@$(WITH_ENV) replicate site $(PAPERS) $(if $(SCALE),--scale $(SCALE))

reports: setup
	@$(WITH_ENV) REPLICATIONS_MAKE=$$PPID replicate reports $(PAPERS) $(if $(SCALE),--scale $(SCALE)) $(if $(WAIT),--wait)

test: $(VENV)/.test check
	$(WITH_ENV) pytest

check: $(VENV)/.test
	$(WITH_ENV) ruff check .
	$(WITH_ENV) ruff format --check .
	$(WITH_ENV) mypy
	$(WITH_ENV) snakefmt --check Snakefile
	$(WITH_ENV) replicate sync --check

setup: $(VENV)/.ready

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=…")'
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check uv pip
	@touch $@

$(VENV)/.site: $(VENV)/.uv pyproject.toml requirements-site.txt requirements.lock
	@$(INSTALL) -r requirements-site.txt -c requirements.lock
	@$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/.ready: $(VENV)/.uv pyproject.toml requirements-torch.txt requirements.lock
	@echo "Preparing the environment in $(VENV) (about two minutes the first time)."
	@$(INSTALL) -r requirements-torch.txt -r requirements.lock
	@$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.ready requirements-test.lock
	@$(INSTALL) -r requirements-torch.txt -r requirements-test.lock
	@touch $@

# A real Slurm with two emulated nodes on this machine; installs slurm-wlm with apt where it is missing. Where there can
# be none (not root, no apt), one line says why its tests are skipped.
test-cluster: $(VENV)/.test
	$(WITH_ENV) pytest -n0 tests/cluster

test-calibration: $(VENV)/.test
	$(WITH_ENV) pytest tests/calibration

bench: $(VENV)/.test
	@$(INSTALL) --editable '.[bench]'
	$(WITH_ENV) python -m benchmarks.toolkit

lock: $(VENV)/.uv
	$(BIN)/uv pip compile --quiet --python-version 3.11 --upgrade pyproject.toml --extra full -c requirements-torch.txt \
	  --no-emit-package torch --no-emit-package torchvision --custom-compile-command "make lock" -o requirements.lock
	$(BIN)/uv pip compile --quiet --python-version 3.11 --upgrade pyproject.toml --extra full --extra test -c requirements-torch.txt \
	  -c requirements.lock --no-emit-package torch --no-emit-package torchvision \
	  --custom-compile-command "make lock" -o requirements-test.lock

lab: setup
	$(WITH_ENV) jupyter lab

clean:
	rm -rf .kept results analysis logs reports/index.html reports/site .snakemake

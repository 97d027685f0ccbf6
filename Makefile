# `make reports` builds everything; `make test` checks everything. Both prepare their own environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SCALE ?=
PAPERS ?=
TESTS ?=
WAIT ?=
PDF ?=

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

check_parts := check-types check-style check-format check-workflow check-generated
.PHONY: site reports test setup check $(check_parts) lock lab bench test-calibration test-cluster clean help
.DEFAULT_GOAL := help

help:
	@echo "make site       the pages as published, in a minute: reports/index.html [PDF=1: every figure as PDF, too]"
	@echo "make reports [SCALE=smoke|laptop|workstation|paper]   everything up to reports/index.html"
	@echo "             [PAPERS=\"a b\"] [WAIT=1: for another build of this checkout]"
	@echo "make test       environment with test tools, then all checks and tests; TESTS=\"a b\" only these tests"
	@echo "make check      style, types and generated files alone"
	@echo "make bench      the toolkit against its peers; make test-calibration its estimators over many seeds"
	@echo "make test-cluster   the workflow on a real Slurm on this machine (root)"
	@echo "make setup      the environment alone"
	@echo "make lab [PAPERS=a]   Jupyter with the notebook behind a paper's page"
	@echo "make lock       resolve the locked versions again"
	@echo "make clean      delete results, analysis and reports (not the data cache)"

# The pages need a small part of the environment; whoever has all of it uses that.
site: $(if $(wildcard $(VENV)/.ready),setup,$(VENV)/.site) $(if $(PDF),$(VENV)/.pdf)
	@$(WITH_ENV) replicate site $(PAPERS) $(if $(SCALE),--scale $(SCALE))

reports: setup
	@$(WITH_ENV) REPLICATIONS_MAKE=$$PPID replicate reports $(PAPERS) $(if $(SCALE),--scale $(SCALE)) $(if $(WAIT),--wait)

test: $(VENV)/.test $(if $(TESTS),,check)
	$(WITH_ENV) pytest $(if $(TESTS),-n0 $(TESTS))

# Side by side, and each says what it finds, whatever another found.
check: $(VENV)/.test
	@$(MAKE) --no-print-directory --keep-going --jobs=2 $(check_parts)

check-types:
	@$(WITH_ENV) mypy
check-style:
	@$(WITH_ENV) ruff check .
check-format:
	@$(WITH_ENV) ruff format --check .
check-workflow:
	@$(WITH_ENV) snakefmt --check Snakefile
check-generated:
	@$(WITH_ENV) replicate sync --check

setup: $(VENV)/.ready

$(VENV)/.uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=…")'
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check uv pip
	@touch $@

$(VENV)/.site: $(VENV)/.uv pyproject.toml requirements-site.txt requirements.lock
	@echo "Preparing a small environment in $(VENV) (the first time)."
	@$(INSTALL) -r requirements-site.txt -c requirements.lock
	@$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/.pdf: $(VENV)/.uv requirements-pdf.txt
	@$(INSTALL) -r requirements-pdf.txt
	@touch $@

$(VENV)/.ready: $(VENV)/.uv pyproject.toml requirements-torch.txt requirements.lock
	@echo "Preparing the environment in $(VENV) (about two minutes the first time)."
	@$(INSTALL) -r requirements-torch.txt -r requirements.lock
	@$(INSTALL) --no-deps --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.ready requirements-test.lock requirements-pdf.txt
	@$(INSTALL) -r requirements-torch.txt -r requirements-test.lock -r requirements-pdf.txt
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

# report.py opens as the notebook that it is (jupytext); its cells draw on the runs here, else on what is published.
lab: setup
	$(WITH_ENV) JUPYTER_CONFIG_PATH="$(CURDIR)/profiles/jupyter:$$JUPYTER_CONFIG_PATH" \
	  jupyter lab $(if $(PAPERS),replications/$(firstword $(PAPERS))/report.py)

clean:
	rm -rf .kept results analysis logs reports/index.html reports/site .snakemake

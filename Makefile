# make course: install, make a workspace, measure a baseline, open JupyterLab.   make test: install and run the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKSPACE ?= workspace

.PHONY: help setup course test test-all lint clean
help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 10

setup: $(VENV)/.lab ## install the kit with Jupyter into .venv; a torch >= 2.6 that is there is kept
$(VENV)/.lab: pyproject.toml tools/setup.sh
	PYTHON=$(PYTHON) sh tools/setup.sh $(VENV) lab,hpo
	@touch $@

$(VENV)/.dev: $(VENV)/.lab
	PYTHON=$(PYTHON) sh tools/setup.sh $(VENV) lab,hpo,dev
	@touch $@

course: setup ## a workspace with a measured baseline, then JupyterLab
	$(BIN)/dlojz course $(WORKSPACE)

test: $(VENV)/.dev ## the tests, but for the long ones
	$(BIN)/python tools/test.py

test-all: $(VENV)/.dev ## every test: each kill, both workspaces trained, every answer in both surroundings
	$(BIN)/python tools/test.py --all

lint: $(VENV)/.dev ## ruff
	$(BIN)/python -m ruff check

clean: ## what was installed and built (a workspace stays)
	rm -rf $(VENV) dist build .pytest_cache .ruff_cache

.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# one more than there are processors, for tests wait much
WORKERS := $(shell n=$$(($$(nproc) + 1)); echo $$((n < 4 ? n : 4)))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: help dev lint unit test docs demo bench chaos clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

dev: $(READY) ## install what is needed to work on spotrun, into .venv

$(READY): pyproject.toml tests/prepare
	tests/prepare $(VENV)
	@touch $@

lint: $(READY) ## types, style, the layer rule, and docs/cli.md
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m spotrun.cli.reference --check docs/cli.md

unit: $(READY) ## the tests that need neither root nor a server, and take seconds
	$(PYTEST) -m "not lab and not s3 and not registry and not slow"

test: lint ## everything: lint, unit tests, and the lab (needs root)
	$(PYTEST)

docs: $(READY) ## write docs/cli.md from --help
	$(BIN)/python -m spotrun.cli.reference docs/cli.md

demo: $(READY) ## a training job moves between two lab hosts in mid-run (needs root)
	$(BIN)/python -m tests.lab.demo

bench: $(READY) ## spotrun against Podman, bare runc, restic and bare S3 clients (needs root)
	$(BIN)/python -m tests.bench

chaos: $(READY) ## a job among 200 misfortunes; SEED=… and EVENTS=… choose others (needs root)
	$(BIN)/python -m tests.chaos

clean: ## remove what was built here (not the lab cache)
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache

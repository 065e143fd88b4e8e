# SPDX-License-Identifier: Apache-2.0
# A thin wrapper around the presets in CMakePresets.json; see `make help`.

PRESET ?= gcc
PREFIX ?= /usr/local
TESTS ?=
TARGETS ?=
SLURM_TESTS ?=
FUZZ_SECONDS ?= 60
# For `make python` and `make wheel`.
PYTHON ?= python3
# `smoke` or `full`, for `make test-python`.
PYTHON_TESTS ?= full

# `build` for the default preset, `build-<preset>` for the others.
BUILD := $(if $(filter gcc,$(PRESET)),build,build-$(PRESET))
# Holds CMake from PyPI if the distribution's CMake is too old.
export PATH := $(CURDIR)/.deps/bin:$(PATH)
ifdef TORCH_DIR
export TORCH_DIR
endif
ifdef CUDA
export CUDA
endif
JOBS ?= $(shell tools/jobs.sh)
BUILD_COMMAND = cmake --build $(BUILD) -j $(JOBS)
TEST_PRESET ?= $(PRESET)
CTEST = ctest --preset $(TEST_PRESET) -j $(JOBS) \
	--output-junit $(CURDIR)/$(BUILD)/tests.xml $(if $(TESTS),-R '$(TESTS)')

DEMO = $(BUILD)/bin/accelerate launch --cpu --num_processes 2 $(BUILD)/bin/examples/nlp_example

.DEFAULT_GOAL := build
.PHONY: help deps build demo demo-pretrained test install clean slowest format check tidy \
	headers consumer asan tsan fuzz test-slurm ci-full benchmarks parity configure configure-full \
	python wheel test-python

help: ## List these targets
	@echo "make <target> [PRESET=gcc|dev|release|ci|asan|tsan] [TORCH_DIR=<LibTorch>] [CUDA=1]"
	@echo
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | \
		awk -F'\t' '{ printf "  %-16s %s\n", $$1, $$2 }'

deps: ## Install missing system packages, and LibTorch into .deps/
	@tools/setup.sh full

configure:
	@tools/setup.sh demo
	@tools/configure.sh $(PRESET) $(BUILD)

configure-full:
	@tools/setup.sh full
	@tools/configure.sh $(PRESET) $(BUILD)

build: configure ## Build everything, or TARGETS=<names>
	@$(BUILD_COMMAND) $(if $(TARGETS),--target $(TARGETS))

demo: configure ## Train a sentence-pair classifier in two processes
	@$(BUILD_COMMAND) --target nlp_example accelerate_cli
	@$(DEMO)

demo-pretrained: configure ## Fine-tune MiniLM, a pretrained checkpoint, in two processes
	@tools/minilm.sh .deps/minilm
	@$(BUILD_COMMAND) --target nlp_example accelerate_cli
	@$(DEMO) --checkpoint .deps/minilm --num_epochs 1 --learning_rate 1e-4

test: configure-full ## Build, then run all tests, or those that match TESTS=<regex>
	@$(BUILD_COMMAND)
	@$(CTEST)

install: configure ## Install the CMake package into PREFIX=<folder>
	@$(BUILD_COMMAND) --target accelerate_package
	@cmake --install $(BUILD) --prefix $(PREFIX)

benchmarks: configure ## Build the benchmarks into build/bin/benchmarks/
	@$(BUILD_COMMAND) --target benchmarks

fuzz: ## Fuzz all parsers of untrusted input, with sanitizers (FUZZ_SECONDS=60 each)
	@tools/setup.sh fuzz
	@cmake --preset dev -B build-fuzz -DACCELERATE_FUZZ=ON
	@cmake --build build-fuzz -j $(JOBS) --target fuzz_programs
	@for program in build-fuzz/bin/fuzz/fuzz_*; do \
		name=$${program##*/fuzz_}; \
		mkdir -p build-fuzz/corpus/$$name && \
		$$program -max_total_time=$(FUZZ_SECONDS) -timeout=10 -max_len=4096 \
			-artifact_prefix=build-fuzz/$$name- \
			build-fuzz/corpus/$$name tests/fuzz/corpus/$$name || exit 1; \
	done

parity: configure-full ## Compare models and configurations with Python (PARITY_PYTHON=<python>)
	@$(BUILD_COMMAND) --target accelerate_test_unit_transformers accelerate_parity_models \
		hub_client accelerate_cli
	@tests/parity/run.sh $(BUILD)

python: configure ## Build the Python package into build/python (PYTHON=<interpreter>)
	@cmake $(BUILD) -DACCELERATE_PYTHON="$$(command -v $(PYTHON))" --log-level=WARNING >/dev/null
	@$(BUILD_COMMAND) --target accelerate_python accelerate_package

wheel: python ## Pack the Python package into build/dist
	@ACCELERATE_BUILD_DIR=$(CURDIR)/$(BUILD) $(PYTHON) python/build_backend/accelerate_build.py $(BUILD)/dist

test-python: configure ## Test the Python package in its own virtual environment (PYTHON_TESTS=smoke)
	@PRESET=$(PRESET) tools/test_python.sh $(BUILD) $(PYTHON_TESTS)

test-slurm: configure ## Run the launcher under a real Slurm (needs root; SLURM_TESTS=<regex>)
	@tools/setup.sh slurm
	@$(BUILD_COMMAND) --target accelerate_cli launched_program checkpoint_program \
		base nlp_example complete_nlp_example causal_lm
	@tests/slurm/run.py $(BUILD) --only '$(SLURM_TESTS)'

slowest: ## Print the ten files that took longest to build
	@tools/slowest.py $(BUILD)

format: ## Format the C++ files in place
	@tools/format.sh --fix

check: ## Check format, layers, vocabulary, tree and documents (takes seconds, needs no build)
	@tools/check.sh

headers: configure ## Check that public headers are light and compile on their own
	@$(BUILD_COMMAND) --target all_verify_interface_header_sets
	@ctest --preset $(PRESET) -R '^tools/header_budget$$'

consumer: configure ## Build a small project against the installed package
	@$(BUILD_COMMAND) --target accelerate_package
	@tests/consumer/run.sh $(BUILD)

tidy: configure ## Run clang-tidy 19 on the files changed since main
	@tools/tidy.sh $(BUILD)

asan: ## Run the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(MAKE) --no-print-directory sanitized PRESET=asan SUITE=unit

tsan: ## Run the rank tests under ThreadSanitizer
	@$(MAKE) --no-print-directory sanitized PRESET=tsan SUITE=ranks

.PHONY: sanitized
sanitized: configure-full
	@$(BUILD_COMMAND) --target accelerate_tests_$(SUITE)
	@$(CTEST)

ci-full: ## Run everything .ci/run does, plus the stages it skips to save time
	@.ci/run --full

clean: ## Remove the build folders; .deps/ stays
	rm -rf build build-*

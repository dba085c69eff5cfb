# SPDX-License-Identifier: Apache-2.0
# The front door. `make run` and `make test` do everything on a bare Debian 12.
SHELL := /bin/bash
PRESET ?= release
JOBS ?= $(shell nproc)
# Files of a folder are compiled several at once: half the time for a whole build. UNITY=OFF for work on single files.
UNITY ?= ON
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
# Minutes of processor time of a first build, as docs/building.md states them.
FIRST_BUILD := 8

# What a build shows while it runs.
export NINJA_STATUS := [%f of %t, %e s]

.DEFAULT_GOAL := help
.PHONY: help setup build run test check fuzz conformance format asan python-package python-asan python-debug tsan bench install wheel without-llvm python walkthrough errors operators passes python-api matmul libfuzzer zoo differential clean

help:  ## show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@scripts/setup

# Configuring again is only needed when a CMake file changed; ninja sees to that itself.
$(BUILD)/build.ninja: CMakeLists.txt CMakePresets.json | setup
	@cmake --preset $(PRESET) -DTENON_UNITY=$(UNITY) -Wno-dev > $(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }

build: setup $(BUILD)/build.ninja  ## build everything
	@cmake --build $(BUILD) -j $(JOBS)

command: setup $(BUILD)/build.ninja  ## build the command and what it loads, no tests
	@[ -x $(BUILD)/bin/tenon ] || echo "Building the compiler on $(JOBS) cores: about $(FIRST_BUILD) minutes of processor time, once."
	@cmake --build $(BUILD) -j $(JOBS) --target tenon

run: command  ## compile the shipped digits model and classify its test set
	@python3 examples/digits/run.py --tenon $(BUILD)/bin/tenon

test: build  ## build and run all tests
	@scripts/run_tests $(BUILD) -j $(JOBS)

# A slice of random graphs: SECONDS of them (or GRAPHS in number), from SEED on (printed; a fresh one by default).
SECONDS ?= 180
GRAPHS ?=
SEED ?= $(shell date +%s)
fuzz: setup $(BUILD)/build.ninja  ## run every graph pass on random graphs and print a summary (SECONDS=…, GRAPHS=…, SEED=…)
	@cmake --build $(BUILD) -j $(JOBS) --target test_trust
	@echo "seed $(SEED)"
	@TENON_RANDOM_SEED=$(SEED) TENON_RANDOM_GRAPHS=$(GRAPHS) TENON_RANDOM_SECONDS=$(if $(GRAPHS),0,$(SECONDS)) \
	  $(BUILD)/bin/test_trust --gtest_filter=RandomGraphs.EveryPassKeepsResults --gtest_brief=1

# The stored cases of ONNX's backend suite; DATA names an unpacked folder of them, ONLY a part of their names.
DATA ?=
ONLY ?=
conformance: setup $(BUILD)/build.ninja  ## run ONNX's backend suite, compiled and interpreted, against the kept list (DATA=…, ONLY=…)
	@cmake --build $(BUILD) -j $(JOBS) --target conformance
	@$(BUILD)/bin/conformance --list tests/conformance/expected.txt --json $(BUILD)/conformance.json --jobs $(JOBS) \
	  $(if $(DATA),--data "$(DATA)") $(if $(ONLY),--only "$(ONLY)")

check: setup  ## format, include rules, functions and numbers, lint, sizes
	@scripts/check_format
	@scripts/check_layers
	@scripts/lint
	@scripts/check_errors
	@scripts/check_functions
	@if [ -d $(BUILD)/lib ]; then scripts/size_report $(BUILD); fi

format: setup  ## format every C++ file in place
	@scripts/check_format --fix

# Instrumented frames are several times larger, and the tests nest as deep as the limits allow. Clang, where it
# is there, builds the instrumented compiler in half of the time.
asan: export CC := $(shell command -v clang-22 || echo cc)
asan: export CXX := $(shell command -v clang++-22 || echo c++)
asan:  ## unit tests under the address and undefined-behaviour sanitizers
	@ulimit -s 65536; $(MAKE) --no-print-directory test PRESET=asan

without-llvm:  ## build the compiler that goes through C alone, and try it
	@cmake -S . -B build/without-llvm -G Ninja -DCMAKE_BUILD_TYPE=Release -DTENON_LLVM=OFF -DTENON_UNITY=ON -Wno-dev > build/without-llvm.configure.log 2>&1 || { cat build/without-llvm.configure.log; exit 1; }
	@cmake --build build/without-llvm -j $(JOBS) --target tenon
	@scripts/without_llvm build/without-llvm

python-package: command
	@cmake --build $(BUILD) -j $(JOBS) --target tenon_python_stubs

# The compiler's library is that of the release build: what stands between Python and it is instrumented. Leaks are
# counted by tests of their own; the interpreter frees nothing at its end.
python-asan: python-package  ## Python tests, the extension and the runtime under the address sanitizer (PYTHON=python3)
	@CC=cc CXX=c++ cmake --preset asan -B build/asan-python -DTENON_TESTS=OFF > /dev/null
	@cmake --build build/asan-python -j $(JOBS) --target tenon_python $(patsubst src/runtime/libraries/%.cpp,tenon_%,$(wildcard src/runtime/libraries/*.cpp))
	@LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libstdc++.so.6)" LD_LIBRARY_PATH=build/asan-python/lib:$(BUILD)/lib PYTHONPATH=build/asan-python/python \
	  PYTHONMALLOC=malloc TENON_SOURCE_DIR=$(CURDIR) ASAN_OPTIONS=detect_leaks=0:use_sigaltstack=0:detect_container_overflow=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 \
	  $(or $(PYTHON),python3) -m unittest discover -s tests/python

# The extension counts references only where it is built for a debug build of Python.
python-debug: python-package  ## Python tests under a debug build of Python, with checks of references (PYTHON=python3-dbg)
	@rm -rf build/debug-python && mkdir -p build/debug-python && cp -rL $(BUILD)/python/tenon build/debug-python
	@c++ -std=c++20 -O1 -fPIC -shared -DPy_DEBUG -Iinclude -Wno-missing-field-initializers \
	  -I$$(python3 -c "import sysconfig; print(sysconfig.get_path('include'))") -o build/debug-python/tenon/_core.abi3.so \
	  python/src/core/*.cpp $(BUILD)/lib/libtenon_ffi.so $(BUILD)/lib/libtenon_runtime.so
	@LD_LIBRARY_PATH=$(BUILD)/lib PYTHONPATH=build/debug-python:$(PYTHONPATH) TENON_SOURCE_DIR=$(CURDIR) \
	  $(or $(PYTHON),python3-dbg) -X dev -W ignore -m unittest discover -s tests/python

# Only the tests that start threads without compiled kernels: the sanitizer sees all of their code.
tsan: setup  ## unit tests of threads under the thread sanitizer
	@$(MAKE) --no-print-directory PRESET=tsan build/tsan/build.ninja
	@cmake --build build/tsan -j $(JOBS) --target test_base test_runtime write_test_artifact
	@scripts/run_tests build/tsan -j $(JOBS) -L 'base|runtime'

# Ten minutes for each target, one after the other; findings lie in build/fuzz/findings.
libfuzzer: setup  ## fuzz the parser, the schedules and models under the sanitizers (SECONDS_EACH=600)
	@scripts/fuzz

bench: command  ## time the models against ONNX Runtime and OpenVINO (Python environment from PyPI; more: ARGS=…)
	@cmake --build $(BUILD) -j $(JOBS) --target tenon_python
	@bench/run --tenon $(BUILD)/bin/tenon $(ARGS)

zoo: command  ## export architectures in many forms, compare and time each with ONNX Runtime (torch from PyPI, hours for all; ARGS="--only REGEX")
	@cmake --build $(BUILD) -j $(JOBS) --target tenon_python
	@TENON_PYTHON=$(BUILD)/python bench/run_zoo --tenon $(BUILD)/bin/tenon $(ARGS)

differential: command  ## compare random ONNX models with ONNX Runtime (Python environment from PyPI; ARGS="--models 1000 --seed 1", ARGS=--help)
	@cmake --build $(BUILD) -j $(JOBS) --target tenon_python
	@bench/run_differential --package $(BUILD)/python $(ARGS)

install: command  ## install to PREFIX (default /usr/local)
	@cmake --install $(BUILD) --prefix $(PREFIX) > /dev/null && echo "installed to $(PREFIX)"

wheel: setup  ## build the Python wheel into build/dist
	@scripts/wheel build/dist

python: wheel  ## install the wheel into a virtual environment and run the Python tests there (PYTHON=python3)
	@scripts/python_tests build/dist/tenon_compiler-*.whl $(PYTHON)

walkthrough: command  ## write docs/walkthrough.md anew from what the compiler does today
	@scripts/walkthrough $(BUILD)/bin/tenon

errors: command  ## write docs/errors.md anew from the registry of error codes
	@scripts/errors_page $(BUILD)/bin/tenon

passes: command  ## write docs/passes.md and the lists of passes anew from their records
	@scripts/passes_page $(BUILD)/bin/tenon

operators: command  ## write docs/operators.md anew from the registry
	@scripts/operators_page $(BUILD)/bin/tenon

python-api:  ## write docs/python_api.md anew from the package that PYTHON imports
	@$(or $(PYTHON),python3) scripts/python_api_page

matmul: setup $(BUILD)/build.ninja  ## measure the classic matrix product and write docs/matmul.md anew
	@cmake --build $(BUILD) -j $(JOBS) --target example_matmul
	@scripts/matmul_page $(BUILD)/bin $(ARGS)

clean:  ## remove all builds
	@rm -rf build

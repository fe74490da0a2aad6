# @title Setup: find the book's code { display-mode: "form" }
import sys
from pathlib import Path

for folder in (Path.cwd(), *Path.cwd().parents):
    code = folder / "code"
    if (folder / "_toc.yml").is_file() and (code / "encoder.py").is_file():
        sys.path[:] = dict.fromkeys([str(code), *sys.path])
        break
else:
    raise ModuleNotFoundError(
        "The book's code is not here. Clone the whole book, or take this "
        "chapter's stand-alone copy from the download button of its page."
    )

# What you save in code/ counts from then on.
if shell := globals().get("get_ipython"):
    shell().run_line_magic("reload_ext", "autoreload")
    shell().run_line_magic("autoreload", "2")

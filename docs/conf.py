"""Settings of the site: ``make docs``.

The source folder is the project's own, so that a link from a page to a document elsewhere in the tree is a link of the
site, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tidemark import __version__  # noqa: E402 - the checkout's own, installed or not

project = "tidemark"
author = "the tidemark authors"
release = __version__
root_doc = "docs/index"
include_patterns = [
    "docs/**.md", "*.md", "bench/README.md", "spark_bugs/README.md", "spark_bugs/tickets/**.md",
    "tests/golden/README.md", "tests/results/*.md", "tidemark/sink/README.md",
]  # fmt: skip
exclude_patterns = [".*", "build", "dist", "runs", "bench/results"]
extensions = ["myst_parser"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = f"tidemark {__version__}"
html_copy_source = False
highlight_language = "text"

ENTRANCE = """<!doctype html>
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=docs/index.html">
<title>tidemark</title>
<a href="docs/index.html">tidemark</a>
"""


def setup(app: Sphinx) -> None:
    """Open the site at its first page, wherever that is."""
    app.connect("build-finished", _write_entrance)


def _write_entrance(app: Sphinx, problem: Exception | None) -> None:
    if problem is None:
        (Path(app.outdir) / "index.html").write_text(ENTRANCE, encoding="utf-8")

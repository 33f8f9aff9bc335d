"""How the site is made of the pages: `make docs` builds it into build/docs.

The folder of the sources is that of the project, so a link from page to page is the same here and on a forge.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(Path(__file__).parent)]

from watersmeet.version import VERSION  # noqa: E402

project = "watersmeet"
copyright = "the authors of watersmeet"
version = release = VERSION
html_title = f"watersmeet {VERSION}"

extensions = ["myst_parser", "sphinx.ext.autodoc", "anchors", "navigation", "api", "outside_links", "words"]
root_doc = "docs/README"
include_patterns = ["*.md", "docs/**.md", "examples/**.md", "benchmarks/README.md"]
exclude_patterns = [".*", "build", "dist", "results", "src", "tests"]
source_suffix = {".md": "markdown"}

# Every link must lead somewhere: `make docs` takes a warning for an error.
nitpicky = True
# Types in signatures are no links that somebody wrote: those that lead nowhere are shown as text.
nitpick_ignore_regex = [(r"py:.*", r".*")]

myst_heading_anchors = 4
myst_heading_slug_func = "anchors.slug"
myst_enable_extensions = ["attrs_block"]

# Docstrings are plain text with `code` in it.
default_role = "code"
autoclass_content = "both"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 80

# Quotes in the text are those of SQL.
smartquotes = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
templates_path = ["templates"]
# The first page of a server's folder.
html_additional_pages = {"index": "to_the_first_page.html"}
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

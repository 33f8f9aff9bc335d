"""What the site lists at its side: the links of docs/README.md, under its headings.

A forge shows that page as it is, so it holds no directive: the lists for Sphinx are made from its links.
"""

from __future__ import annotations

import re
from typing import Any

PAGE = "docs/README"
SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^- \[([^\]]+)\]\(([^)#]+)\.md\)", re.MULTILINE)


def toctrees(text: str) -> str:
    """A list of pages for every heading that has some.

    >>> print(toctrees("## Learn\\n- [Begin](tutorial.md): first steps\\n"))
    ```{toctree}
    :hidden:
    :caption: Learn
    <BLANKLINE>
    Begin <tutorial>
    ```
    <BLANKLINE>
    """
    found = [(caption, ITEM.findall(body)) for caption, body in SECTION.findall(text)]
    return "\n".join(_toctree(caption, pages) for caption, pages in found if pages)


def _toctree(caption: str, pages: list[tuple[str, str]]) -> str:
    entries = "\n".join(f"{title} <{path}>" for title, path in pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{entries}\n```\n"


def add_toctrees(_: Any, name: str, content: list[str]) -> None:
    if name == PAGE:
        content[0] += "\n" + toctrees(content[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", add_toctrees)
    return {"parallel_read_safe": True}

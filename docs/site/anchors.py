"""Headings that carry a name of their own, `## <a id="K05"></a>…`, as pages made by the lab have them.

A forge reads the element; for Sphinx the name takes the place of the one that is made of the heading's words.
"""

from __future__ import annotations

import re
from typing import Any

from myst_parser.slugs import github_slugify

NAMED = re.compile(r'^(#+ )<a id="([\w-]+)"></a>(.*)$', re.MULTILINE)
NAMES: dict[str, str] = {}


def slug(title: str) -> str:
    return NAMES.get(title) or github_slugify(title)


def note_names(_: Any, __: str, content: list[str]) -> None:
    NAMES.update((title.replace("`", ""), name) for _, name, title in NAMED.findall(content[0]))
    content[0] = NAMED.sub(r"\1\3", content[0])


def setup(app: Any) -> dict[str, bool]:
    app.connect("source-read", note_names)
    return {"parallel_read_safe": True}

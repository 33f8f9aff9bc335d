"""Leads the site's search from the words of docs/words.md to the places that it names beside them.

A forge shows that page as it is. For Sphinx each word is an entry of the index, in the page that its first link names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "words.md"
LINE = re.compile(r"^\| ([^|`]+) \| .*?\]\(([\w/]+)\.md(?:#([\w-]+))?\)", re.MULTILINE)


def entries(text: str) -> Iterator[tuple[str, str, str]]:
    """Words, the pages that they lead to, and where in them ('' for their beginning).

    >>> list(entries("| resume, recover | start it [again](durable.md#exactly-once) |"))
    [('resume', 'durable', 'exactly-once'), ('recover', 'durable', 'exactly-once')]
    """
    for words, page, anchor in LINE.findall(text):
        yield from ((word.strip(), page, anchor) for word in words.split(","))


def add_entries(app: Any, doctree: Any) -> None:
    from sphinx import addnodes

    app.env.note_dependency(PAGE)
    here = [one for one in entries(PAGE.read_text(encoding="utf-8")) if f"docs/{one[1]}" == app.env.docname]
    if here:
        found = [("single", word, anchor, "main", None) for word, _, anchor in here]
        doctree.append(addnodes.index(entries=found))


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", add_entries)
    return {"parallel_read_safe": True}

"""The addresses outside of the site, written down beside it: a build asks nobody, somebody may look at them later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes

NAME = "outside_links.txt"


def write_links(app: Any, error: Exception | None) -> None:
    if error is not None or app.builder.name != "html":
        return
    found = sorted(
        {
            (node["refuri"], page)
            for page in app.env.found_docs
            for node in app.env.get_doctree(page).findall(nodes.reference)
            if node.get("refuri", "").startswith(("http://", "https://")) and "//127.0.0.1" not in node["refuri"]
        }
    )
    lines = "".join(f"{address}\tin {page}.md\n" for address, page in found)
    (Path(app.outdir) / NAME).write_text(lines, encoding="utf-8")


def setup(app: Any) -> dict[str, bool]:
    app.connect("build-finished", write_links)
    return {"parallel_read_safe": True}

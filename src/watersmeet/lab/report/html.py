"""A page as one HTML file: plots and style are inside."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from watersmeet.lab.report.blocks import Block, Bullets, Heading, Image, TableBlock, TextBlock

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; margin-top: 2.2em; }
h1 { margin-top: 0; }
h2 { border-bottom: 1px solid #ccc; padding-bottom: .2em; }
table { border-collapse: collapse; margin: 1em 0; font-size: .9rem; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #ddd; padding: .3em .7em; text-align: left; vertical-align: top; }
table.numbers th + th, table.numbers td + td { text-align: right; font-variant-numeric: tabular-nums; }
img { max-width: 100%; height: auto; }
code { background: #f3f3f3; padding: .1em .3em; border-radius: 3px; font-size: .9em; overflow-wrap: anywhere; }
h1, h2, h3, li, p { overflow-wrap: break-word; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; padding: 0 .7rem; }
  h2 { font-size: 1.3rem; }
  h3 { font-size: 1.1rem; }
  table { font-size: .8rem; }
  th, td { padding: .25em .4em; min-width: 3.5rem; }
  ul { padding-left: 1.2rem; }
}
a { color: #0b62a4; }
"""


def as_html(blocks: Sequence[Block], plots: Mapping[str, str]) -> str:
    title = next((block.text for block in blocks if isinstance(block, Heading)), "")
    body = "\n".join(_block(block, plots) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n</head>\n'
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _block(block: Block, plots: Mapping[str, str]) -> str:
    match block:
        case Heading(level, text, anchor):
            return f'<h{level} id="{anchor}">{_inline(text)}</h{level}>'
        case TextBlock(text):
            return f"<p>{_inline(text)}</p>"
        case TableBlock(header, rows, numbers):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in header)
            body = "\n".join("<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in rows)
            kind = ' class="numbers"' if numbers else ""
            return f"<table{kind}>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
        case Bullets(items):
            return "<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in items) + "\n</ul>"
        case Image(name, _, about):
            data = b64encode(plots[name].encode()).decode()
            return f'<p><img alt="{escape(about)}" src="data:image/svg+xml;base64,{data}"></p>'


def _inline(text: str) -> str:
    """
    >>> _inline("a < b, **so** `x` is [here](#x)")
    'a &lt; b, <strong>so</strong> <code>x</code> is <a href="#x">here</a>'
    """
    # First: what follows puts tags in.
    text = escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"\[([^]]+)\]\(([^)]+)\)", r'<a href="\2">\1</a>', text)

"""A page as one HTML file: plots and style are inside."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape

from watersmeet.lab.report.blocks import (
    Block,
    Bullets,
    FigureRow,
    FigureTable,
    Folded,
    Heading,
    Image,
    TableBlock,
    TextBlock,
)

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
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
summary { cursor: pointer; color: #0b62a4; margin: .4em 0; }
table.figures { display: table; width: 100%; font-size: .78rem; line-height: 1.25; }
table.figures td { padding: .2em .5em; }
table.figures td.says { color: #555; }
table.figures td.verdict { font-weight: 600; min-width: 6rem; border-left: 4px solid #bbb; }
tr.reproduced td.verdict { border-color: #009e73; }
tr.reproduced-with-a-difference td.verdict { border-color: #e69f00; }
tr.not-reproduced td.verdict { border-color: #d55e00; }
table.figures td.plot { padding: 0; }
table.figures td.plot img { width: 5.5rem; max-width: none; display: block; }
@media (max-width: 40rem) {
  table.figures thead { display: none; }
  table.figures, table.figures tbody, table.figures tr, table.figures td { display: block; min-width: 0; }
  table.figures tr { border-bottom: 1px solid #bbb; padding: .6em 0; }
  table.figures td { border: 0; padding: .1em 0; }
  table.figures td.verdict { padding-left: .5em; border-left: 4px solid #bbb; }
}
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
            return f"<p>{_image(name, about, plots)}</p>"
        case FigureTable(rows):
            head = "<th>figure</th><th>the paper says</th><th>found here</th><th>verdict</th><th></th>"
            body = "\n".join(_figure(row, plots) for row in rows)
            return f'<table class="figures">\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>'
        case Folded(summary, blocks):
            inside = "\n".join(_block(one, plots) for one in blocks)
            return f"<details>\n<summary>{_inline(summary)}</summary>\n{inside}\n</details>"


def _image(name: str, about: str, plots: Mapping[str, str]) -> str:
    data = b64encode(plots[name].encode()).decode()
    return f'<img alt="{escape(about)}" src="data:image/svg+xml;base64,{data}">'


def _figure(row: FigureRow, plots: Mapping[str, str]) -> str:
    plot = _image(row.plot.name, row.plot.about, plots) if row.plot else ""
    kind = row.verdict.partition(",")[0].partition(" (")[0].replace(" ", "-")
    cells = (
        f'<td><a href="#{row.anchor}">{row.anchor}</a> {_inline(row.shows)}</td>'
        f'<td class="says">“{_inline(row.claim)}”</td><td>{_inline(row.found)}</td>'
        f'<td class="verdict">{_inline(row.verdict)}</td><td class="plot">{plot}</td>'
    )
    return f'<tr class="{kind}">{cells}</tr>'


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

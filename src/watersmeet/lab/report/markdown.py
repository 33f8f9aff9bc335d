"""A page as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

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

WIDTH = 100


def as_markdown(blocks: Sequence[Block]) -> str:
    """
    >>> from watersmeet.lab.report.blocks import TextBlock
    >>> table = TableBlock(("a", "b"), (("x", "1"),), True)
    >>> print(as_markdown([Heading(2, "Sums", "sums"), TextBlock("One **two**."), table]))
    ## <a id="sums"></a>Sums
    <BLANKLINE>
    One **two**.
    <BLANKLINE>
    | a | b |
    |---|--:|
    | x | 1 |
    <BLANKLINE>
    """
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _block(block: Block) -> str:
    match block:
        case Heading(level, text, anchor):
            return f'{"#" * level} <a id="{anchor}"></a>{text}'
        case TextBlock(text):
            return fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)
        case TableBlock(header, rows, numbers):
            rule = "|---|" + ("--:|" if numbers else "---|") * (len(header) - 1)
            return "\n".join([_row(header), rule, *map(_row, rows)])
        case Bullets(items):
            return "\n".join(fill(item, WIDTH, initial_indent="- ", subsequent_indent="  ") for item in items)
        case Image(_, path, about):
            return f"![{about}]({path})"
        case FigureTable(rows):
            head = ("figure", "the paper says", "found here", "verdict", "")
            return "\n".join([_row(head), "|---|---|---|---|---|", *(_row(_figure(row)) for row in rows)])
        case Folded(summary, blocks):
            inside = "\n\n".join(_block(one) for one in blocks)
            return f"<details>\n<summary>{summary}</summary>\n\n{inside}\n\n</details>"


def _figure(row: FigureRow) -> tuple[str, ...]:
    plot = f'<img src="{row.plot.path}" alt="{row.plot.about}" width="96">' if row.plot else ""
    return f"[{row.anchor}](#{row.anchor}) {row.shows}", f"“{row.claim}”", row.found, f"**{row.verdict}**", plot


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

"""A page as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from watersmeet.lab.report.blocks import Block, Bullets, Heading, Image, TableBlock, TextBlock

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


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

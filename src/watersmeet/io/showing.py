"""Rows for people: as lines of text that fit a screen, and as HTML for notebooks."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pyarrow as pa

from watersmeet.io.rows import python_rows
from watersmeet.model.types import is_number, sql_type

LONGEST_CELL = 40
_STYLE = "text-align:left; font-variant-numeric:tabular-nums"


def cells_of(rows: pa.Table, most: int) -> list[list[str]]:
    """The first rows as text."""
    batches = rows.slice(0, most).combine_chunks().to_batches()
    return [[_shown(value) for value in row] for batch in batches for row in python_rows(batch)]


def text_table(rows: pa.Table, *, more: str = "", width: int | None = None) -> str:
    """Rows under the names of their columns, numbers to the right. Columns beyond the width are counted, not shown."""
    width = width or shutil.get_terminal_size((80, 24)).columns
    names, cells = rows.schema.names, cells_of(rows, rows.num_rows)
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)] if names else []
    fitting = _fitting(widths, width)
    right = [is_number(field.type) for field in rows.schema]

    def line(values: Sequence[str]) -> str:
        shown = [_padded(values[i], widths[i], right=right[i]) for i in range(fitting)]
        return "  ".join(shown).rstrip()

    lines = [line(names), "  ".join("-" * size for size in widths[:fitting]), *map(line, cells)]
    hidden = len(names) - fitting
    notes = [more] if more else []
    notes += [f"{hidden} more column{'s' if hidden > 1 else ''}: {', '.join(names[fitting:])}"] if hidden else []
    return "\n".join([*lines, *(f"({note})" for note in notes)])


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many columns stand side by side, one at least."""
    total = 0
    for number, size in enumerate(widths):
        total += size + (2 if number else 0)
        if total > width and number:
            return number
    return len(widths)


def _padded(text: str, width: int, *, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def html_table(names: Sequence[str], cells: Iterable[Sequence[str]]) -> str:
    head = "".join(_cell("th", name) for name in names)
    body = "".join(f"<tr>{''.join(_cell('td', text) for text in row)}</tr>" for row in cells)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(tag: str, text: str) -> str:
    return f'<{tag} style="{_STYLE}">{escape(text)}</{tag}>'


def columns_text(schema: pa.Schema) -> str:
    """`k BIGINT, ts TIMESTAMP`"""
    return ", ".join(f"{field.name} {sql_type(field.type)}" for field in schema)


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"

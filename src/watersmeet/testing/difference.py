"""Two lots of rows that are not the same, as a person wants to see them: line by line under their columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from watersmeet.testing.rows import Row, same_row, unmatched

MOST_LINES = 40


def difference(what: str, expected: Sequence[Row], given: Sequence[Row], *, in_order: bool) -> str | None:
    """What differs, as text: `-` did not come, `+` came and was not expected; None if nothing does."""
    missing, extra = unmatched(expected, given)
    if missing or extra:
        return _sentence(what, expected, given, missing, extra)
    if in_order and not all(map(same_row, expected, given)):
        return _out_of_order(what, expected, given)
    return None


def _sentence(
    what: str, expected: Sequence[Row], given: Sequence[Row], missing: Sequence[Row], extra: Sequence[Row]
) -> str:
    head = []
    if missing:
        head.append(f"{rows_text(len(missing))} expected did not come")
    if extra:
        head.append(f"{rows_text(len(extra))} came that {'was' if len(extra) == 1 else 'were'} not expected")
    marked = [("+" if any(row is one for one in extra) else " ", row) for row in given]
    marked = [*(("-", row) for row in missing), *sorted(marked, key=lambda line: line[0] != "+")]
    return f"{what}: {', '.join(head)}\n{_drawn(marked, expected, given)}"


def _out_of_order(what: str, expected: Sequence[Row], given: Sequence[Row]) -> str:
    at = next(i for i, (one, other) in enumerate(zip(expected, given, strict=True)) if not same_row(one, other))
    marked = [(" ", row) for row in given[:at]] + [("-", expected[at]), ("+", given[at])]
    return (
        f"{what}: the rows are those expected, in another order from row {at + 1} on\n{_drawn(marked, expected, given)}"
    )


def rows_text(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _drawn(marked: Sequence[tuple[str, Row]], expected: Sequence[Row], given: Sequence[Row]) -> str:
    names = list((expected or given)[0])
    cells = [[_shown(row[name]) for name in names] for _, row in marked[:MOST_LINES]]
    widths = [max(len(line[i]) for line in [names, *cells]) for i in range(len(names))]
    lines = [_line(" ", names, widths)]
    lines += [_line(mark, line, widths) for (mark, _), line in zip(marked, cells, strict=False)]
    if len(marked) > MOST_LINES:
        lines.append(f"  … {rows_text(len(marked) - MOST_LINES)} more")
    return "\n".join(lines)


def _line(mark: str, cells: Sequence[str], widths: Sequence[int]) -> str:
    return f"{mark} {'  '.join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))}".rstrip()


def _shown(value: Any) -> str:
    return "NULL" if value is None else str(value)

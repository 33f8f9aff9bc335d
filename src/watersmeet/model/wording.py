"""Numbers and tables as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from shutil import get_terminal_size
from textwrap import wrap

Cells = list[list[str]]


def short(number: float) -> str:
    """Three digits that matter.

    >>> [short(x) for x in (0, 0.01234, 1.5, 1234.5, 2.5e6, 2.5e11)]
    ['0', '0.0123', '1.5', '1,230', '2,500,000', '2.5e+11']
    """
    if not number:
        return "0"
    if abs(number) >= 1e10:
        return f"{number:.3g}"
    # Through a float again, as .3g alone would write 1.23e+03.
    rounded = float(f"{number:.3g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.12g}"


def counted(number: int, what: str, several: str | None = None) -> str:
    """
    >>> counted(1, "row"), counted(1_200, "row"), counted(2, "batch", "batches")
    ('1 row', '1,200 rows', '2 batches')
    """
    return f"{number:,} {what if number == 1 else several or what + 's'}"


def listed(names: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def in_bytes(size: float) -> str:
    """
    >>> in_bytes(512), in_bytes(2_500_000)
    ('512 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{short(size)} {unit}"
        size /= 1000
    return f"{short(size)} GB"


def time_a_second(ns: float) -> str:
    """Nanoseconds a second, readably.

    >>> time_a_second(420), time_a_second(2_350_000)
    ('420 ns', '2.35 ms')
    """
    for unit in ("ns", "µs", "ms"):
        if ns < 1000:
            return f"{short(ns)} {unit}"
        ns /= 1000
    return f"{short(ns)} s"


def fitted(text: str, indent: int = 2, width: int | None = None) -> str:
    """Each line of a text cut into some that fit the terminal, or 80 columns where there is none; what follows the
    first is indented, beyond what the line is by itself.

    >>> print(fitted("one two three four five six\\n  seven eight nine ten", width=20))
    one two three four
      five six
      seven eight nine
        ten
    """
    columns = get_terminal_size((80, 24)).columns if width is None else width
    cut = []
    for line in text.splitlines():
        own = line[: len(line) - len(line.lstrip())]
        # Names and paths stay whole, however long: they are there to be copied.
        more = own + " " * indent
        cut += wrap(
            line.lstrip(),
            max(columns, 20),
            initial_indent=own,
            subsequent_indent=more,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]
    return "\n".join(cut)


def aligned(rows: Cells, left: int) -> list[str]:
    """Words to the left in the first columns, numbers to the right in the others."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

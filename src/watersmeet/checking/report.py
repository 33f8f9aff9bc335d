"""The outcome of a check, as a value and as text of at most 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from io import StringIO
from textwrap import fill
from typing import Any, TextIO

from watersmeet.checking.compare import differences, surplus
from watersmeet.dataclass import dataclass
from watersmeet.model.time import format_instant

Row = tuple[Any, ...]
WIDTH = 80
MOST_ROWS = 20  # of either answer


@dataclass(frozen=True)
class Difference:
    """The first instant at which the answers differ (None for a join that only grows), and both answers."""

    at_us: int | None
    number: int
    columns: tuple[str, ...]
    engine: tuple[Row, ...]
    expected: tuple[Row, ...]


@dataclass(frozen=True)
class Report:
    """`by` recomputed the answer at `instants` instants; `rows` rows were compared. `instead` says why DuckDB was not
    asked, if it was not. At `settled` instants the reference decided, because DuckDB's floating sums were too far off.
    `late` rows, by stream, came too late: the engine dropped them, and they are not among `rows_in`. `shared` is what
    both answers go by and a check cannot show: how these words of the query were read.
    """

    by: str
    rows_in: Mapping[str, int]
    instants: int
    rows: int
    instead: str | None = None
    settled: int = 0
    difference: Difference | None = None
    late: Mapping[str, int] = field(default_factory=dict)
    shared: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether both answers are the same, at every instant."""
        return self.difference is None

    def __str__(self) -> str:
        out = StringIO()
        show(self, out)
        return out.getvalue().rstrip("\n")


def show(report: Report, out: TextIO, *, after: int = 0) -> None:
    """Tell the outcome; so many columns of the first line are already written."""
    for paragraph in _sentences(report):
        # Folded as if the line began at its margin, which is then cut off.
        out.write(fill(paragraph, WIDTH, initial_indent=" " * after)[after:] + "\n")
        after = 0
    if report.difference is not None:
        _draw(report.difference, report.by, out)


def _sentences(report: Report) -> list[str]:
    inputs = ", ".join(f"{rows:,} of {name}" for name, rows in report.rows_in.items())
    asked = f"recomputed by {report.by} over the rows ({inputs})"
    sentences = [_verdict(report, asked)]
    if report.late:
        came = ", ".join(f"{rows:,} of {name}" for name, rows in report.late.items())
        sentences.append(
            f"Late rows are in neither answer ({came}): a larger lateness, or no read = 'arrival' where rows are at "
            f"hand, would keep them."
        )
    if report.instead is not None:
        sentences.append(f"DuckDB was not used because of {report.instead}.")
    if report.settled:
        sentences.append(
            f"At {report.settled:,} of these the reference decided: DuckDB rounds sums of floating numbers differently."
        )
    if report.shared:
        sentences.append(
            f"Both answers share one reading of the text, which this does not check: {', '.join(report.shared)}."
        )
    return sentences


def _verdict(report: Report, asked: str) -> str:
    wrong = report.difference
    if wrong is None and report.instants:
        return f"equal at all {report.instants:,} instants, {report.rows:,} rows compared; {asked}"
    if wrong is None:
        return f"equal, {report.rows:,} rows compared; {asked}"
    if wrong.at_us is None:
        return f"different; {asked}"
    return (
        f"different at {format_instant(wrong.at_us)}, which is instant {wrong.number:,} of {report.instants:,}; the "
        f"answers before it are equal; {asked}"
    )


def _draw(wrong: Difference, by: str, out: TextIO) -> None:
    """Both answers side by side: first the rows that stand on one side only, marked, then those on both."""
    from rich.console import Console
    from rich.table import Table

    only_engine, only_expected = differences(wrong.engine, wrong.expected)
    shared = surplus(wrong.engine, only_engine)
    table = Table(width=WIDTH, title=", ".join(wrong.columns), title_justify="left")
    table.add_column("the engine", ratio=1)
    table.add_column(by, ratio=1)
    lines = [(_text(row), _text(row)) for row in _sorted(shared)]
    alone = max(len(only_engine), len(only_expected))
    left = _padded(only_engine, alone) if wrong.engine else ["no rows"] + [""] * (alone - 1)
    right = _padded(only_expected, alone) if wrong.expected else ["no rows"] + [""] * (alone - 1)
    lines = [*zip(left, right, strict=True), *lines]
    for pair in lines[:MOST_ROWS]:
        table.add_row(*pair)
    Console(file=out, width=WIDTH, markup=False, highlight=False).print(table)
    if len(lines) > MOST_ROWS:
        out.write(f"… {len(lines) - MOST_ROWS:,} more lines\n")


def _padded(rows: Sequence[Row], length: int) -> list[str]:
    texts = [f"≠ {_text(row)}" for row in _sorted(rows)]
    return texts + [""] * (length - len(texts))


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=_text)


def _text(row: Row) -> str:
    return ", ".join("NULL" if value is None else str(value) for value in row)

"""Every error a user can meet: one root, one class per phase of a query's life."""

from __future__ import annotations

from typing import Self

LONGEST_LINE = 200


class WatersmeetError(Exception):
    """The root. Its text says what is wrong, what was given and what would do."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\nhint: {self.hint}"


class SqlError(WatersmeetError):
    """Something in the SQL text; shows the line and underlines the place when it is known."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        sql: str | None = None,
        span: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.sql = sql
        self.span = span

    def at(self, sql: str, span: tuple[int, int] | None) -> Self:
        """The same error, with its place in a text unless it has one."""
        # Errors pass through several hands on their way up, and the first to know the place is nearest to it.
        if self.sql is None:
            self.sql, self.span = sql, span
        return self

    def __str__(self) -> str:
        parts = [self.message]
        if self.sql is not None and self.span is not None:
            parts.append(underline(self.sql, self.span))
        if self.hint is not None:
            parts.append(f"hint: {self.hint}")
        return "\n".join(parts)


class ParseError(SqlError):
    """The text is not in the language."""


class BindError(SqlError):
    """The text is well formed but names or types do not fit the catalog."""


class WindowError(SqlError):
    """The windows contradict each other, or leave a stream unbounded. It carries what it is about, by which the binder
    finds the place: the alias of an input, or the words of the constraints at fault."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        sql: str | None = None,
        span: tuple[int, int] | None = None,
        alias: str | None = None,
        written: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint=hint, sql=sql, span=span)
        self.alias = alias
        self.written = written


class OptionError(SqlError):
    """An OPTIONS or WITH entry is unknown or has a value that makes no sense; `option` is its name if known."""

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        sql: str | None = None,
        span: tuple[int, int] | None = None,
        option: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, sql=sql, span=span)
        self.option = option


class PlanError(WatersmeetError):
    """A plan that makes no sense. SQL never becomes one; code that makes or rewrites plans may try to."""


class UnsupportedError(SqlError):
    """A valid query that this version cannot run yet."""


class CatalogError(WatersmeetError):
    """A stream, table or sink is declared wrongly or twice."""


class SourceError(WatersmeetError):
    """An input cannot be opened or read, or its schema is not the declared one."""


class DataError(WatersmeetError):
    """The rows themselves break a promise, such as a NULL event time."""

    group: int | None = None  # the number of the group that it is about, until whoever knows its keys has named it


class StaleResultsError(WatersmeetError):
    """Results of a join were asked for after its windows had moved on."""


class SinkError(WatersmeetError):
    """An output cannot be created or written."""


class RunError(WatersmeetError):
    """A run that rows are pushed into cannot take them: it has ended, or its answers wait for somebody to take them."""


class SetupError(WatersmeetError):
    """Something that must be installed or set up around the library is missing or too old."""


class UnsafeFolderError(SetupError):
    """A folder for scratch files that somebody else could have prepared, or could still change."""


def underline(sql: str, span: tuple[int, int]) -> str:
    """The line of `sql` that holds `span` (start, end offsets), with carets beneath it; of a long line a part."""
    start = max(0, min(span[0], len(sql)))
    end = max(start + 1, span[1])
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line_end = len(sql) if line_end < 0 else line_end
    number = sql.count("\n", 0, start) + 1
    margin = f"line {number}: "
    # The place is in the middle of what is shown, except near the ends of the line.
    shown_from = max(line_start, min(start - LONGEST_LINE // 2, line_end - LONGEST_LINE))
    shown_to = min(line_end, shown_from + LONGEST_LINE)
    before, after = "…" if shown_from > line_start else "", "…" if shown_to < line_end else ""
    # A span may go on in the next lines; the carets end with the line.
    carets = max(1, min(end, shown_to) - start)
    indent = " " * (len(margin) + len(before) + start - shown_from)
    return f"{margin}{before}{sql[shown_from:shown_to]}{after}\n{indent}{'^' * carets}"

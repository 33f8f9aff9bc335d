"""A select list over a few rows of one stream, with its filters, in one call; NULLs and all but numbers go the usual
way (Select)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from watersmeet.operators.answers import FewAnswers
from watersmeet.operators.contract import Rows
from watersmeet.operators.few_columns import Addresses, FewColumns
from watersmeet.operators.formulas import DOUBLE, INT64, Formulas, NoFormulaError
from watersmeet.operators.kernels import formulas as kernel
from watersmeet.operators.kernels.memory import address
from watersmeet.plan.expressions import Column, Expression


class FewSelect:
    def __init__(
        self, predicates: Sequence[Expression], columns: Sequence[tuple[str, Expression]], schema: pa.Schema
    ) -> None:
        """Raises NoFormulaError if something is no formula of numbers."""
        self.schema = schema
        self._read: list[Column] = []
        formulas = Formulas(self._source)
        self._tests = formulas.add_all(list(predicates))
        self._columns = np.array([_column(formulas, e) for _, e in columns], np.int64)
        self._steps = np.array(formulas.steps, np.int64).reshape(-1, 2)
        self._doubles = np.array(formulas.doubles, np.float64)
        self._given = FewColumns(pa.schema([]))
        self._places: list[int] | None = None  # of what is read among the columns that are given, if all are there

    def _source(self, column: Column) -> int:
        if column not in self._read:
            self._read.append(column)
        return self._read.index(column)

    def take(self, rows: Rows) -> FewAnswers | None:
        """The rows that are chosen; None if these go the usual way."""
        laid, count = self._given.addresses(rows), rows.times.size
        if laid is None:
            laid = self._expect(rows)
        if self._places is None:
            return None
        sources = laid[self._places]
        if not sources.all():
            return None
        words = np.empty((len(self._columns), count), np.int64)
        out = address(words)
        chosen = kernel.choose(self._steps, self._doubles, self._tests, self._columns, sources, count, words, out)
        if chosen < 0:
            return None
        return FewAnswers(self.schema, words if chosen == count else words[:, :chosen])

    def _expect(self, rows: Rows) -> Addresses:
        """Rows have these columns from now on."""
        schema = rows.data.schema
        self._given = FewColumns(schema)
        known = all(schema.field(one.name).type == one.type for one in self._read)
        self._places = [1 + schema.get_field_index(one.name) for one in self._read] if known else None
        laid = self._given.addresses(rows)
        assert laid is not None
        return laid


def _column(formulas: Formulas, expression: Expression) -> tuple[int, int, bool]:
    if isinstance(expression, Column):
        return *formulas.add_column(expression), False
    if expression.type not in (DOUBLE, INT64):
        raise NoFormulaError
    return *formulas.add(expression, expression.type), expression.type == DOUBLE


def few_select(
    predicates: Sequence[Expression], columns: Sequence[tuple[str, Expression]], schema: pa.Schema
) -> FewSelect | None:
    try:
        return FewSelect(predicates, columns, schema)
    except NoFormulaError:
        return None

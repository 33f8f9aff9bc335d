"""Rows of a stream as joins let them in that keep them together: looked at once, and taken where a join needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.physical.strategy import Code
from watersmeet.plan.expressions import Column, Expression, columns_of, replaced
from watersmeet.plan.identity import expression_text

if TYPE_CHECKING:
    from watersmeet.operators.join.shared_window import WindowView


@dataclass(frozen=True)
class LetIn:
    """The rows of a piece that a way lets in, and which of the piece they are (None: all). Their codes by the codes'
    texts, and those of the whole piece, if they could be told without looking at who is let in."""

    rows: Rows
    codes: Mapping[str, Codes]
    mask: Mask | None
    of_all: Mapping[str, Codes] | None = None

    def codes_for(self, texts: Mapping[Code, str]) -> Mapping[Code, Codes]:
        return _Renamed(self.codes, texts)


class Way:
    """How joins let rows of a stream in: by the same filters, and the same codes that may not be NULL."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._texts = {code: neutral_text(code.expression) for code in admission.codes}
        tested = (*admission.filters, *(code.expression for code in admission.codes))
        self._columns = {column.name for one in tested for column in columns_of(one)}
        self.views: list[WindowView] = []
        self.came: LetIn | Exception | None = None  # of the piece that came last

    def let_in(self, rows: Rows) -> None:
        """What is wrong with some rows is so for the joins that look at them, and for no others."""
        try:
            self.came = self._let_in(rows.only(self._columns))
        except Exception as error:
            self.came = error

    def _let_in(self, rows: Rows) -> LetIn:
        told = self._admission.told_of_all(rows)
        if told is None:
            found, codes, places = self._admission.admit(rows)
            mask: Mask | None = None
            if places is not None:
                mask = np.zeros(len(rows), np.bool_)
                mask[places] = True
            return LetIn(found, {self._texts[code]: values for code, values in codes.items()}, mask)
        of_all = {self._texts[code]: values for code, values in told[1].items()}
        mask = told[0]
        if mask is None:
            return LetIn(rows, of_all, None, of_all)
        return LetIn(_RowsWhere(rows, mask), _CodesWhere(of_all, mask), mask, of_all)

    def join(self, view: WindowView) -> None:
        """One more goes this way."""
        self.views.append(view)
        self._columns |= view.shown


class _RowsWhere(Rows):
    """Some of the rows of a piece, which are taken when somebody looks at them."""

    def __init__(self, rows: Rows, mask: Mask) -> None:
        self.__dict__.update(_of=rows, _mask=mask, _count=int(np.count_nonzero(mask)), coded=None)

    def __len__(self) -> int:
        count: int = self.__dict__["_count"]
        return count

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name not in ("data", "times") or "_of" not in own:
            raise AttributeError(name)
        taken = own["_of"].take(np.flatnonzero(own["_mask"]))
        own["data"], own["times"] = taken.data, taken.times
        return own[name]


class _CodesWhere(Mapping[str, Codes]):
    """Their codes."""

    def __init__(self, of_all: Mapping[str, Codes], mask: Mask) -> None:
        self._of_all, self._mask = of_all, mask

    def __getitem__(self, text: str) -> Codes:
        return self._of_all[text][self._mask]

    def __iter__(self) -> Iterator[str]:
        return iter(self._of_all)

    def __len__(self) -> int:
        return len(self._of_all)


class _Renamed(Mapping[Code, Codes]):
    """Codes as a join calls them."""

    def __init__(self, codes: Mapping[str, Codes], texts: Mapping[Code, str]) -> None:
        self._codes, self._texts = codes, texts

    def __getitem__(self, code: Code) -> Codes:
        return self._codes[self._texts[code]]

    def __iter__(self) -> Iterator[Code]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def neutral_text(expression: Expression) -> str:
    """An expression over one input, whatever that is called."""

    def without_alias(part: Expression) -> Expression | None:
        return Column("", part.name, part.type) if isinstance(part, Column) else None

    return expression_text(replaced(expression, without_alias))

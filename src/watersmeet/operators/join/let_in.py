"""Rows of a stream as joins let them in that keep them together: looked at once, and taken where a join needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from watersmeet.dataclass import dataclass
from watersmeet.operators.codes import Codes, Mask
from watersmeet.operators.contract import Rows
from watersmeet.operators.join.admission import Admission
from watersmeet.physical.strategy import Code


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


def let_in(admission: Admission, rows: Rows, texts: Mapping[Code, str]) -> LetIn:
    """What comes in of a piece."""
    told = admission.told_of_all(rows)
    if told is None:
        found, codes, places = admission.admit(rows)
        mask: Mask | None = None
        if places is not None:
            mask = np.zeros(len(rows), np.bool_)
            mask[places] = True
        return LetIn(found, {texts[code]: values for code, values in codes.items()}, mask)
    mask = told[0]
    of_all = {texts[code]: values for code, values in told[1].items()}
    if mask is None:
        return LetIn(rows, of_all, None, of_all)
    return LetIn(_RowsWhere(rows, mask), _CodesWhere(of_all, mask), mask, of_all)


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

"""How much memory a query may use: in rows, or in bytes."""

from __future__ import annotations

import re
from dataclasses import field

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError

_UNITS = {
    "bytes": 1,
    "byte": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_MOST = 2**62
_MEMORY = re.compile(r"(?P<number>\d[\d_,]*(?:\.\d+)?)\s*(?P<unit>[a-z]+)?", re.IGNORECASE)


@dataclass(frozen=True)
class Memory:
    """A bound on the rows kept, or on the bytes they take; one of the two is None. `written` is how it was given,
    `whole` that of a script of which this is the part of one query."""

    rows: int | None = None
    size: int | None = None
    written: str = field(default="", repr=False, compare=False)
    whole: Memory | None = field(default=None, repr=False, compare=False)

    @property
    def amount(self) -> int:
        return (self.rows if self.size is None else self.size) or 0

    @classmethod
    def parse(cls, text: str) -> Memory:
        """
        >>> Memory.parse("100000 rows"), Memory.parse("1.5 MB")
        (Memory(rows=100000, size=None), Memory(rows=None, size=1500000))
        """
        found = _MEMORY.fullmatch(text.strip())
        number = float(re.sub("[_,]", "", found["number"])) if found else 0.0
        unit = (found["unit"] or "").lower() if found else ""
        most = number * _UNITS.get(unit, 1)
        if found and most >= _MOST:
            raise OptionError(f"option memory = {text!r} is more than this system can count", option="memory")
        if unit in ("rows", "row") and number.is_integer():
            return cls(rows=int(number), written=text)
        if unit in _UNITS:
            return cls(size=int(most), written=text)
        raise OptionError(
            f"option memory = {text!r} is neither a number of rows nor of bytes",
            hint="write memory = '100000 rows', or memory = '64 MB'",
            option="memory",
        )

    def shared(self, parts: int, least: int) -> Memory:
        """The share of each of so many parts, but never fewer rows than `least`.

        >>> Memory(rows=100).shared(8, 2), Memory(rows=10).shared(8, 2)
        (Memory(rows=12, size=None), Memory(rows=2, size=None))
        """
        if self.size is not None:
            # No least in bytes: what a row takes is not known here.
            return Memory(size=self.size // parts)
        assert self.rows is not None
        return Memory(rows=max(self.rows // parts, least))

    @property
    def text(self) -> str:
        """As it was given."""
        return self.written or str(self)

    def part(self, amount: int) -> Memory:
        """So much of it, for one of those who share it.

        >>> Memory(rows=100).part(30)
        Memory(rows=30, size=None)
        """
        return Memory(rows=amount, whole=self) if self.size is None else Memory(size=amount, whole=self)

    def __str__(self) -> str:
        return f"{self.rows} rows" if self.size is None else f"{self.size} bytes"

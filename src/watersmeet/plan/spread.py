"""Which keys have too many rows for one place, as OPTIONS (spread = …) says it."""

from __future__ import annotations

import csv
import re

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError

_OF_STREAM = re.compile(r"\s*(?P<alias>[^\W\d]\w*)\s*:(?P<values>.*)", re.DOTALL)
HINT = "write the values of the key: spread = '17, 42', or spread = 'orders: 17, 42' to have rows of orders dealt out"


@dataclass(frozen=True)
class Spread:
    """The values as texts, and the stream whose rows are dealt out, if it is said."""

    values: tuple[str, ...]
    split: str | None = None

    @staticmethod
    def parse(text: str) -> Spread:
        """
        >>> Spread.parse("17, 42"), Spread.parse('b: New York, "a, b"')
        (Spread(values=('17', '42'), split=None), Spread(values=('New York', 'a, b'), split='b'))
        """
        of = _OF_STREAM.fullmatch(text)
        split, listed = (of["alias"], of["values"]) if of else (None, text)
        values = [one.strip() for one in next(csv.reader([listed], skipinitialspace=True), [])]
        if not any(values):
            raise OptionError(f"option spread = {text!r} names no key", hint=HINT, option="spread")
        return Spread(tuple(dict.fromkeys(values)), split)

    def __str__(self) -> str:
        """As it may be written.

        >>> said = Spread(("New York", "a, b", 'c"d', "x: y"), "b")
        >>> Spread.parse(str(said)) == said, Spread.parse(str(Spread(("x: y", "z")))) == Spread(("x: y", "z"))
        (True, True)
        >>> str(Spread(("17", "42"), "b"))
        'b: 17, 42'
        """
        listed = ", ".join(map(quoted, self.values))
        return listed if self.split is None else f"{self.split}: {listed}"


def quoted(value: str) -> str:
    """As a value among others, which commas set apart.

    >>> quoted("Paris"), quoted("New York, NY")
    ('Paris', '"New York, NY"')
    """
    plain = value == value.strip() and not any(sign in value for sign in ',":')
    return value if plain and value else '"' + value.replace('"', '""') + '"'

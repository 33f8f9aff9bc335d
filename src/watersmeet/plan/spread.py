"""Which keys have too many rows for one place, as OPTIONS (spread = …) says it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from watersmeet.dataclass import dataclass
from watersmeet.errors import OptionError

_OF_STREAM = re.compile(r"\s*(?P<alias>[^\W\d]\w*)\s*:(?P<values>.*)", re.DOTALL)
_VALUE = re.compile(r'\s*(?:"(?P<quoted>(?:[^"]|"")*)"\s*|(?P<plain>[^,]*))(?P<end>,|\Z)')
HINT = "write the values of the key: spread = '17, 42', or spread = 'orders: 17, 42' to have rows of orders dealt out"


@dataclass(frozen=True)
class Spread:
    """The values as texts, and the stream whose rows are dealt out, if it is said."""

    values: tuple[str, ...]
    split: str | None = None

    @staticmethod
    def parse(text: str) -> Spread:
        """
        >>> Spread.parse("17, 42"), Spread.parse('b: New York, "a, b", " c"')
        (Spread(values=('17', '42'), split=None), Spread(values=('New York', 'a, b', ' c'), split='b'))
        """
        of = _OF_STREAM.fullmatch(text)
        split, listed = (of["alias"], of["values"]) if of else (None, text)
        values = list(_values(listed))
        if not any(values):
            raise OptionError(f"option spread = {text!r} names no key", hint=HINT, option="spread")
        return Spread(tuple(dict.fromkeys(values)), split)

    def __str__(self) -> str:
        """As it may be written.

        >>> said = Spread(("New York", "a, b", 'c"d', "x: y", " z ", '"'), "b")
        >>> Spread.parse(str(said)) == said, Spread.parse(str(Spread(("x: y", "z")))) == Spread(("x: y", "z"))
        (True, True)
        >>> str(Spread(("17", "42"), "b"))
        'b: 17, 42'
        """
        listed = ", ".join(map(quoted, self.values))
        return listed if self.split is None else f"{self.split}: {listed}"


def _values(listed: str) -> Iterator[str]:
    """
    >>> list(_values('17, "a, ""b"" " ,  c ,'))
    ['17', 'a, "b" ', 'c', '']
    """
    at = 0
    while True:
        found = _VALUE.match(listed, at)
        assert found is not None  # anything up to the next comma is a value
        inside = found["quoted"]
        yield found["plain"].strip() if inside is None else inside.replace('""', '"')
        if found["end"] != ",":
            return
        at = found.end()


def quoted(value: str) -> str:
    """As a value among others, which commas set apart.

    >>> quoted("Paris"), quoted("New York, NY")
    ('Paris', '"New York, NY"')
    """
    plain = value == value.strip() and not any(sign in value for sign in ',":')
    return value if plain and value else '"' + value.replace('"', '""') + '"'

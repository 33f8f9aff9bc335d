"""Text in pictures: made visible, measured in cells of a fixed width, and folded so that none of it is cut off."""

from __future__ import annotations

from collections.abc import Iterator
from unicodedata import category, east_asian_width

from watersmeet.dataclass import dataclass

# Wider than in the fixed-width fonts that machines have, so that text stays inside whatever is drawn around it.
CELL = 0.617
SIZE = 12.0
LEADING = 16.0


@dataclass(frozen=True)
class Line:
    """A line that fits: its text, by how many cells it is set in, and whether it is a title or a remark."""

    text: str
    indent: int = 0
    look: str = ""

    @property
    def width(self) -> float:
        return (self.indent + cells(self.text)) * cell_of(self.look)


def cell_of(look: str) -> float:
    """How wide a character is, in a title more."""
    return CELL * (SIZE + 1 if look == "title" else SIZE)


def visible(text: str) -> str:
    """The same with all that would not be seen, would turn the text around or has no place in XML written out.

    >>> visible("a\\u202eb\\x00 c")
    'a\\\\u202eb\\\\x00 c'
    """
    return "".join(one if _is_seen(one) else one.encode("unicode_escape").decode("ascii") for one in text)


def _is_seen(one: str) -> bool:
    # Cc, Cf, Co, Cs and Cn; lines and paragraphs end nowhere but where we end them.
    return one == " " or category(one)[0] not in "CZ"


def cells(text: str) -> int:
    """How many cells a text takes; what is not ASCII may come from another font, so it is given two.

    >>> cells("a→b"), cells("流")
    (4, 2)
    """
    return sum(1 if one.isascii() or (east_asian_width(one) == "Na") else 2 for one in text)


def folded(text: str, width: int, hang: int = 2) -> Iterator[tuple[int, str]]:
    """The text as lines of so many cells at most, each with its indent; words that are longer are broken.

    >>> list(folded("a.visitor = b.visitor", 12))
    [(0, 'a.visitor ='), (2, 'b.visitor')]
    """
    indent, line = 0, ""
    for word in visible(" ".join(text.split())).split(" "):
        for piece in _pieces(word, width - hang):
            longer = f"{line} {piece}" if line else piece
            if line and indent + cells(longer) > width:
                yield indent, line
                indent, line = hang, piece
            else:
                line = longer
    yield indent, line


def _pieces(word: str, width: int) -> Iterator[str]:
    """A word, or as many pieces of it as it takes."""
    piece, used = "", 0
    for one in word:
        if used + cells(one) > width:
            yield piece
            piece, used = "", 0
        piece, used = piece + one, used + cells(one)
    yield piece


def lines_of(text: str, width: int, look: str = "", indent: int = 0) -> list[Line]:
    """A text of one look, folded."""
    return [Line(line, indent + hang, look) for hang, line in folded(text, width - indent)]

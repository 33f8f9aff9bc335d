"""The elements of a picture. ElementTree writes them, so that no name or value can end what it stands in."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from watersmeet.pictures.style import CSS
from watersmeet.pictures.text import LEADING, Line, cell_of, visible


def number(value: float) -> str:
    """A coordinate, always written alike.

    >>> number(12.0), number(1.25), number(-0.01)
    ('12', '1.2', '0')
    """
    return f"{round(value, 1) or 0:g}" if abs(value) < 1e5 else f"{value:.0f}"


def picture(width: float, height: float, title: str, description: Iterable[str], more_css: str = "") -> Element:
    """An empty picture of that size, with what it is in words for those who do not see it."""
    size = (number(width), number(height))
    root = Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "class": "wm-picture",
            "width": size[0],
            "height": size[1],
            "viewBox": f"0 0 {size[0]} {size[1]}",
            "role": "img",
        },
    )
    SubElement(root, "title").text = visible(title)
    SubElement(root, "desc").text = "\n".join(map(visible, description))
    SubElement(root, "style").text = CSS + more_css
    SubElement(root, "rect", {"class": "wm-ground", "width": size[0], "height": size[1]})
    return root


def written(root: Element) -> str:
    return tostring(root, encoding="unicode") + "\n"


def text(parent: Element, x: float, y: float, line: Line, *, anchor: str = "") -> Element:
    """A line of text, y being that of its baseline."""
    look = {"class": f"wm-{line.look}"} if line.look else {}
    where = {"x": number(x + line.indent * cell_of(line.look)), "y": number(y), **look}
    if anchor:
        where["text-anchor"] = anchor
    if not line.text.isascii():
        # From whatever font it comes, it takes the room that was measured for it.
        where["textLength"] = number(line.width - line.indent * cell_of(line.look))
        where["lengthAdjust"] = "spacingAndGlyphs"
    made = SubElement(parent, "text", where)
    made.text = line.text
    return made


def lines(parent: Element, x: float, top: float, told: Iterable[Line]) -> None:
    """Lines below each other."""
    for row, line in enumerate(told):
        text(parent, x, top + row * LEADING + 12, line)

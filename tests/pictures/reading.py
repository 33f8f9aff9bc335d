"""What a picture says, read from its SVG."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from watersmeet.pictures.text import SIZE

SVG = "{http://www.w3.org/2000/svg}"
# What fixed-width fonts take for a character; those of Chromium on Debian take exactly this.
FONT_CELL = 0.602


@dataclass(frozen=True)
class Area:
    x: float
    y: float
    width: float
    height: float

    def meets(self, other: Area) -> bool:
        apart_x = self.x + self.width <= other.x or other.x + other.width <= self.x
        return not (apart_x or self.y + self.height <= other.y or other.y + other.height <= self.y)

    def holds(self, other: Area) -> bool:
        return (
            self.x <= other.x
            and other.x + other.width <= self.x + self.width + 0.1
            and self.y <= other.y
            and other.y + other.height <= self.y + self.height + 0.1
        )


def parsed(svg: str) -> Element:
    return ElementTree.fromstring(svg)


def whole(root: Element) -> Area:
    return Area(0, 0, float(root.attrib["width"]), float(root.attrib["height"]))


def boxes(root: Element) -> list[tuple[Area, list[Area]]]:
    """Every box with where its lines of text stand."""
    found = []
    for group in root.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect[@class='wm-box']")
        if rect is not None:
            area = Area(*(float(rect.attrib[name]) for name in ("x", "y", "width", "height")))
            found.append((area, [text_area(one) for one in group.iter(f"{SVG}text")]))
    return found


def texts(root: Element) -> list[tuple[str, Area]]:
    return [(one.text or "", text_area(one)) for one in root.iter(f"{SVG}text")]


def text_area(one: Element) -> Area:
    size = SIZE + (one.get("class") == "wm-title")
    text = one.text or ""
    given = one.get("textLength")
    assert given is not None or text.isascii()
    width = float(given) if given is not None else len(text) * size * FONT_CELL
    x = float(one.attrib["x"])
    start = {"middle": x - width / 2, "end": x - width}.get(one.get("text-anchor", ""), x)
    return Area(start, float(one.attrib["y"]) - 0.75 * size, width, size)

"""The elements of a picture. ElementTree writes them, so that no name or value can end what it stands in."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree.ElementTree import Element, SubElement, tostring

from watersmeet.pictures.text import LEADING, SIZE, Line, cell_of, visible

# Names of our own, as the style of a picture inside a page is that of the whole page.
CSS = f"""
.wm-picture{{--wm-ground:#fff;--wm-raised:#f4f6f8;--wm-line:#b9c3cd;--wm-text:#16202a;--wm-quiet:#52606d;
--wm-one:#0b62a8;--wm-two:#a84300;--wm-bad:#b00020;--wm-good:#1b6e3c}}
@media (prefers-color-scheme:dark){{.wm-picture{{--wm-ground:#10161c;--wm-raised:#1a222b;--wm-line:#4a5866;
--wm-text:#e8edf2;--wm-quiet:#a3b1bf;--wm-one:#6bb5f5;--wm-two:#f0a066;--wm-bad:#ff8a95;--wm-good:#7bd3a0}}}}
.wm-picture text{{font:{SIZE:g}px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:var(--wm-text);white-space:pre}}
.wm-picture .wm-title{{font-size:{SIZE + 1:g}px;font-weight:700}}
.wm-picture .wm-quiet{{fill:var(--wm-quiet)}}
.wm-picture .wm-ground{{fill:var(--wm-ground)}}
.wm-picture .wm-box{{fill:var(--wm-raised);stroke:var(--wm-line)}}
.wm-picture .wm-edge{{fill:none;stroke:var(--wm-quiet);stroke-width:1.2}}
.wm-picture .wm-head{{fill:var(--wm-quiet)}}
.wm-picture .wm-mark{{fill:var(--wm-quiet)}}
.wm-picture .wm-mark-stream,.wm-picture .wm-mark-table{{fill:var(--wm-one)}}
.wm-picture .wm-mark-join{{fill:var(--wm-two)}}
""".strip().replace("\n", "")


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


def lines(parent: Element, x: float, top: float, texts: Iterable[Line]) -> None:
    """Lines below each other."""
    for row, line in enumerate(texts):
        text(parent, x, top + row * LEADING + 12, line)

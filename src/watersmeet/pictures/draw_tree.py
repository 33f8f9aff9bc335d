"""A tree of boxes as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element, SubElement

from watersmeet.pictures import svg
from watersmeet.pictures.svg import number
from watersmeet.pictures.text import LEADING, Line, lines_of
from watersmeet.pictures.tree import MARGIN, PADDING, Box, Edge, Told, laid_out

NOTE_WIDTH = 100  # cells of a note below the tree


def tree_svg(title: str, root: Told, notes: Sequence[str] = ()) -> str:
    """The tree, and below it notes that are of no single box."""
    layout = laid_out(root)
    told = [line for note in notes for line in lines_of(note, NOTE_WIDTH, "quiet", len(note) - len(note.lstrip()))]
    width = max(layout.width, max((line.width for line in told), default=0.0) + 2 * MARGIN)
    height = layout.height + (len(told) * LEADING + MARGIN if told else 0.0)
    picture = svg.picture(width, height, title, [*description(root), *notes])
    for edge in layout.edges:
        _draw_edge(picture, edge)
    for box in layout.boxes:
        _draw_box(picture, box)
    svg.lines(picture, MARGIN, layout.height, told)
    return svg.written(picture)


def description(told: Told, depth: int = 0) -> Iterator[str]:
    """The tree in words, the root first."""
    on_edge = [part for part in (told.above, told.below) if part]
    said = "; ".join([told.title, *told.lines, *told.remarks, *on_edge])
    yield "  " * depth + said
    for child in told.children:
        yield from description(child, depth + 1)


def edge_path(edge: Edge) -> str:
    """Straight along its labels, then a curve into the box."""
    (x, y), (to_x, to_y) = edge.start, edge.end
    middle = (edge.straight_to + to_x) / 2
    curve = f"C{number(middle)} {number(y)} {number(middle)} {number(to_y)} {number(to_x)} {number(to_y)}"
    return f"M{number(x)} {number(y)}H{number(edge.straight_to)}{curve}"


def label_places(edge: Edge) -> Iterator[tuple[float, float, Line]]:
    """Where the lines on an edge stand: those above it upwards from it, those below it downwards."""
    x, y = edge.label_x, edge.start[1]
    for row, line in enumerate(reversed(edge.above)):
        yield x, y - 6 - row * LEADING, line
    for row, line in enumerate(edge.below):
        yield x, y + 14 + row * LEADING, line


def _draw_edge(picture: Element, edge: Edge) -> None:
    SubElement(picture, "path", {"class": "wm-edge", "d": edge_path(edge)})
    x, y = edge.end
    SubElement(picture, "path", {"class": "wm-head", "d": f"M{number(x)} {number(y)}l-7 -4v8z"})
    for label_x, label_y, line in label_places(edge):
        svg.text(picture, label_x, label_y, line)


def _draw_box(picture: Element, box: Box) -> None:
    group = SubElement(picture, "g")
    place = {"x": number(box.x), "y": number(box.y), "height": number(box.height)}
    SubElement(group, "rect", {"class": "wm-box", **place, "width": number(box.width), "rx": "5"})
    SubElement(group, "rect", {"class": f"wm-mark wm-mark-{box.told.kind}", **place, "width": "4", "rx": "2"})
    svg.lines(group, box.x + PADDING, box.y + PADDING - 3, box.lines)

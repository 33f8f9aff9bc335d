"""A tree of boxes as SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from watersmeet.pictures import svg
from watersmeet.pictures.svg import number
from watersmeet.pictures.text import LEADING, Line, cell_of, lines_of
from watersmeet.pictures.tree import MARGIN, PADDING, Box, Edge, NodeText, laid_out

NOTE_WIDTH = 100  # cells of a note below the tree


def tree_svg(title: str, root: NodeText, notes: Sequence[str] = ()) -> str:
    """The tree, and below it notes that are of no single box."""
    layout = laid_out(root)
    lines = [line for note in notes for line in lines_of(note, NOTE_WIDTH, "quiet", len(note) - len(note.lstrip()))]
    width = max(layout.width, max((line.width for line in lines), default=0.0) + 2 * MARGIN)
    height = layout.height + (len(lines) * LEADING + MARGIN if lines else 0.0)
    picture = svg.picture(width, height, title, [*description(root), *notes])
    for edge in layout.edges:
        _draw_edge(picture, edge)
    for box in layout.boxes:
        _draw_box(picture, box)
    svg.lines(picture, MARGIN, layout.height, lines)
    return svg.written(picture)


def description(node: NodeText, depth: int = 0) -> Iterator[str]:
    """The tree in words, the root first."""
    on_edge = [part for part in (node.above, node.below) if part]
    said = "; ".join([node.title, *node.lines, *node.remarks, *on_edge])
    yield "  " * depth + said
    for child in node.children:
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
    SubElement(group, "rect", {"class": f"wm-mark wm-mark-{box.node.kind}", **place, "width": "4", "rx": "2"})
    svg.lines(group, box.x + PADDING, box.y + PADDING - 3, box.lines)


LABEL_CELLS = 9  # as wide as rates that change are


def tree_data(root: NodeText) -> dict[str, Any]:
    """Boxes and edges with where they and their lines of text stand. An edge names the stream that it leaves, or the
    answer by null; what is known beforehand of its rate stands in `rate`, where another may be written."""
    layout = laid_out(root, LABEL_CELLS)
    return {
        "width": layout.width,
        "height": layout.height,
        "boxes": [_box(box) for box in layout.boxes],
        "edges": [_edge(edge, is_answer=edge is layout.edges[-1]) for edge in layout.edges],
    }


def _box(box: Box) -> dict[str, Any]:
    x, top = box.x + PADDING, box.y + PADDING + 9
    lines = [_line(x, top + row * LEADING, line) for row, line in enumerate(box.lines)]
    place = {"x": box.x, "y": box.y, "width": box.width, "height": box.height}
    return {"kind": box.node.kind, "title": box.node.title, **place, "lines": lines}


def _edge(edge: Edge, *, is_answer: bool) -> dict[str, Any]:
    labels = [_line(x, y, line) for x, y, line in label_places(edge) if line not in edge.above]
    rate = {"x": edge.label_x, "y": edge.start[1] - 6, "text": " ".join(line.text for line in edge.above)}
    named = edge.name is not None or is_answer
    return {"path": edge_path(edge), "end": list(edge.end), "name": edge.name, "labels": labels} | (
        {"rate": rate} if named else {}
    )


def _line(x: float, y: float, line: Line) -> dict[str, Any]:
    cell = cell_of(line.look)
    drawn: dict[str, Any] = {"x": x + line.indent * cell, "y": y, "text": line.text, "look": line.look}
    # From whatever font it comes, it takes the room that was measured for it.
    return drawn if line.text.isascii() else {**drawn, "length": line.width - line.indent * cell}

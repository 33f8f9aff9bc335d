"""A tree of boxes in its places as plain values, for programs that draw it themselves."""

from __future__ import annotations

from typing import Any

from watersmeet.pictures.draw_tree import edge_path, label_places
from watersmeet.pictures.text import LEADING, Line, cell_of
from watersmeet.pictures.tree import PADDING, Box, Edge, Told, laid_out

LABEL_CELLS = 9  # as wide as rates that change are


def tree_data(root: Told) -> dict[str, Any]:
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
    return {"kind": box.told.kind, "title": box.told.title, **place, "lines": lines}


def _edge(edge: Edge, *, is_answer: bool) -> dict[str, Any]:
    labels = [_line(x, y, line) for x, y, line in label_places(edge) if line not in edge.above]
    rate = {"x": edge.label_x, "y": edge.start[1] - 6, "text": " ".join(line.text for line in edge.above)}
    named = edge.name is not None or is_answer
    return {"path": edge_path(edge), "end": list(edge.end), "name": edge.name, "labels": labels} | (
        {"rate": rate} if named else {}
    )


def _line(x: float, y: float, line: Line) -> dict[str, Any]:
    cell = cell_of(line.look)
    told: dict[str, Any] = {"x": x + line.indent * cell, "y": y, "text": line.text, "look": line.look}
    # From whatever font it comes, it takes the room that was measured for it.
    return told if line.text.isascii() else {**told, "length": line.width - line.indent * cell}

"""A tree of boxes, laid out from left to right: what flows in stands on the left, the root on the right.

Every subtree has a strip of its height to itself and every depth a column of its width, so no two boxes can meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from watersmeet.dataclass import dataclass
from watersmeet.pictures.text import LEADING, Line, lines_of

WIDEST = 38  # cells of a line in a box
WIDEST_LABEL = 20  # and on an edge
PADDING = 10.0
GAP = 18.0
BEND = 44.0  # room for an edge to turn
MARGIN = 12.0


@dataclass(frozen=True)
class NodeText:
    """What is said of one node: lines of text as long as they come, and on the edge that leaves it what flows there.

    kind: stream, table, join or other, by which it is coloured. name: of a stream, by which rates are known."""

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    above: str = ""
    below: str = ""
    children: tuple[NodeText, ...] = ()
    name: str | None = None


@dataclass(frozen=True)
class Box:
    """A node in its place."""

    node: NodeText
    x: float
    y: float
    width: float
    height: float
    lines: tuple[Line, ...]

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Edge:
    """What leaves a box for another: along a straight piece, which has room for its labels, then a bend; the one that
    leaves the root goes nowhere else."""

    start: tuple[float, float]
    straight_to: float
    end: tuple[float, float]
    above: tuple[Line, ...]
    below: tuple[Line, ...]
    label_x: float
    name: str | None


@dataclass(frozen=True)
class Layout:
    width: float
    height: float
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class _Sized:
    """A node that knows how much room it and all below it take."""

    node: NodeText
    lines: tuple[Line, ...]
    above: tuple[Line, ...]
    below: tuple[Line, ...]
    children: tuple[_Sized, ...]
    label_room: float = 0.0

    @property
    def width(self) -> float:
        return max(line.width for line in self.lines) + 2 * PADDING

    @property
    def height(self) -> float:
        return len(self.lines) * LEADING + 2 * PADDING - 4

    @property
    def label_width(self) -> float:
        return max([self.label_room, *(line.width for line in (*self.above, *self.below))])

    @property
    def strip(self) -> float:
        """As high as what stands here, its labels above and below the middle, or all that stands on its left."""
        labels = 2 * max(len(self.above), len(self.below), self.label_room > 0) * LEADING + 8
        return max(self.height, labels, _stacked(self.children))


def _stacked(children: Sequence[_Sized]) -> float:
    return sum(one.strip for one in children) + GAP * max(0, len(children) - 1)


def laid_out(root: NodeText, label_cells: int = 0) -> Layout:
    """The places of all boxes and edges. label_cells: room on every edge for a label of so many cells, for who writes
    there what comes later."""
    sized = _sized(root, Line("x" * label_cells).width)
    layers = list(_layers(sized))
    # From the right: the column of a depth, and between two the labels of what goes from one to the other.
    widths = [max(one.width for one in layer) for layer in layers]
    gaps = [max(one.label_width for one in layer) + 16 + BEND for layer in layers]
    # The column of each depth begins where everything that is deeper ends.
    deeper = list(accumulate((w + g for w, g in zip(reversed(widths), reversed(gaps), strict=True)), initial=MARGIN))
    columns = list(reversed(deeper[:-1]))
    ends = [x + width for x, width in zip(columns, widths, strict=True)]
    boxes: list[Box] = []
    edges: list[Edge] = []
    box = _placed(sized, 0, MARGIN, columns, ends, boxes, edges)
    width = ends[0] + gaps[0] - BEND / 2 + MARGIN
    edges.append(_edge(sized, box, ends[0], (width - MARGIN, box.middle)))
    return Layout(width, sized.strip + 2 * MARGIN, tuple(boxes), tuple(edges))


def _sized(node: NodeText, label_room: float) -> _Sized:
    lines = [
        *lines_of(node.title, WIDEST, "title"),
        *(line for text in node.lines for line in lines_of(text, WIDEST)),
        *(line for text in node.remarks for line in lines_of(text, WIDEST, "quiet")),
    ]
    above, below = (tuple(lines_of(text, WIDEST_LABEL, "quiet")) if text else () for text in (node.above, node.below))
    children = tuple(_sized(child, label_room) for child in node.children)
    return _Sized(node, tuple(lines), above, below, children, label_room)


def _layers(root: _Sized) -> Iterator[tuple[_Sized, ...]]:
    layer: tuple[_Sized, ...] = (root,)
    while layer:
        yield layer
        layer = tuple(child for one in layer for child in one.children)


def _placed(
    one: _Sized,
    depth: int,
    top: float,
    columns: Sequence[float],
    ends: Sequence[float],
    boxes: list[Box],
    edges: list[Edge],
) -> Box:
    # On the right of its column, so that what leaves it begins beside its labels.
    box = Box(one.node, ends[depth] - one.width, top + (one.strip - one.height) / 2, one.width, one.height, one.lines)
    boxes.append(box)
    child_top = top + (one.strip - _stacked(one.children)) / 2
    for number, child in enumerate(one.children, start=1):
        placed = _placed(child, depth + 1, child_top, columns, ends, boxes, edges)
        into = (box.x, box.y + box.height * number / (len(one.children) + 1))
        edges.append(_edge(child, placed, ends[depth + 1], into))
        child_top += child.strip + GAP
    return box


def _edge(child: _Sized, box: Box, column_end: float, into: tuple[float, float]) -> Edge:
    straight_to = min(column_end + child.label_width + 16, into[0])
    start = (box.x + box.width, box.middle)
    return Edge(start, straight_to, into, child.above, child.below, column_end + 8, child.node.name)

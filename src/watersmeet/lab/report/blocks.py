"""The pieces a page is made of. Texts may hold `code`, **bold** and [links](to), and nothing else."""

from __future__ import annotations

from typing import TypeAlias

from watersmeet.dataclass import dataclass


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    anchor: str


@dataclass(frozen=True)
class TextBlock:
    text: str


@dataclass(frozen=True)
class TableBlock:
    """The first column is words; `numbers` says whether the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: bool = False


@dataclass(frozen=True)
class Bullets:
    items: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """A plot by its name, and where its file lies, seen from the page."""

    name: str
    path: str
    about: str


@dataclass(frozen=True)
class FigureRow:
    """A figure or table of a paper in a line: what it claims, what was found. `plot` is one in small."""

    anchor: str
    shows: str
    claim: str
    found: str
    verdict: str
    plot: Image | None


@dataclass(frozen=True)
class FigureTable:
    rows: tuple[FigureRow, ...]


@dataclass(frozen=True)
class Folded:
    """Blocks that are seen when their summary is asked for."""

    summary: str
    blocks: tuple[Block, ...]


Block: TypeAlias = Heading | TextBlock | TableBlock | Bullets | Image | FigureTable | Folded

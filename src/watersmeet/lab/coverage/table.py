"""The table of what is covered, checked as it is read."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Literal

from watersmeet.dataclass import dataclass
from watersmeet.errors import CatalogError

PAPERS = ("k05", "go03", "h02", "h04", "dgr03")
VERDICTS = ("yes", "yes, in part: ", "yes, in a model: ", "no: ")
SQL_BEGINS = ("SELECT ", "WITH ", "CREATE ", "EXPLAIN ")

HowReached = Literal["command", "sql", "python"]


@dataclass(frozen=True)
class Item:
    """Something that a paper has."""

    id: str
    paper: str
    name: str
    kind: str


@dataclass(frozen=True)
class CoverageRow:
    """An item and what became of it. `where` are files and folders, seen from the top of the repository; `reached` is a
    command, a text of SQL or a line of Python; `shown` are tests (`tests/…::test_…`) and experiments by their ids."""

    item: Item
    where: tuple[str, ...]
    reached: str
    shown: tuple[str, ...]
    verdict: str
    note: str = ""

    @property
    def is_clean(self) -> bool:
        return self.verdict == "yes"

    @property
    def how(self) -> HowReached:
        """
        >>> from dataclasses import replace
        >>> row = rows()[0]
        >>> [replace(row, reached=one).how for one in ("watersmeet lab list", "SELECT 1 FROM a", "wm.Session()")]
        ['command', 'sql', 'python']
        """
        if self.reached.startswith("watersmeet "):
            return "command"
        return "sql" if self.reached.startswith(SQL_BEGINS) else "python"


def items() -> list[Item]:
    """All that the papers have, in their order."""
    return [Item(*line) for line in _lines("catalogue", 4)]


@cache
def rows() -> tuple[CoverageRow, ...]:
    """A row for each item, in the order of the papers."""
    told = {line[0]: line for paper in PAPERS for line in _lines(paper, 6)}
    known = items()
    missing = [one.id for one in known if one.id not in told]
    unknown = sorted(set(told) - {one.id for one in known})
    if missing or unknown:
        raise CatalogError(
            f"the tables of coverage lack {', '.join(missing) or 'nothing'}, "
            f"and have {', '.join(unknown) or 'nothing'} that is not in the catalogue"
        )
    return tuple(_row(item, told[item.id]) for item in known)


def _row(item: Item, line: list[str]) -> CoverageRow:
    _, where, reached, shown, verdict, note = line
    if verdict != "yes" and not verdict.startswith(VERDICTS[1:]):
        raise CatalogError(f"the verdict of {item.id} is {verdict!r}", hint=f"it begins with {' or '.join(VERDICTS)}")
    if not (where and reached and shown):
        raise CatalogError(f"the row of {item.id} does not say where it is, how it is reached, or what shows it")
    return CoverageRow(item, tuple(where.split()), reached, tuple(shown.split()), verdict, note)


def _lines(name: str, fields: int) -> Iterator[list[str]]:
    """The lines of a table below its header; what is left out at the end is empty."""
    text = files(__package__).joinpath(f"{name}.tsv").read_text(encoding="utf-8")
    for line in list(csv.reader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE))[1:]:
        if len(line) > fields:
            raise CatalogError(f"a line of {name}.tsv has {len(line)} fields instead of {fields}: {line[0]}")
        yield [*line, *[""] * (fields - len(line))]

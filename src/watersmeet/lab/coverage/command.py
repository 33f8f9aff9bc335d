"""`watersmeet lab coverage`: what it prints and writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from watersmeet.errors import CatalogError
from watersmeet.lab.coverage.page import coverage_page, tally
from watersmeet.lab.coverage.statements import UNKNOWN, Statement, statements, tally_of_figures
from watersmeet.lab.coverage.table import CoverageRow, rows
from watersmeet.lab.groups import FIGURE
from watersmeet.model.wording import fitted

Say = Callable[[str], None]


def write_coverage(results: Path, docs: Path, say: Say) -> None:
    docs.mkdir(parents=True, exist_ok=True)
    path, report = docs / "coverage.md", docs / "reproduction.md"
    words = report.read_text(encoding="utf-8") if report.exists() else ""
    found = statements(results)
    path.write_text(coverage_page(words, found), encoding="utf-8")
    say(f"wrote {path}: {tally(rows())}; {tally_of_figures(rows(), found)}")


def show_coverage(names: Sequence[str], results: Path, say: Say) -> None:
    """Of those named all that is known; without names a line for each, and how many are all there."""
    found = statements(results)
    if names:
        for row in _select(names):
            for line in _in_full(row, found):
                say(fitted(line, 10))
        return
    for row in rows():
        start = f"{row.item.id:<9} {row.item.kind:<15} "
        say(fitted(f"{start}{row.item.name}{_short(row, found)}", len(start)))
    say(tally(rows()))
    say(tally_of_figures(rows(), found))


def _short(row: CoverageRow, found: Mapping[str, Statement]) -> str:
    """What is said beside a name: what is not all here, and whether the statement of a figure held."""
    said = [] if row.is_clean else [row.verdict]
    if row.item.kind == FIGURE:
        told = found.get(row.item.id, UNKNOWN)
        said.append(told.held if told is UNKNOWN else f"held: {told.held}")
    return f" ({'; '.join(said)})" if said else ""


def _in_full(row: CoverageRow, found: Mapping[str, Statement]) -> list[str]:
    lines = [
        f"{row.item.id}: {row.item.name} ({row.item.kind})",
        f"  where   {', '.join(row.where)}",
        f"  reach   {row.reached}",
        f"  shown   {', '.join(row.shown)}",
        f"  here    {row.verdict}",
    ]
    if row.item.kind == FIGURE:
        told = found.get(row.item.id, UNKNOWN)
        lines += [f"  run     at the paper's setting: {told.ran}", f"  held    {told.held}"]
    return [*lines, f"  note    {row.note}"] if row.note else lines


def _select(names: Sequence[str]) -> list[CoverageRow]:
    found: dict[CoverageRow, None] = {}
    for name in names:
        matching = [row for row in rows() if name.lower() in (row.item.id.lower(), row.item.paper.lower())]
        if not matching:
            raise CatalogError(
                f"nothing in the catalogue is called {name!r}",
                hint="`watersmeet lab coverage` shows all; an id is for example K05-A2, a paper K05",
            )
        found.update(dict.fromkeys(matching))
    return list(found)

"""The table of what is covered as a page, `docs/coverage.md`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from watersmeet.lab.cards import CARDS
from watersmeet.lab.coverage.statements import UNKNOWN, Statement, tally_of_figures
from watersmeet.lab.coverage.table import CoverageRow, rows
from watersmeet.lab.groups import FIGURE
from watersmeet.lab.report.blocks import Block, Heading, TableBlock, TextBlock
from watersmeet.lab.report.markdown import as_markdown

# The streams that texts of SQL in the table read, and lines of Python too.
STREAMS = "a, b, c, d (k BIGINT, v BIGINT, ts TIMESTAMP), time = 'ts'; the table t (k BIGINT)"
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')


def coverage_page(report: str, found: Mapping[str, Statement]) -> str:
    """The page, with links to those experiments that the report beside it shows, and what was found of each."""
    return as_markdown([*_opening(rows(), found), *_papers(rows(), set(ANCHOR.findall(report)), found)])


def tally(shown: Sequence[CoverageRow]) -> str:
    """How many rows are all there.

    >>> tally(rows()).split(":")[0]
    '171 rows'
    """
    counts = Counter(row.verdict.partition(":")[0] for row in shown)
    return f"{len(shown)} rows: " + ", ".join(f"{count} {words}" for words, count in counts.most_common())


def _opening(shown: Sequence[CoverageRow], found: Mapping[str, Statement]) -> Iterator[Block]:
    yield Heading(1, "Coverage", "coverage")
    yield TextBlock(
        "What of the five papers is here, row by row: every definition, algorithm, formula, experiment, example and "
        "open end that they name. `watersmeet lab coverage --write` makes this page of the tables in "
        "`src/watersmeet/lab/coverage/`. Tests see to it that every file and every test or experiment exists, and "
        "that every command, query and line of Python runs."
    )
    yield TextBlock(
        f"{tally(shown)}. **here: yes** means that a command, a query or a line of Python reaches it on the engine, as "
        "the paper has it; **yes, in part** says what is not there yet; **yes, in a model** means that it runs in a "
        "model of the engine only; **no** carries the reason why it cannot be had."
    )
    yield TextBlock(
        f"{tally_of_figures(shown, found)}. That an experiment is here and runs says nothing of what comes out, so its "
        "row has two more answers: whether it was **run** at the paper's setting, and whether the paper's statement "
        "**held** there, by the rule of [the report](reproduction.md). Where the paper leaves a setting open, the row "
        "names what was chosen here. What was measured by older code says so until it is measured again."
    )
    yield TextBlock(
        f"Queries and lines of Python read the streams {STREAMS}. What shows a row is a test, or an experiment of [the "
        "report](reproduction.md)."
    )
    papers = dict.fromkeys(row.item.paper for row in shown)
    kinds = list(dict.fromkeys(row.item.kind for row in shown))
    counted = Counter((row.item.paper, row.item.kind) for row in shown)
    yes = Counter((row.item.paper, row.item.kind) for row in shown if row.is_clean)
    table = tuple(
        (f"[{paper}](#{paper})", *(_share(yes[paper, kind], counted[paper, kind]) for kind in kinds))
        for paper in papers
    )
    yield TableBlock(("here, of", *kinds), table, numbers=True)
    yield TableBlock(
        ("figures and tables", "here", "run at the paper's setting", "held", "in part", "not", "not run"),
        tuple(_counts(paper, [row for row in shown if row.item.paper == paper], found) for paper in papers),
        numbers=True,
    )


def _counts(paper: str, ours: Sequence[CoverageRow], found: Mapping[str, Statement]) -> tuple[str, ...]:
    figures = [row for row in ours if row.item.kind == FIGURE]
    told = [found.get(row.item.id, UNKNOWN) for row in figures]
    held = (sum(one.held == word for one in told) for word in ("yes", "in part", "no", UNKNOWN.held))
    counts = (sum(row.is_clean for row in figures), sum(one.was_run for one in told), *held)
    return f"[{paper}](#{paper})", *map(str, counts)


def _share(yes: int, of: int) -> str:
    return f"{yes}/{of}" if of else ""


def _papers(shown: Sequence[CoverageRow], reported: Container[str], found: Mapping[str, Statement]) -> Iterator[Block]:
    header = ("", "what", "where", "reached by", "shown by", "here")
    for paper in dict.fromkeys(row.item.paper for row in shown):
        yield Heading(2, f"{paper}: {CARDS[paper].title}", paper)
        ours = [row for row in shown if row.item.paper == paper]
        yield TableBlock(header, tuple(_row(row, reported) for row in ours if row.item.kind != FIGURE))
        figures = [row for row in ours if row.item.kind == FIGURE]
        table = tuple((*_row(row, reported), *_told(found.get(row.item.id, UNKNOWN))) for row in figures)
        yield TableBlock((*header, "run at the paper's setting", "held"), table)


def _told(one: Statement) -> tuple[str, str]:
    return one.ran, one.held


def _row(row: CoverageRow, reported: Container[str]) -> tuple[str, ...]:
    return (
        f"**{row.item.id}**",
        f"{row.item.name} ({row.item.kind})",
        ", ".join(f"`{path}`" for path in row.where),
        f"`{row.reached}`",
        ", ".join(_shown(one, reported) for one in row.shown),
        row.verdict + (f". {row.note}" if row.note else ""),
    )


def _shown(name: str, reported: Container[str]) -> str:
    return f"[{name}](reproduction.md#{name})" if name in reported else f"`{name}`"

"""The table of what is covered as a page, `docs/coverage.md`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence

from watersmeet.lab.cards import CARDS
from watersmeet.lab.coverage.table import CoverageRow, rows
from watersmeet.lab.report.blocks import Block, Heading, TableBlock, TextBlock
from watersmeet.lab.report.markdown import as_markdown

# The streams that texts of SQL in the table read, and lines of Python too.
STREAMS = "a, b, c, d (k BIGINT, v BIGINT, ts TIMESTAMP), time = 'ts'; the table t (k BIGINT)"
ANCHOR = re.compile(r'<a id="([\w-]+)"></a>')


def coverage_page(report: str) -> str:
    """The page, with links to those experiments that the report beside it shows."""
    return as_markdown([*_opening(rows()), *_papers(rows(), set(ANCHOR.findall(report)))])


def tally(shown: Sequence[CoverageRow]) -> str:
    """How many rows are all there.

    >>> tally(rows()).split(":")[0]
    '171 rows'
    """
    counts = Counter(row.verdict.partition(":")[0] for row in shown)
    return f"{len(shown)} rows: " + ", ".join(f"{count} {words}" for words, count in counts.most_common())


def _opening(shown: Sequence[CoverageRow]) -> Iterator[Block]:
    yield Heading(1, "Coverage", "coverage")
    yield TextBlock(
        "What of the five papers is here, row by row: every definition, algorithm, formula, experiment, example and "
        "open end that they name. `watersmeet lab coverage --write` makes this page of the tables in "
        "`src/watersmeet/lab/coverage/`. Tests see to it that every file and every test or experiment exists, and "
        "that every command, query and line of Python runs."
    )
    yield TextBlock(
        f"{tally(shown)}. **yes, in part** says what is not there yet; **yes, in a model** means that it runs in a "
        "model of the engine only; **no** carries the reason why it cannot be had."
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
    yield TableBlock(("yes, of", *kinds), table, numbers=True)


def _share(yes: int, of: int) -> str:
    return f"{yes}/{of}" if of else ""


def _papers(shown: Sequence[CoverageRow], reported: Container[str]) -> Iterator[Block]:
    for paper in dict.fromkeys(row.item.paper for row in shown):
        yield Heading(2, f"{paper}: {CARDS[paper].title}", paper)
        ours = tuple(_row(row, reported) for row in shown if row.item.paper == paper)
        yield TableBlock(("", "what", "where", "reached by", "shown by", "verdict"), ours)


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

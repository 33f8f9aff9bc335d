"""A reader who knows other systems finds things by their words, ranked as the search of the site ranks pages.

This is Sphinx's searchtools.js over the sources: the words of a page count 5, those of its headings 15, a heading that
was asked for as much as the query is of it, and an entry of the index, which docs/words.md makes, 100.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.test_map import headings, pages, words
from tests.docs.test_shown import ROOT

english = pytest.importorskip("sphinx.search.en", reason="words are stemmed as the site does").SearchEnglish({})


def stems(text: str) -> set[str]:
    return {english.stem(word).lower() for word in set(english.split(text.lower())) if english.word_filter(word)}


@cache
def words_of(page: Path) -> tuple[set[str], set[str]]:
    """Those of its headings, and all."""
    return stems(" ".join(headings(page))), stems(page.read_text(encoding="utf-8"))


def found(query: str) -> list[str]:
    """The pages that a search gives, in its order."""
    best: dict[Path, float] = {}
    for page, score in scores(query.lower().strip()):
        best[page] = max(best.get(page, 0), score)
    return [
        str(page.relative_to(ROOT)) for page in sorted(best, key=lambda one: (-best[one], headings(one)[0].lower()))
    ]


def scores(query: str) -> Iterator[tuple[Path, float]]:
    asked = {english.stem(word) for word in english.split(query) if word not in english.stopwords}
    for page in pages():
        titled, all_words = words_of(page)
        for title in headings(page):
            if query in title.lower() and len(query) >= len(title) / 2:
                yield page, round(15 * len(query) / len(title)) + (title == headings(page)[0])
        if asked and asked <= all_words | titled:
            yield page, 15 if asked & titled else 5
    for entry, name, _ in words.entries(words.PAGE.read_text(encoding="utf-8")):
        if query in entry.lower() and len(query) >= len(entry) / 2:
            yield ROOT / "docs" / f"{name}.md", round(100 * len(query) / len(entry))


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("set allowed lateness", "docs/language.md"),
        ("allowed lateness", "docs/language.md"),
        ("read a changelog", "docs/language.md"),
        ("retract", "docs/language.md"),
        ("resume after a crash", "docs/durable.md"),
        ("upsert into PostgreSQL", "docs/databases.md"),
        ("upsert", "docs/databases.md"),
        ("postgres upsert", "docs/databases.md"),
        ("look at a checkpoint", "docs/durable.md"),
        ("inspect checkpoint", "docs/durable.md"),
        ("savepoint", "docs/savepoints.md"),
        ("side output", "docs/bad_records.md"),
        ("dead letter queue", "docs/bad_records.md"),
        ("late data", "docs/bad_records.md"),
        ("exactly once", "docs/durable.md"),
        ("backpressure", "docs/durable.md"),
        ("state size", "docs/operations.md"),
        ("state TTL", "docs/language.md"),
        ("tumbling window", "docs/language.md"),
        ("session window", "docs/language.md"),
        ("temporal join", "docs/language.md"),
        ("lookup join", "docs/databases.md"),
        ("interval join", "docs/language.md"),
        ("deduplicate", "docs/language.md"),
        ("watermark", "docs/language.md"),
        ("idle source", "docs/bad_records.md"),
        ("partition", "docs/bad_records.md"),
        ("list of functions", "docs/functions.md"),
        ("schema registry", "docs/kafka.md"),
        ("restore from savepoint", "docs/savepoints.md"),
        ("parallelism", "docs/spark.md"),
        ("TRY_CAST", "docs/language.md"),
    ],
)
def test_a_search_for_a_word_of_other_systems_finds_the_page(query: str, page: str) -> None:
    assert page in found(query)[:2]


def test_every_word_leads_to_a_heading() -> None:
    """The links of words.md are checked as any others; this, that the first of each line is taken."""
    text = words.PAGE.read_text(encoding="utf-8")
    assert len(set(re.findall(r"^\| [^|`]+ \| .*\]\(", text, re.MULTILINE))) == len(words.LINE.findall(text))
    assert len(list(words.entries(text))) == len({word for word, _, _ in words.entries(text)})


# What somebody who knows the field looks for on a page, in its words.
SEARCHED = {
    "docs/language.md": "retract changelog upsert allowed lateness watermark deduplicate tumbling hopping session",
    "docs/words.md": "temporal lookup interval join ttl savepoint side output dead letter backpressure state size",
    "docs/bad_records.md": "dead letter side output late allowed lateness partition watermark",
    "docs/durable.md": "resume savepoint checkpoint exactly once backpressure snapshot recover",
    "docs/savepoints.md": "savepoint checkpoint resume restore bucket sink offsets",
    "docs/databases.md": "upsert lookup primary key exactly once",
    "docs/spark.md": "resume checkpoint exactly once changelog upsert allowed lateness partition",
    "docs/kafka.md": "upsert changelog tombstone exactly once partition offsets",
    "docs/connectors.md": "exactly once idempotent resume partition offsets backfill",
    "docs/operations.md": "savepoint resume state size ttl backpressure",
    "docs/howto/late_rows.md": "allowed lateness watermark side output late data idle",
    "docs/howto/durable.md": "resume crash checkpoint exactly once",
    "docs/howto/rolling_counts.md": "tumbling hopping session sliding changelog",
    "docs/serve.md": "changelog subscribe resume exactly once backpressure",
    "docs/shedding.md": "state size memory spill",
    "docs/metrics.md": "watermark late state size",
    "docs/python.md": "changelog retract backpressure watermark allowed lateness resume",
    "docs/testing.md": "watermark late changelog",
    "docs/lakes.md": "exactly once checkpoint partition resume",
}  # fmt: skip


@pytest.mark.parametrize("page", SEARCHED)
def test_a_page_has_the_words_that_people_search_for(page: str) -> None:
    titled, all_words = words_of(ROOT / page)
    assert stems(SEARCHED[page]) - titled - all_words == set()

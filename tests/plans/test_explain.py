"""The plan of every kind of query, as recorded; and a clear refusal of those that cannot run yet."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.plans import FOLDER, golden_catalog
from watersmeet.errors import UnsupportedError
from watersmeet.explain.text import WIDTH
from watersmeet.model.catalog import Catalog, Statistics, Stream
from watersmeet.runtime.build import build_query
from watersmeet.session import Query
from watersmeet.sql import bind

QUERIES = sorted(FOLDER.glob("explain_*.sql"))
# Set to rewrite the golden texts; the diff is then for review.
REWRITE = bool(os.environ.get("WATERSMEET_REWRITE"))
# Queries that are understood but not run yet, with the words that the refusal must hold.
REFUSED: dict[str, str] = {}


def catalog_with_rates() -> Catalog:
    """The golden catalog; a is fast and b slow, a may be late, of c nothing is known."""
    catalog = golden_catalog()
    known = {"a": (Statistics(rows_per_second=100.0), 2_000_000), "b": (Statistics(rows_per_second=10.0), 0)}
    for name, (statistics, lateness_us) in known.items():
        stream = catalog.find(name)
        assert isinstance(stream, Stream)
        catalog.add(replace(stream, statistics=statistics, lateness_us=lateness_us), replace=True)
    return catalog


CATALOG = catalog_with_rates()


def name_of(path: Path) -> str:
    return path.stem.removeprefix("explain_")


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_a_plan_is_explained_as_recorded(path: Path) -> None:
    explained = Query(bind(path.read_text(), CATALOG)).explain()
    golden = path.with_suffix(".txt")
    if REWRITE:
        golden.write_text(explained)
    assert explained == golden.read_text()
    assert max(map(len, explained.splitlines())) <= WIDTH


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_a_query_is_built_or_refused_by_name(path: Path) -> None:
    plan = bind(path.read_text(), CATALOG)
    words = REFUSED.get(name_of(path))
    if words is None:
        build_query(plan)
    else:
        with pytest.raises(UnsupportedError) as caught:
            build_query(plan)
        assert words in str(caught.value)
        assert "cannot run yet" in str(caught.value)


def test_every_refusal_has_its_query() -> None:
    assert set(REFUSED) <= {name_of(path) for path in QUERIES}

"""The plan of every kind of query, as recorded; and each of them can be built."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.plans import FOLDER, golden_catalog
from watersmeet.cli.questions import APART, TOGETHER, explain_script
from watersmeet.explain.text import WIDTH
from watersmeet.model.catalog import Catalog, Statistics, Stream
from watersmeet.runtime.build import build_query
from watersmeet.session import Query
from watersmeet.sql import bind

QUERIES = sorted(FOLDER.glob("explain_*.sql"))
# Set to rewrite the golden texts; the diff is then for review.
REWRITE = bool(os.environ.get("WATERSMEET_REWRITE"))


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


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("path", sorted(FOLDER.glob("script_*.sql")), ids=lambda path: path.stem)
def test_the_queries_of_a_script_are_explained_as_recorded(path: Path, form: str) -> None:
    explained = explain_script(path.read_text(), form, None, analyze=False, sample=1)
    if form == "json":  # all but what is the same for a query alone
        told = json.loads(explained)
        shared = {TOGETHER: told.pop(TOGETHER)} if TOGETHER in told else {}
        shared |= {APART: told.pop(APART)} if APART in told else {}
        explained = json.dumps({name: one["streams"] for name, one in told.items()} | shared, indent=2) + "\n"
    golden = path.with_suffix(".json" if form == "json" else ".txt")
    if REWRITE:
        golden.write_text(explained)
    assert explained == golden.read_text()


@pytest.mark.parametrize("path", QUERIES, ids=name_of)
def test_every_query_that_is_explained_can_be_built(path: Path) -> None:
    build_query(bind(path.read_text(), CATALOG))

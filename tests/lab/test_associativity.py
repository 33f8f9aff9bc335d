"""Which trees of window joins agree: by the reference on tiny instances, and by the engine on what it finds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.lab.associativity import (
    BY_MEMBERS,
    FORMS,
    STAMPS,
    STREAMS,
    Form,
    counterexample,
    instances,
    k05_counterexample,
    table_of_forms,
    table_of_stamps,
)

PAGE = (Path(__file__).parents[2] / "docs" / "associativity.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_a_form_is_associative_or_has_a_counterexample_on_which_the_engine_differs_too(form: Form) -> None:
    found = counterexample(form)
    assert (found is None) is form.associative
    if found is not None:
        answers = [by_engine(sql, found.instance) for sql in (form.left, form.right)]
        assert answers == [found.left, found.right]
        assert str(found) in PAGE


def by_engine(sql: str, instance: tuple[tuple[int, ...], ...]) -> list[tuple[object, ...]]:
    session = wm.Session()
    for name, times in zip(STREAMS, instance, strict=True):
        at = pa.array([second * 1_000_000 for second in times], pa.timestamp("us"))
        session.stream(name, pa.table({"id": range(len(times)), "k": [1] * len(times), "ts": at}), time="ts")
    rows = [row.values() for row in session.sql(sql).to_arrow().to_pylist()]
    return sorted((tuple(None if at is None else int(at.timestamp()) for at in _utc(row)) for row in rows), key=str)


def _utc(row: object) -> list[object]:
    from datetime import UTC

    return [None if at is None else at.replace(tzinfo=UTC) for at in row]  # type: ignore[attr-defined]


@pytest.mark.parametrize("stamp", STAMPS)
def test_k05s_join_is_not_associative_whatever_time_stands_for_a_result(stamp: str) -> None:
    assert k05_counterexample(STAMPS[stamp]) is not None


def test_joins_by_members_are_the_join_of_all_at_once() -> None:
    """Form 3 and RANGE against the same conditions without parentheses, by the engine."""
    whole = "SELECT a.ts AS a, b.ts AS b, c.ts AS c FROM a{0}, b{0}, c{0} WHERE a.k = b.k AND b.k = c.k {1}"
    pairs = "WINDOW (a, b) = 2 SECONDS AND WINDOW (b, c) = 2 SECONDS"
    flat = {"RANGE, by members": whole.format(" [RANGE 2 SECONDS]", ""), "form 3, by members": whole.format("", pairs)}
    trees = {form.name: form.left for form in BY_MEMBERS if form.name in flat}
    for instance in list(instances(drawn=3))[-6:]:
        for name, sql in flat.items():
            assert by_engine(sql, instance) == by_engine(trees[name], instance)


def test_the_page_shows_what_the_search_finds() -> None:
    some = [form for form in FORMS if not form.associative and "ROWS" not in form.name]
    for line in (*table_of_stamps().splitlines(), *table_of_forms(some).splitlines()):
        assert line in PAGE
    assert all(form.argument in PAGE for form in FORMS)

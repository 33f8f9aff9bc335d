"""Rows that come together are joined at once, as if they had come in turns: strictly within the bound, losses exact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.effort import first_of, thinned
from tests.runners import Bag, bag_of
from tests.unit.operators.keeping.test_shedding_join import operator_of, run, selected, table, two_way
from tests.unit.shedding_strategies import zipf
from watersmeet.operators.contract import Operator, Rows
from watersmeet.operators.join.window_join import WindowJoin
from watersmeet.operators.keeping import bounded
from watersmeet.operators.keeping.store import SheddingStore

POLICIES = ("rand", "prob", "life", "drift")
FORMS = ("2 RANGE", "3 pairwise", "4 directed")


def tables_of(streams: int, rows: int = 300, keys: int = 16) -> list[pa.Table]:
    rng = np.random.default_rng(streams)
    return [table(zipf(rng, rows, keys), np.sort(rng.integers(0, 4 * rows, rows)) * 250_000) for _ in range(streams)]


def answer(tables: list[pa.Table], sql: str) -> tuple[Bag, dict[str, object]]:
    """As a run gives it that reads tables, which are at hand."""
    session = wm.Session()
    for name, data in zip("abcd", tables, strict=False):
        session.stream(name, data, time="ts")
    query = session.sql(sql)
    return bag_of(query.to_arrow()), query.metrics()


def together(operator: Operator, tables: list[pa.Table], size: int) -> Iterator[pa.RecordBatch]:
    """Give all streams together, a period of so many ticks after the other."""
    rows = {n: Rows(t.to_batches()[0], t["ts"].cast("int64").to_numpy()) for n, t in zip("abcd", tables, strict=False)}
    ends = np.arange(0, max(int(one.times[-1]) for one in rows.values()) + 1, size * 250_000)
    for end in ends[1:].tolist():
        begin = end - size * 250_000
        at = {name: np.searchsorted(one.times, [begin, end]) for name, one in rows.items()}
        batch = {name: one.slice(*at[name].tolist()) for name, one in rows.items()}
        yield from operator.take({n: one for n, one in batch.items() if len(one)}, dict.fromkeys(rows, end))


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, object]]:
    """The hands that were decided, so that no test passes because nothing went this way."""
    seen: list[Mapping[str, object]] = []
    come = bounded.Turns.come

    def noted(self: bounded.Turns, admitted: Mapping[str, object], *more: object) -> None:
        seen.append(admitted)
        come(self, admitted, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(bounded.Turns, "come", noted)
    return seen


@pytest.mark.parametrize(("form", "policy"), first_of(thinned(FORMS, POLICIES)))
def test_given_and_lost_make_up_the_exact_answer(form, policy, monkeypatch, decided):
    tables = tables_of(int(form[0]))
    exact, _ = answer(tables, selected(form))
    for most in (1 << 14, 7):
        monkeypatch.setattr(bounded, "MOST_IN_HAND", most)
        options = f"memory = '24 rows', shed = '{policy}'"
        found, told = answer(tables, f"{selected(form)} OPTIONS ({options})")
        assert found <= exact
        assert told["lost_results"]
        assert told["exact_results"] == exact.total()
        assert told["recall"] == found.total() / exact.total()
    assert len(decided) > 10


@pytest.mark.parametrize("form", FORMS)
def test_windows_that_fit_lose_nothing(form, decided):
    tables = tables_of(int(form[0]))
    exact, _ = answer(tables, selected(form))
    found, told = answer(tables, f"{selected(form)} OPTIONS (memory = '2000 rows')")
    assert (found, told["shed_rows"], told["recall"]) == (exact, 0, 1.0)
    assert decided


@pytest.mark.parametrize("recall", ["exact", "none", "panes"])
def test_no_more_rows_have_memory_than_the_bound_says(recall, monkeypatch, decided):
    """Neither in the arrays nor in what is given: with rows in hand as with the same rows one by one."""
    options = f"memory = '32 rows', recall = '{recall}'"
    tables = tables_of(2, 600)
    operator = operator_of(two_way(100, options, "a.s, b.s"), 2)
    kept: list[int] = []
    taken = SheddingStore.keep_promises

    def watched(store: SheddingStore, rows: pa.RecordBatch) -> None:
        taken(store, rows)
        kept.append(operator.kept_rows)

    monkeypatch.setattr(SheddingStore, "keep_promises", watched)
    for _ in together(operator, tables, 40):
        kept.append(operator.kept_rows)
    assert 30 <= max(kept) <= 32
    assert decided
    assert all(store.promised == 0 for store in operator.bounded.shed.values())
    if recall != "exact":
        assert all(len(store) <= 2 * store.kept + 1100 for store in operator.bounded.shed.values())


def test_rand_finds_as_much_as_with_rows_that_come_few_at_a_time(decided):
    """A row in hand that lost the draw is not met by those of later turns, though it is still there to be read."""
    rng = np.random.default_rng(3)
    tables = [table(rng.integers(0, 100, 10_000)) for _ in range(2)]
    sql = two_way(2000, "memory = '2000 rows', shed = 'rand'")
    told = answer(tables, sql)[1]
    assert decided
    few_at_a_time = run(tables, sql)[1]
    assert told["exact_results"] == few_at_a_time["exact_results"]
    assert told["recall"] == pytest.approx(few_at_a_time["recall"], rel=0.02)


def test_losses_by_panes_stay_within_their_bounds(decided):
    rng = np.random.default_rng(9)
    tables = [table(zipf(rng, 1500, 200)) for _ in range(2)]
    sql = "SELECT a.id, b.id FROM a [RANGE 300 SECONDS], b [RANGE 120 SECONDS] WHERE a.k = b.k"
    told = {
        recall: answer(tables, f"{sql} OPTIONS (memory = '160 rows', shed = 'rand', recall = '{recall}')")[1]
        for recall in ("exact", "panes")
    }
    exact = told["exact"]["results"] + told["exact"]["lost_results"]
    low, high = told["panes"]["lost_between"]
    assert told["panes"]["results"] + low <= exact <= told["panes"]["results"] + high
    assert decided


def test_an_answer_that_nobody_reads_to_its_end_leaves_a_join_that_goes_on():
    operator = operator_of(two_way(100, "memory = '32 rows'", "a.s, b.s"), 2)
    assert isinstance(operator, WindowJoin)
    answers = together(operator, tables_of(2, 600), 40)
    next(answers)
    answers.close()
    for store in operator.bounded.shed.values():
        assert store.links
        assert set(store.payload) == set(store.columns)
    found = list(together(operator, tables_of(2, 600), 40))
    assert sum(batch.num_rows for batch in found)
    assert operator.kept_rows <= 32

"""Rows valued by a table of frequencies that the user gives: DGR03's estimator."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from tests.unit.shedding_strategies import zipf
from watersmeet.errors import DataError, OptionError
from watersmeet.io.time_ordered import batches_of
from watersmeet.operators.contract import Rows
from watersmeet.operators.saving import Saved
from watersmeet.papers.shedding.arrivals import one_per_tick
from watersmeet.papers.shedding.simulate import given, simulate
from watersmeet.runtime.build import build_query

TICK_US = 1_000_000
WINDOW, MEMORY = 60, 30


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept depends on how the streams come side by side."""
    monkeypatch.setattr("watersmeet.hosts.local.turns.PATIENCE_S", 60.0)


def rows_of(keys: np.ndarray | pa.Array) -> pa.Table:
    return pa.table({"k": keys, "ts": pa.array(TICK_US * np.arange(len(keys)), pa.timestamp("us"))})


def frequencies(keys: np.ndarray) -> pa.Table:
    values, counts = np.unique(keys, return_counts=True)
    return pa.table({"k": values, "frequency": counts})


def session(a: pa.Table, b: pa.Table, **tables: pa.Table) -> wm.Session:
    made = wm.Session()
    made.stream("a", a, time="ts")
    made.stream("b", b, time="ts")
    for name, rows in tables.items():
        made.table(name, rows)
    return made


def asked(options: str, where: str = "a.k = b.k") -> str:
    windows = f"a [RANGE {WINDOW} SECONDS], b [RANGE {WINDOW} SECONDS]"
    return (
        f"SELECT a.k, a.ts AS x, b.ts AS y FROM {windows} WHERE {where} OPTIONS (memory = '{MEMORY} rows', {options})"
    )


def recall(of: wm.Session, options: str) -> float:
    query = of.sql(asked(options))
    query.final()
    return float(query.metrics()["recall"])


@pytest.mark.parametrize("policy", ["prob", "life"])
def test_rows_are_kept_by_what_the_tables_say_and_not_by_what_came(policy):
    rng = np.random.default_rng(3)
    a, b = zipf(rng, 1500), zipf(rng, 1500)
    of = session(rows_of(a), rows_of(b), of_a=frequencies(a), of_b=frequencies(b))
    right = recall(of, f"shed = '{policy}', frequencies = 'a: of_a, b: of_b'")
    exchanged = recall(of, f"shed = '{policy}', frequencies = 'a: of_b, b: of_a'")
    assert right > recall(of, f"shed = '{policy}'")
    # A bad predictor: what is kept is what its table says comes often, whatever comes.
    assert exchanged < 0.5 * right


def test_it_finds_about_as_many_as_the_paper_s_prob_by_the_same_table():
    rng = np.random.default_rng(4)
    a, b = zipf(rng, 1500), zipf(rng, 1500)
    of = session(rows_of(a), rows_of(b), of_a=frequencies(a), of_b=frequencies(b))
    query = of.sql(asked("shed = 'prob', frequencies = 'a: of_a, b: of_b'"))
    found = query.final().num_rows
    arrivals = one_per_tick(a, b, window=WINDOW + 1)
    shares = [{int(key): float(np.mean(keys == key)) for key in np.unique(keys)} for keys in (a, b)]
    model = arrivals.results(simulate(arrivals, "prob", MEMORY, probabilities=given(arrivals, *shares)))
    assert found == pytest.approx(model, rel=0.05)


def pushed(of: wm.Session, options: str, keys: dict[str, pa.Array], *, where: str = "a.k = b.k"):
    built = build_query(of.sql(asked(options, where)).plan)
    for table, load in built.tables:
        for batch in batches_of(table, 1 << 16):
            load(batch)
    for alias, column in keys.items():
        data = pa.RecordBatch.from_pydict({"k": column, "ts": rows_of(column)["ts"].combine_chunks()})
        list(built.operator.push(alias, Rows(data, TICK_US * np.arange(len(column)))))
    return built


@pytest.mark.parametrize(
    ("values", "table"),
    [
        (pa.array([1, 2, 3], pa.int32()), pa.array([1, 2, 3, None], pa.int64())),
        (pa.array(["x", "y", "z"]), pa.array(["x", "y", "z", None], pa.large_string())),
        (
            pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("3.5")]),
            pa.array([Decimal("1.5"), Decimal("2.5"), Decimal("3.5"), None]),
        ),
    ],
)
def test_keys_of_a_table_have_the_types_of_the_stream(values, table):
    known = pa.table({"k": table, "frequency": pa.array([0.5, 0.25, 0.125, 100.0])})
    of = session(rows_of(values), rows_of(values), known=known)
    keys = pushed(of, "frequencies = 'known'", {}).operator.bounded.valuation.keys
    codes = np.sort(keys.counts[0][keys.counts[0] > 0])
    assert codes.tolist() == [0.125, 0.25, 0.5]  # NULL meets nobody
    assert keys.total == 2 * 0.875


def test_a_state_goes_on_by_the_same_tables_whether_they_are_saved_or_read_again():
    rng = np.random.default_rng(5)
    a, b = pa.array(zipf(rng, 200)), pa.array(zipf(rng, 200))
    of = session(rows_of(a), rows_of(b), of_a=frequencies(a.to_numpy()), of_b=frequencies(b.to_numpy()))
    options = "frequencies = 'a: of_a, b: of_b'"
    first = pushed(of, options, {"a": a, "b": b})
    for tables in (True, False):
        saved = Saved.from_bytes(first.operator.save(tables=tables).to_bytes())
        assert ("keeping.valuation.keys.counts" in saved.values) is tables
        again = build_query(of.sql(asked(options)).plan) if tables else pushed(of, options, {})
        again.operator.load(saved)
        counts = [one.operator.bounded.valuation.keys.counts for one in (first, again)]
        assert np.array_equal(*counts)
        assert counts[0].any()


@pytest.mark.parametrize(("frequency", "said"), [(-1.0, "negative"), (None, "NULL"), (float("nan"), "no number")])
def test_what_is_no_frequency_is_refused(frequency, said):
    rows = rows_of(np.arange(3))
    of = session(rows, rows, known=pa.table({"k": [1], "frequency": pa.array([frequency], pa.float64())}))
    with pytest.raises(DataError, match=said):
        of.sql(asked("frequencies = 'known'")).final()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("frequencies = 'nothing'", "not declared"),
        ("frequencies = 'b'", "no static table"),
        ("frequencies = 'a: known'", "no table for b"),
        ("frequencies = 'a: known, x: known'", "no stream of this join"),
        ("frequencies = 'other'", "no column k"),
        ("frequencies = 'text'", "is string"),
        ("frequencies = 'known', shed = 'drift'", "goes by more"),
        ("frequencies = 'known', max_lag = '1 second'", "keys that are counted"),
        ("frequencies = 'a:, b: known'", "names no table"),
    ],
)
def test_what_cannot_be_had_is_refused_with_a_word(options, said):
    rows = rows_of(np.arange(3))
    known = pa.table({"k": [1], "frequency": [1]})
    text = pa.table({"k": [1], "frequency": ["often"]})
    of = session(rows, rows, known=known, other=known.rename_columns(["key", "frequency"]), text=text)
    with pytest.raises(OptionError, match=said):
        of.sql(asked(options))


def test_a_join_without_keys_has_no_use_for_them():
    rows = rows_of(np.arange(3))
    of = session(rows, rows, known=pa.table({"k": [1], "frequency": [1]}))
    with pytest.raises(OptionError, match="compares none"):
        of.sql(asked("frequencies = 'known'", "a.k < b.k"))


def test_explain_says_whose_frequencies_go():
    rows = rows_of(np.arange(3))
    of = session(rows, rows, known=pa.table({"k": [1], "frequency": [1]}))
    assert "how often keys come is read of known, and not counted" in str(
        of.sql(asked("frequencies = 'known'")).explain()
    )

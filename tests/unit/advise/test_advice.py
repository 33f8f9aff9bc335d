"""Memory and recall over a sample: what is told is what a run finds, and no policy is above the optimum."""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import watersmeet as wm
from tests.unit.cli.test_commands import call
from tests.unit.shedding_strategies import zipf
from watersmeet.advise import Advice, Trial, trials
from watersmeet.advise.replay import Replay
from watersmeet.advise.report import advice_text, recommendation
from watersmeet.errors import OptionError, UnsupportedError
from watersmeet.explain.expected_recall import expected_recall, kept_shares, of_one_key

TICK_US = 1_000_000
ROWS, WINDOW = 300, 40
EVERYTHING = 10_000
TWO = f"FROM a [RANGE {WINDOW} SECONDS], b [RANGE {WINDOW} SECONDS] WHERE a.k = b.k"


@cache
def table(seed: int, rows: int = ROWS, domain: int = 40) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(rows),
            "k": zipf(rng, rows, domain),
            "s": [f"row {i}" for i in range(rows)],
            "ts": pa.array(TICK_US * np.arange(rows), pa.timestamp("us")),
        }
    )


def session(rows: int = ROWS) -> wm.Session:
    made = wm.Session()
    for seed, name in enumerate("abc"):
        made.stream(name, table(seed, rows), time="ts")
    made.table("names", pa.table({"k": np.arange(20), "name": [f"key {k}" for k in range(20)]}))
    return made


@cache
def advice() -> Advice:
    options = "OPTIONS (memory = '30 rows')"
    query = session().sql(f"SELECT a.id, b.s {TWO} {options}")
    return query.advise(policies=("rand", "prob"), seconds=600)


@pytest.fixture
def few_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each size that is tried costs a run of each policy."""
    monkeypatch.setattr("watersmeet.advise.trials.SHARES", (0.3, 1.0))


FORMS = {
    "two": f"SELECT a.id, b.id {TWO}",
    "filter": f"SELECT a.id, b.id {TWO} AND a.id % 3 > 0",
    "text key": f"SELECT a.id, b.id {TWO.replace('a.k = b.k', 'a.s = b.s')}",
    "rows": "SELECT a.id, b.id FROM a [ROWS 40], b [ROWS 20] WHERE a.k = b.k",
    "theta": "SELECT a.id FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k < b.k",
    "three": "SELECT a.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 30 SECONDS",
    "self": "SELECT x.id FROM a AS x, a AS y WHERE x.k = y.k DWINDOW (x, y) = 60 SECONDS",
    "table": f"SELECT a.id, names.name {TWO.replace(' WHERE', ', names WHERE')} AND a.k = names.k",
}


@pytest.mark.slow
@pytest.mark.usefixtures("few_sizes")
@pytest.mark.parametrize("form", FORMS)
def test_what_is_told_is_what_a_run_finds(form):
    rows = 90
    told = session(rows).sql(FORMS[form]).advise(policies=("rand", "drift"), sample=EVERYTHING, seconds=600)
    assert told.exact_results == session(rows).sql(FORMS[form]).to_arrow().num_rows > 0
    size = told.sizes[0]
    for policy, allocation in (("rand", "fixed"), ("drift", "variable")):
        options = f"OPTIONS (memory = '{size} rows', shed = '{policy}', allocation = '{allocation}')"
        found = session(rows).sql(f"{FORMS[form]} {options}").to_arrow().num_rows
        (trial,) = [one for one in told.trials if (one.policy, one.allocation, one.rows) == (policy, allocation, size)]
        assert trial.results == found
        assert trial.recall == found / told.exact_results
    assert all(told.recall(policy, "variable", told.sizes[-1]) == 1.0 for policy in told.policies)


@pytest.mark.slow
def test_the_windows_need_what_they_hold_at_most():
    assert advice().rows_needed == pytest.approx(2 * (WINDOW + 1), abs=16)


def test_no_policy_is_above_the_optimum_and_more_memory_never_lowers_it():
    told = advice()
    for allocation in told.allocations:
        best = [told.recall("optimum", allocation, size) for size in told.sizes]
        assert best == sorted(best)
        for policy in told.policies:
            for size, most in zip(told.sizes, best, strict=True):
                found = told.recall(policy, allocation, size)
                assert found is not None
                assert most is not None
                assert found <= most + 1e-12


@pytest.mark.usefixtures("few_sizes")
@pytest.mark.parametrize(
    ("form", "why"),
    [("rows", "not in rows"), ("theta", "by equality only"), ("three", "two streams only"), ("table", "two streams")],
)
def test_where_there_is_no_optimum_it_is_said_why(form, why):
    told = session().sql(FORMS[form]).advise(policies=["rand"], sample=200)
    assert not told.ceilings
    assert any(why in note for note in told.notes)


def test_the_bound_of_the_query_is_tried_too():
    told = advice()
    assert told.bound == 30
    assert 30 in told.sizes
    assert "*30" in advice_text(told)
    assert "the query's bound, 30 rows, gives" in recommendation(told).replace("\n", " ")
    in_bytes = session().sql(f"SELECT a.id, b.s {TWO} OPTIONS (memory = '4 kB')")
    rows = in_bytes.advise(policies=["rand"], sample=200).bound
    assert rows == pytest.approx(4000 / told.row_bytes, rel=0.05)


def test_the_least_memory_for_a_recall_lies_between_the_sizes_that_were_tried():
    trials = tuple(
        Trial(policy, "fixed", rows, 0, recall)
        for policy, recalls in (("rand", (0.2, 0.6, 1.0)), ("prob", (0.5, 0.8, 0.9)))
        for rows, recall in zip((10, 50, 100), recalls, strict=True)
    )
    told = Advice(1000, 60.0, 1.0, 500, 100, 40.0, trials)
    need = told.needs(0.7)
    assert need is not None
    assert (need.policy, need.rows) == ("prob", 37)
    assert told.needs(0.95).policy == "rand"
    assert Advice(1000, 60.0, 1.0, 500, 100, 40.0, trials[3:]).needs(0.95) is None


@pytest.mark.usefixtures("few_sizes")
def test_a_sample_that_does_not_fill_the_windows_is_pointed_out():
    told = session().sql(f"SELECT a.id {TWO}").advise(policies=["rand"], sample=100)
    assert any("take a larger sample" in note for note in told.notes)
    assert not any("larger sample" in note for note in advice().notes)


def test_with_little_time_only_the_beginning_is_used():
    told = session().sql(f"SELECT a.id {TWO}").advise(policies=["rand", "prob"], sample=800, seconds=0.01)
    assert told.sample_rows < 600
    assert any("--seconds" in note for note in told.notes)


def test_runs_for_which_there_is_no_time_are_left_out_and_told(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(trials, "working_seconds", lambda: now[0])
    run = Replay.run

    def slowly(*args, **named):  # every run takes a second
        now[0] += 1
        run(*args, **named)

    monkeypatch.setattr(Replay, "run", slowly)
    told = session().sql(f"SELECT a.id {TWO}").advise(policies=["rand", "prob"], sample=800, seconds=12)
    assert now[0] <= 12
    assert 2 <= len(told.trials) < 24
    assert {trial.policy for trial in told.trials} == {"rand", "prob"}
    assert {trial.allocation for trial in told.trials} == {"fixed"}
    assert any(f"time for {len(told.trials)} of 24 runs" in note for note in told.notes)
    assert " -" in advice_text(told) or len(told.sizes) < 6


def test_lines_fit_the_screen():
    assert max(map(len, advice_text(advice()).splitlines())) <= 80


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a.k FROM a",
        "SELECT a.k, COUNT(*) AS n FROM a [RANGE 5 SECONDS], b [RANGE 5 SECONDS] WHERE a.k = b.k GROUP BY a.k",
        f"SELECT a.k {TWO} OPTIONS (join = 'hash')",
    ],
)
def test_what_cannot_shed_is_refused(sql):
    with pytest.raises(UnsupportedError):
        session().sql(sql).advise(sample=100)


def test_an_unknown_policy_is_refused():
    with pytest.raises(OptionError, match="there is no policy 'best'"):
        session().sql(FORMS["two"]).advise(policies=["best"])


def test_a_sample_of_no_rows_is_refused():
    with pytest.raises(OptionError, match="a sample of 0 rows shows nothing"):
        session().sql(FORMS["two"]).advise(sample=0)


# ---- what EXPLAIN expects -------------------------------------------------------------------------------------------


def memory_of(sql: str, *, analyze: bool = True, rows: int = 3000) -> tuple[dict, float | None]:
    told = json.loads(session(rows).sql(sql).explain(format="json", analyze=analyze, sample=2 * rows))
    return told["memory"], told.get("measured", {}).get("recall")


@pytest.mark.slow
@pytest.mark.parametrize("allocation", ["fixed", "variable"])
@pytest.mark.parametrize("policy", ["rand", "prob"])
def test_the_recall_to_expect_is_close_to_what_is_measured(policy, allocation):
    options = f"OPTIONS (memory = '200 rows', shed = '{policy}', allocation = '{allocation}')"
    windows = "FROM a [RANGE 199 SECONDS], b [RANGE 199 SECONDS] WHERE a.k = b.k"
    memory, measured = memory_of(f"SELECT a.id {windows} {options}")
    assert sum(memory["rows_needed"].values()) == pytest.approx(400, rel=0.05)
    assert memory["rows_allowed"] == 200
    assert memory["keys"] == "measured"
    assert memory["recall"] == pytest.approx(measured, abs=0.04)


@pytest.mark.slow
def test_the_recall_of_three_streams_is_expected_too():
    sql = "SELECT a.id FROM a, b, c WHERE a.k = b.k AND b.k = c.k WINDOW = 60 SECONDS OPTIONS (memory = '96 rows'{})"
    rand, measured = memory_of(sql.format(", shed = 'rand'"))
    assert rand["recall"] == pytest.approx(measured, abs=0.06)
    prob, measured = memory_of(sql.format(""))
    assert prob["recall"] == pytest.approx(measured, abs=0.06)
    assert prob["recall"] > 1.5 * rand["recall"]


def test_without_measurements_keys_are_taken_to_be_even():
    sql = f"SELECT a.id {TWO} OPTIONS (memory = '40 rows')"
    memory, _ = memory_of(sql, analyze=False)
    assert memory["keys"] == "assumed"
    assert memory["recall"] == pytest.approx(0.5, abs=0.01)
    text = session().sql(sql).explain()
    assert "if all keys come equally often" in text
    assert max(map(len, text.splitlines())) <= 80
    beside = session().sql(sql).explain(analyze=True)
    assert "; measured " in beside


def test_closed_forms_give_the_papers_figures():
    """Zipf(1) over 50 keys, as often in both streams, a window of 400: RAND is linear, LIFE a little below PROB."""
    shares = 1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    streams = of_one_key([1.0, 1.0], [400.0, 400.0], [shares, shares])

    def recall(policy: str, memory: float, allocation: str = "fixed") -> float:
        kept = kept_shares(streams, memory, policy, allocation)
        return expected_recall(streams, kept, one_key=True)

    assert [recall("rand", memory) for memory in (80, 400, 800)] == pytest.approx([0.1, 0.5, 1.0])
    top = np.cumsum(shares) <= 0.5
    most = (shares[top] ** 2).sum() / (shares**2).sum()
    assert most < recall("prob", 400) < most + 0.05
    assert recall("prob", 400) > recall("life", 400) > recall("rand", 400)
    assert recall("prob", 400, "variable") == pytest.approx(recall("prob", 400))


# ---- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Path:
    lines = []
    for seed, name in enumerate("ab"):
        pq.write_table(table(seed, 150), tmp_path / f"{name}.parquet")
        where = tmp_path / f"{name}.parquet"
        lines.append(f"CREATE STREAM {name} WITH (source = 'parquet', path = '{where}', time = 'ts');")
    lines.append("SELECT a.id FROM a [RANGE 20 SECONDS], b [RANGE 20 SECONDS] WHERE a.k = b.k;")
    (tmp_path / "join.sql").write_text("\n".join(lines))
    return tmp_path / "join.sql"


@pytest.mark.usefixtures("few_sizes")
def test_the_command_prints_tables_or_json(script: Path, capsys: pytest.CaptureFixture[str]):
    assert call("advise", str(script), "--policies", "prob, rand") == 0
    shown = capsys.readouterr().out
    assert "recall with allocation = 'variable'" in shown
    assert "90% recall needs about" in shown
    assert call("advise", str(script), "--policies", "prob", "--format", "json", "--sample", "500") == 0
    told = json.loads(capsys.readouterr().out)["query 1"]
    assert {one["policy"] for one in told["trials"]} == {"prob"}
    assert told["needs"][0]["recall"] == 0.9


@pytest.mark.usefixtures("few_sizes")
def test_the_command_draws(script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("matplotlib")
    assert call("advise", str(script), "--policies", "prob,rand", "--plot", str(tmp_path / "memory.svg")) == 0
    drawn = (tmp_path / "memory.svg").read_text()
    assert all(word in drawn for word in ("optimum", "prob", "rows in memory"))
    assert call("advise", str(script), "--plot", str(tmp_path / "memory.doc")) == 2
    assert "ends in .svg" in capsys.readouterr().err


def test_without_matplotlib_the_way_out_is_told(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert call("advise", str(script), "--plot", str(tmp_path / "memory.svg")) == 2
    assert "plots need matplotlib" in capsys.readouterr().err


# ---- keys with many rows --------------------------------------------------------------------------------------------


def skewed(query: str, share: float, options: str = "") -> wm.Query:
    """One key, with a comma in its text, has a share of the rows of a, and half as many of b."""
    made = wm.Session()
    for seed, name in enumerate("ab"):
        rng = np.random.default_rng(seed)
        hot = rng.random(4000) < share / (1 + seed)
        k = np.where(hot, 17, rng.integers(100, 1100, 4000))
        rows = {"id": np.arange(4000), "k": k, "s": ["New York, NY" if one == 17 else f"town {one}" for one in k]}
        rows["ts"] = pa.array(1000 * np.arange(4000), pa.timestamp("us"))
        made.stream(name, pa.table(rows), time="ts")
    return made.sql(f"{query} OPTIONS (threads = 4{options})")


PAIRED = "SELECT a.id AS x, b.id AS y FROM a, b WHERE a.k = b.k WINDOW = 100 MILLISECONDS"


@pytest.mark.parametrize(("condition", "key"), [("a.k = b.k", "17"), ("a.s = b.s", '"New York, NY"')])
def test_the_option_that_is_proposed_is_taken_and_makes_the_work_even(condition: str, key: str) -> None:
    sql = PAIRED.replace("a.k = b.k", condition)
    advice = skewed(sql, 0.5).advise(policies=["rand"], seconds=0.5)
    skew = advice.skew
    assert skew is not None
    assert skew.fullest_then is not None
    assert (skew.places, skew.spread) == (4, f"a: {key}")
    assert skew.fullest > 2.5
    assert skew.fullest_then < 1.5
    for options, expected in ((f", spread = '{skew.spread}'", skew.fullest_then), ("", skew.fullest)):
        query = skewed(sql, 0.5, options)
        query.to_arrow()
        work = list(query.metrics()["work_by_bucket"].values())
        mean = (8000 + query.metrics()["results"]) / 4  # copies are more to do, and no more than there is
        assert max(work) / mean == pytest.approx(expected, rel=0.1)
    words = " ".join(str(advice).split())
    assert f"with OPTIONS (spread = 'a: {key}') it would do" in words
    assert advice.as_dict()["skew"]["spread"] == skew.spread


def test_even_keys_and_keys_that_are_spread_already_are_left_alone() -> None:
    even = skewed(PAIRED, 0.01).advise(policies=["rand"], seconds=0.5)
    assert even.skew is not None
    assert even.skew.fullest < 1.5
    assert even.skew.spread is None
    assert "spread" not in str(even)
    assert skewed(PAIRED, 0.5, ", spread = '17'").advise(policies=["rand"], seconds=0.5).skew is None
    theta = skewed(PAIRED.replace("a.k = b.k", "a.k < b.k").replace("100", "5"), 0.5)
    assert theta.advise(policies=["rand"], seconds=0.5).skew is None


def test_where_rows_must_lie_together_that_is_said_instead() -> None:
    counted = "SELECT a.id AS x FROM a [PARTITION BY k ROWS 3], b [RANGE 100 MILLISECONDS] WHERE a.k = b.k"
    advice = skewed(counted, 0.9).advise(policies=["rand"], seconds=0.5)
    assert advice.skew is not None
    assert (advice.skew.spread, advice.skew.why_none) == (None, "a window counts rows, which must lie together")
    assert "and its rows must lie together: a window counts rows" in " ".join(str(advice).split())
